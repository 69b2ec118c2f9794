//! Family `nftables`: settings → the rules of `istio-iptables --native-nftables`.
//!
//! Both texts are run in mind, and the tables they leave are compared: chains with their hooks, and rules
//! as sets of conditions and actions. What a port match says of the protocol need not be said twice.

use std::path::Path;

use ironsail_redirect::nftables::script;

use super::Case;
use super::iptables::judge;
use super::ruleset::Ruleset;

pub(super) fn cases(folder: &Path) -> anyhow::Result<Vec<Case>> {
    judge(folder, |config, expected| {
        let ours = script(&ironsail_redirect::build(config));
        ruleset(&ours)?.same_as(&ruleset(expected)?)
    })
}

fn ruleset(text: &str) -> Result<Ruleset, String> {
    let mut set = Ruleset::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["add", "table", "inet", _] => {}
            ["flush" | "delete", "table", "inet", table] => set.drop_table(table),
            ["add", "chain", "inet", table, chain, hook @ ..] => {
                set.add_chain(table, chain);
                let hook = hook.join(" ");
                // As a rule of its own, so that it is compared too.
                set.append(table, &format!("{chain} (hook)"), vec![hook]);
            }
            ["add", "rule", "inet", table, chain, rule @ ..] => {
                set.append(table, chain, parts(rule)?);
            }
            ["insert", "rule", "inet", table, chain, "index", index, rule @ ..] => {
                let index = index.parse().map_err(|_| format!("no index in {line}"))?;
                set.insert(table, chain, index, parts(rule)?);
            }
            _ => return Err(format!("cannot read {line:?}")),
        }
    }
    Ok(set)
}

/// Conditions and actions of a rule.
fn parts(words: &[&str]) -> Result<Vec<String>, String> {
    let mut parts = Vec::new();
    let mut rest = words;
    loop {
        let (part, length) = match rest {
            [] => break,
            ["counter", ..] => (String::new(), 1),
            [verdict @ ("return" | "accept" | "drop"), ..] => ((*verdict).to_owned(), 1),
            ["jump", chain, ..] => (format!("jump {chain}"), 2),
            ["redirect", "to", port, ..] => (format!("redirect {port}"), 3),
            ["tproxy", family, "to", port, ..] => (format!("tproxy {family} {port}"), 4),
            ["meta", "mark", "set", "ct", "mark", ..] => ("restore mark".to_owned(), 5),
            ["meta", "mark", "set", mark, ..] => (format!("set mark {mark}"), 4),
            ["ct", "mark", "set", "meta", "mark", ..] => ("save mark".to_owned(), 5),
            ["ct", "mark", "set", "mark", ..] => ("save mark".to_owned(), 4),
            ["ct", "zone", "set", zone, ..] => (format!("zone {zone}"), 4),
            ["meta", "l4proto", protocol, ..] => (format!("protocol {protocol}"), 3),
            ["meta", tail @ ..] => {
                rest = tail;
                continue;
            }
            [protocol @ ("tcp" | "udp"), side, tail @ ..] => {
                parts.push(format!("protocol {protocol}"));
                let (value, length) = value(tail)?;
                (format!("{side} {value}"), 2 + length)
            }
            [of @ ("ip" | "ip6" | "ct"), field, tail @ ..] => {
                let (value, length) = value(tail)?;
                (format!("{of} {field} {value}"), 2 + length)
            }
            [
                field @ ("iifname" | "oifname" | "skuid" | "skgid" | "mark" | "nfproto"),
                tail @ ..,
            ] => {
                let (value, length) = value(tail)?;
                (format!("{field} {value}"), 1 + length)
            }
            _ => return Err(format!("cannot read {:?} in a rule", rest.join(" "))),
        };
        parts.push(part);
        rest = &rest[length..];
    }
    parts.retain(|part| !part.is_empty());
    parts.sort();
    parts.dedup();
    Ok(parts)
}

/// `X`, `!= X`, or either with a set in braces; and how many words that was.
fn value(words: &[&str]) -> Result<(String, usize), String> {
    match words {
        ["!=", tail @ ..] => value(tail).map(|(value, length)| (format!("!= {value}"), length + 1)),
        ["{", tail @ ..] => {
            let end = tail.iter().position(|word| *word == "}").ok_or("a set without an end")?;
            Ok((tail[..end].concat(), end + 2))
        }
        [value, ..] => Ok((value.trim_matches('"').to_owned(), 1)),
        [] => Err("a condition without a value".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::ruleset;

    #[test]
    fn what_a_port_says_of_the_protocol_need_not_be_said_twice() {
        let rule = |text: &str| ruleset(&format!("add rule inet t c {text}")).unwrap();
        assert_eq!(
            rule("meta l4proto tcp tcp dport != { 53, 80 } skuid 3 counter jump x"),
            rule("tcp dport != { 53, 80 } meta skuid 3 counter jump x")
        );
        assert_ne!(rule("tcp dport 53 counter return"), rule("udp dport 53 counter return"));
    }

    #[test]
    fn a_flushed_table_holds_only_what_comes_after() {
        let twice = "add table inet t\nadd rule inet t c counter drop\nflush table inet t\nadd rule inet t c counter accept";
        let once = "add table inet t\nadd rule inet t c counter accept";
        assert_eq!(ruleset(twice), ruleset(once));
    }

    #[test]
    fn words_that_are_not_known_are_refused() {
        assert!(ruleset("add rule inet t c fib daddr type local return").is_err());
    }
}
