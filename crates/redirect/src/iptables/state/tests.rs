//! Comparing what is there with what should be, and getting from one to the other.

use super::{Found, State, normal};
use crate::config::{Config, Host, Settings};
use crate::iptables::{change, restore};
use crate::rule::{Family, RuleSet};

fn config(inbound: &str, mode: &str) -> Config {
    let settings = Settings {
        inbound_ports_include: inbound.to_owned(),
        inbound_interception_mode: mode.to_owned(),
        outbound_ip_ranges_include: "*".to_owned(),
        ..Settings::default()
    };
    settings.config(&Host::default()).unwrap()
}

fn set(inbound: &str, mode: &str) -> RuleSet {
    crate::build(&config(inbound, mode))
}

/// Our text as if it had been saved: chains declared, rules appended.
fn as_saved(set: &RuleSet) -> String {
    restore(set, Family::V4)
        .lines()
        .map(|line| match line.strip_prefix("-N ") {
            Some(chain) => format!(":{chain} - [0:0]\n"),
            None => format!("{line}\n"),
        })
        .collect()
}

#[test]
fn what_iptables_prints_means_what_it_was_given() {
    for (given, printed) in [
        (
            "! -d 127.0.0.1/32 -p tcp -j TPROXY --tproxy-mark 1337/0xffffffff --on-port 15006",
            "! -d 127.0.0.1/32 -p tcp -j TPROXY --on-port 15006 --on-ip 0.0.0.0 --tproxy-mark 0x539/0xffffffff",
        ),
        (
            "-p tcp -m mark --mark 1337 -j CONNMARK --save-mark",
            "-p tcp -m mark --mark 0x539 -j CONNMARK --save-mark --nfmask 0xffffffff --ctmask 0xffffffff",
        ),
        (
            "-o lo ! -d ::1/128 -p tcp ! --dport 15008 -m owner --uid-owner 1337 -j X",
            "! -d ::1/128 -o lo -p tcp -m tcp ! --dport 15008 -m owner --uid-owner 1337 -j X",
        ),
        ("-j MARK --set-mark 1338", "-j MARK --set-xmark 0x53a/0xffffffff"),
        ("-d 10.1.2.3/8 -j RETURN", "-d 10.0.0.0/8 -j RETURN"),
        ("-d 0.0.0.0/0 -j X", "-j X"),
        (
            "-p tcp -m conntrack --ctstate RELATED,ESTABLISHED -j X",
            "-p tcp -m conntrack --ctstate ESTABLISHED,RELATED -j X",
        ),
    ] {
        assert_eq!(normal(given), normal(printed), "{given}");
    }
    assert_ne!(normal("! -d 10.0.0.1/32 -j X"), normal("-d 10.0.0.1/32 -j X"));
    assert_ne!(normal("-p tcp --dport 80 -j X"), normal("-p udp --dport 80 -j X"));
}

#[test]
fn rules_of_others_are_not_ours() {
    let others = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j DROP\nCOMMIT\n*nat\n:OUTPUT ACCEPT [0:0]\n:DOCKER - [0:0]\n-A OUTPUT -j DOCKER\nCOMMIT\n";
    let state = State::parse(others);
    assert!(state.has_rules());
    assert_eq!(state.compare(&set("*", ""), Family::V4), Found::Clean);
    assert!(!State::parse("*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n").has_rules());
}

#[test]
fn the_same_rules_are_recognised_among_those_of_others() {
    let set = set("*", "");
    let saved = as_saved(&set);
    let between = saved.replace(
        "-A OUTPUT -j ISTIO_OUTPUT",
        "-A OUTPUT -j A\n-A OUTPUT -j ISTIO_OUTPUT\n-A OUTPUT -j B",
    );
    for text in [saved, between] {
        assert_eq!(State::parse(&text).compare(&set, Family::V4), Found::Same);
    }
}

#[test]
fn a_difference_is_named() {
    let wanted = set("*", "");
    let saved = as_saved(&wanted);
    let compare = |text: &str| State::parse(text).compare(&wanted, Family::V4);
    let differs = |text: &str, part: &str| match compare(text) {
        Found::Different(what) => assert!(what.contains(part), "{what}"),
        other => panic!("{other:?} instead of {part}"),
    };
    differs(
        &as_saved(&set("80,81", "")),
        "chain ISTIO_INBOUND of table nat has 3 rules and should have 2",
    );
    differs(&as_saved(&set("*", "TPROXY")), "chain ISTIO_DIVERT of table mangle is left");
    differs(
        &saved
            .replace("ISTIO_REDIRECT - ", "ISTIO_OTHER - ")
            .replace("-A ISTIO_REDIRECT", "-A ISTIO_OTHER"),
        "chain ISTIO_REDIRECT of table nat is missing",
    );
    differs(&saved.replace("COMMIT", "-A OUTPUT -p tcp -j ISTIO_OUTPUT\nCOMMIT"), "more than once");
    let swapped: Vec<&str> = {
        let mut lines: Vec<&str> = saved.lines().collect();
        let at = lines.iter().position(|l| l.contains("-o lo -s")).unwrap();
        lines.swap(at, at + 1);
        lines
    };
    differs(&swapped.join("\n"), "stand in another order");
}

#[test]
fn what_cannot_be_recognised_is_asked() {
    let settings = Settings { owner_groups_exclude: "games".to_owned(), ..Settings::default() };
    let set = crate::build(&settings.config(&Host::default()).unwrap());
    let saved = as_saved(&set).replace("games", "60");
    let Found::Unsure(questions) = State::parse(&saved).compare(&set, Family::V4) else {
        panic!("the name and the number are not the same text")
    };
    assert_eq!(questions.len(), 1);
    assert_eq!((questions[0].table, questions[0].chain), ("nat", "ISTIO_OUTPUT"));
    assert_eq!(questions[0].rule, "-m owner --gid-owner games -j RETURN");
}

#[test]
fn a_replacement_names_only_what_is_ours() {
    let old = as_saved(&set("*", "TPROXY"))
        .replace("*nat\n", "*nat\n:OTHER - [0:0]\n-A PREROUTING -j OTHER\n");
    let state = State::parse(&old);
    let text = change::replace(&state, &set("*", ""), &[&set("*", "TPROXY")], Family::V4);
    assert!(!text.contains("OTHER"), "{text}");
    assert!(text.contains("-X ISTIO_DIVERT") && text.contains("-X ISTIO_TPROXY"), "{text}");
    assert!(text.contains("-D OUTPUT -p tcp -m connmark --mark 1337 -j CONNMARK --restore-mark"));
    assert!(text.contains(":ISTIO_OUTPUT - [0:0]"), "{text}");
    let removed = change::remove(&state, &[], Family::V4);
    assert!(!removed.contains("-A "), "{removed}");
    assert_eq!(change::remove(&State::default(), &[], Family::V4), "");
}

#[test]
fn undoing_puts_back_the_tables_that_changed() {
    let before =
        State::parse("*nat\n:OUTPUT ACCEPT [1:2]\n-A OUTPUT -j X\nCOMMIT\n*filter\nCOMMIT\n");
    let change = restore(&set("*", "TPROXY"), Family::V4);
    assert_eq!(
        change::undo(&before, &change),
        "*mangle\nCOMMIT\n*nat\n:OUTPUT ACCEPT [1:2]\n-A OUTPUT -j X\nCOMMIT\n"
    );
}
