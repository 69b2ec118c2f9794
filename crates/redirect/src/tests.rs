//! Golden files: `testdata/<case>/settings` → the three texts beside it. `UPDATE=1` rewrites them.

use std::path::{Path, PathBuf};

use crate::config::{Config, Host, Settings};
use crate::{Family, build, iptables, nftables};

/// Reads `name = value` lines with the names of [`Settings`], and `ipv6` and `name_servers`.
fn config(settings: &str) -> Config {
    let mut of = Settings::default();
    let mut host = Host::default();
    for line in settings.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, value) = line.split_once(" = ").expect("a name and a value");
        let on = value == "true";
        let text = value.to_owned();
        match name {
            "inbound_interception_mode" => of.inbound_interception_mode = text,
            "inbound_ports_include" => of.inbound_ports_include = text,
            "inbound_ports_exclude" => of.inbound_ports_exclude = text,
            "outbound_ports_include" => of.outbound_ports_include = text,
            "outbound_ports_exclude" => of.outbound_ports_exclude = text,
            "outbound_ip_ranges_include" => of.outbound_ip_ranges_include = text,
            "outbound_ip_ranges_exclude" => of.outbound_ip_ranges_exclude = text,
            "owner_groups_include" => of.owner_groups_include = text,
            "owner_groups_exclude" => of.owner_groups_exclude = text,
            "reroute_virtual_interfaces" => of.reroute_virtual_interfaces = text,
            "exclude_interfaces" => of.exclude_interfaces = text,
            "proxy_uid" => of.proxy_uid = text,
            "proxy_gid" => of.proxy_gid = text,
            "loopback_cidr" => of.loopback_cidr = text,
            "redirect_dns" => of.redirect_dns = on,
            "capture_all_dns" => of.capture_all_dns = on,
            "drop_invalid" => of.drop_invalid = on,
            "ipv6" => host.ipv6 = on,
            "name_servers" => {
                host.name_servers = value.split(',').map(|s| s.parse().unwrap()).collect();
            }
            _ => panic!("no setting is called {name}"),
        }
    }
    of.config(&host).unwrap()
}

pub(crate) fn cases() -> Vec<(PathBuf, Config)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut cases: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|case| {
            let settings = std::fs::read_to_string(case.join("settings")).unwrap();
            let config = config(&settings);
            (case, config)
        })
        .collect();
    cases.sort_by(|one, other| one.0.cmp(&other.0));
    cases
}

fn check(file: &Path, text: &str, update: bool, faults: &mut Vec<String>) {
    if update {
        if text.is_empty() {
            let _ = std::fs::remove_file(file);
        } else {
            std::fs::write(file, text).unwrap();
        }
        return;
    }
    if std::fs::read_to_string(file).unwrap_or_default() != text {
        faults.push(format!("{}:\n{text}", file.display()));
    }
}

#[test]
fn golden_files_hold_the_texts() {
    let update = ironsail_sys::env::Env::of_process().var("UPDATE") == Some("1");
    let mut faults = Vec::new();
    let cases = cases();
    assert!(cases.len() >= 10, "only {} cases", cases.len());
    for (case, config) in cases {
        let set = build(&config);
        let v6 = if config.ipv6 { iptables::restore(&set, Family::V6) } else { String::new() };
        let mut file = |name: &str, text: &str| check(&case.join(name), text, update, &mut faults);
        file("iptables", &iptables::restore(&set, Family::V4));
        file("ip6tables", &v6);
        file("nftables", &nftables::script(&set));
    }
    assert!(faults.is_empty(), "differs (UPDATE=1 rewrites):\n{}", faults.join("\n"));
}

#[test]
fn every_jump_has_a_target_and_every_chain_a_rule() {
    for (case, config) in cases() {
        let text = nftables::script(&build(&config));
        for line in text.lines().filter(|line| line.starts_with("add rule")) {
            if let Some((_, target)) = line.split_once("jump ") {
                let table = line.split(' ').nth(3).unwrap();
                let chain = format!("add chain inet {table} {target}");
                assert!(text.contains(&chain), "{}: {line}", case.display());
            }
        }
    }
}
