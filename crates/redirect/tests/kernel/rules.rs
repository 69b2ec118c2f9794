//! Rules in a real kernel: put in place twice, replaced, undone, removed, probed.

use std::path::Path;
use std::time::Duration;

use ironsail_redirect::apply::{self, Backend, Error, Kind, Options, Outcome, probe};
use ironsail_redirect::config::{Config, Host, Settings};
use ironsail_sys::netns::Netns;

use crate::pod::{PROXY, as_owner, feed, lonely, programs, sh};

const KINDS: [Backend; 3] =
    [Backend::Iptables(Some(Kind::Nft)), Backend::Iptables(Some(Kind::Legacy)), Backend::Nftables];

fn config(change: impl FnOnce(&mut Settings, &mut Host)) -> Config {
    let mut settings = Settings {
        inbound_ports_include: "*".to_owned(),
        outbound_ip_ranges_include: "*".to_owned(),
        ..Settings::default()
    };
    let mut host = Host { ipv6: true, name_servers: Vec::new() };
    change(&mut settings, &mut host);
    settings.config(&host).unwrap()
}

fn tproxy(settings: &mut Settings) {
    settings.inbound_interception_mode = "TPROXY".to_owned();
    settings.drop_invalid = true;
    settings.redirect_dns = true;
    settings.capture_all_dns = true;
}

fn run(netns: &Netns, config: &Config, options: Options) -> Result<Outcome, Error> {
    netns.run(|| apply::apply(config, &options, &programs())).unwrap()
}

fn once(backend: Backend) -> Options {
    Options { backend, reconcile: false, force: false }
}

/// Everything that packets meet, without counters, times and tables without rules.
fn everything(netns: &Netns) -> Vec<String> {
    let mut lines = Vec::new();
    for command in [
        "iptables-nft-save",
        "ip6tables-nft-save",
        "iptables-legacy-save",
        "ip6tables-legacy-save",
        "nft list ruleset inet",
        "ip rule",
        "ip -6 rule",
        "ip route show table all",
        "ip -6 addr show dev lo",
    ] {
        let mut table = String::new();
        for line in sh(netns, command).lines() {
            if let Some(name) = line.strip_prefix('*') {
                table = name.to_owned();
            }
            let head = line.starts_with(['#', ':', '*']) && !line.contains("ISTIO");
            // The kernel's own routes to an address come a little after the address.
            let own = line.contains("proto kernel");
            if !head && !own && line != "COMMIT" {
                lines.push(format!("{command} {table}: {}", without_counter(line)));
            }
        }
    }
    lines
}

fn without_counter(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let counter = words.iter().position(|word| *word == "counter");
    let keep = |i: usize| counter.is_none_or(|at| !(at + 1..=at + 4).contains(&i));
    let words = words.iter().enumerate().filter(|(i, _)| keep(*i)).map(|(_, word)| *word);
    words.collect::<Vec<_>>().join(" ")
}

/// Fails with the lines that only one of them has.
#[track_caller]
fn assert_same(now: &[String], before: &[String], what: impl std::fmt::Debug) {
    let only = |one: &[String], other: &[String]| -> Vec<String> {
        one.iter().filter(|line| !other.contains(line)).cloned().collect()
    };
    assert!(now == before, "{what:?}: new {:#?}, gone {:#?}", only(now, before), only(before, now));
}

#[test]
fn the_second_run_changes_nothing_and_cleaning_leaves_nothing() {
    for backend in KINDS {
        for config in [config(|_, _| ()), config(|settings, _| tproxy(settings))] {
            let netns = lonely();
            assert_eq!(run(&netns, &config, once(backend)).unwrap(), Outcome::Applied);
            let first = everything(&netns);
            let again = run(&netns, &config, once(backend)).unwrap();
            let expected =
                if backend == Backend::Nftables { Outcome::Replaced } else { Outcome::Unchanged };
            assert_eq!(again, expected, "{backend:?}");
            assert_same(&everything(&netns), &first, backend);
            let force = Options { force: true, ..once(backend) };
            assert_eq!(run(&netns, &config, force).unwrap(), Outcome::Replaced);
            assert_same(&everything(&netns), &first, ("forced", backend));
            netns.run(|| apply::clean(&config, backend, &programs())).unwrap().unwrap();
            let left = everything(&netns);
            let ours = |line: &&String| {
                let line = line.to_lowercase();
                ["istio", "0x539", "0x53a", "::6/128", "133"].iter().any(|w| line.contains(w))
            };
            assert_eq!(left.iter().find(ours), None, "{backend:?}");
        }
    }
}

#[test]
fn the_kind_in_use_is_found_again() {
    let netns = lonely();
    let config = config(|_, _| ());
    run(&netns, &config, once(Backend::Iptables(Some(Kind::Legacy)))).unwrap();
    assert_eq!(run(&netns, &config, once(Backend::Iptables(None))).unwrap(), Outcome::Unchanged);
    assert_eq!(sh(&netns, "iptables-nft-save"), "", "nothing of the other kind");
}

#[test]
fn a_groups_name_is_recognised_by_its_number() {
    let named = config(|settings, _| settings.owner_groups_exclude = "root".to_owned());
    let other = config(|settings, _| settings.owner_groups_exclude = "daemon".to_owned());
    for kind in [Kind::Nft, Kind::Legacy] {
        let (netns, options) = (lonely(), once(Backend::Iptables(Some(kind))));
        run(&netns, &named, options).unwrap();
        assert_eq!(run(&netns, &named, options).unwrap(), Outcome::Unchanged);
        let error = run(&netns, &other, options).unwrap_err().to_string();
        assert!(error.contains("lacks the rule -m owner --gid-owner daemon"), "{error}");
    }
}

#[test]
fn reconciling_gives_what_a_clean_start_gives_and_spares_others() {
    let others = "*nat\n:OTHERS - [0:0]\n-A PREROUTING -p udp -j OTHERS\n-A OUTPUT -p udp -j OTHERS\nCOMMIT\n";
    let (old, new) = (
        config(|settings, _| tproxy(settings)),
        config(|settings, _| settings.inbound_ports_include = "80,443".to_owned()),
    );
    for kind in [Kind::Nft, Kind::Legacy] {
        let backend = Backend::Iptables(Some(kind));
        let restore =
            if kind == Kind::Nft { "iptables-nft-restore" } else { "iptables-legacy-restore" };
        let (changed, fresh) = (lonely(), lonely());
        for netns in [&changed, &fresh] {
            feed(netns, &format!("{restore} --noflush"), others);
        }
        run(&changed, &old, once(backend)).unwrap();
        let before = everything(&changed);
        let error = run(&changed, &new, once(backend)).unwrap_err();
        assert!(matches!(error, Error::Drift { .. }), "{error}");
        assert_same(&everything(&changed), &before, "a refusal changes nothing");
        let reconcile = Options { reconcile: true, ..once(backend) };
        assert_eq!(run(&changed, &new, reconcile).unwrap(), Outcome::Replaced);
        run(&fresh, &new, once(backend)).unwrap();
        let saved = |netns: &Netns| {
            let tables = sh(netns, &restore.replace("restore", "save"));
            let rules = tables.lines().filter(|line| line.starts_with("-A"));
            rules.map(|line| line.to_owned() + "\n").collect::<String>()
        };
        assert_eq!(saved(&changed), saved(&fresh));
    }
}

#[test]
fn a_failure_leaves_the_rules_as_they_were() {
    let good = config(|settings, _| settings.inbound_ports_include = "80".to_owned());
    // The mangle table is written first and is fine; nat then names a group that nobody has.
    let bad = config(|settings, _| {
        tproxy(settings);
        settings.owner_groups_exclude = "no-such-group-here".to_owned();
    });
    for backend in KINDS {
        let netns = lonely();
        let reconcile = Options { reconcile: true, ..once(backend) };
        run(&netns, &good, reconcile).unwrap();
        let before = everything(&netns);
        let error = run(&netns, &bad, reconcile).unwrap_err();
        assert!(matches!(error, Error::Failed { .. }), "{backend:?}: {error}");
        assert_same(&everything(&netns), &before, backend);
    }
}

#[test]
fn the_kernel_takes_every_golden_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    for case in std::fs::read_dir(folder).unwrap() {
        let case = case.unwrap().path();
        for (file, command) in [
            ("iptables", "iptables-nft-restore --noflush"),
            ("ip6tables", "ip6tables-nft-restore --noflush"),
            ("iptables", "iptables-legacy-restore --noflush"),
            ("ip6tables", "ip6tables-legacy-restore --noflush"),
            ("nftables", "nft -f -"),
        ] {
            if let Ok(text) = std::fs::read_to_string(case.join(file)) {
                feed(&Netns::create().unwrap(), command, &text);
            }
        }
    }
}

#[test]
fn the_probe_passes_only_where_connections_are_redirected() {
    for ipv6 in [false, true] {
        for backend in KINDS {
            let netns = lonely();
            let config = config(|_, host| host.ipv6 = ipv6);
            let check = |uid: u32, within| {
                let work = || as_owner(uid, uid, || probe::check(&config, 15002, within));
                netns.run(work).unwrap()
            };
            let short = Duration::from_millis(50);
            let error = check(PROXY, short).unwrap_err();
            assert!(matches!(error, probe::Error::NotRedirected { .. }), "{error}");
            run(&netns, &config, once(backend)).unwrap();
            check(PROXY, Duration::from_secs(20)).unwrap();
            // The application's own connections to itself pass.
            assert!(check(1000, short).is_err(), "{backend:?}");
        }
    }
}
