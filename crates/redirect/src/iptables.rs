//! Rules as iptables writes them.
//!
//! In: a [`RuleSet`]; out: the text for `iptables-restore --noflush`, one per family. [`state`] reads
//! what `iptables-save` prints, and [`change`] turns one into the other.

pub mod change;
mod spell;
pub mod state;

use std::fmt::Write;

use crate::rule::{Action, Chain, Family, Place, Rule, RuleSet, Table};

pub(crate) use spell::spell;

/// In the order of `iptables-restore` texts.
const TABLES: [Table; 3] = [Table::Mangle, Table::Nat, Table::Raw];

/// The prefix of all chains that are ours.
pub const PREFIX: &str = "ISTIO_";

pub fn table_name(table: Table) -> &'static str {
    match table {
        Table::Nat => "nat",
        Table::Mangle => "mangle",
        Table::Raw => "raw",
    }
}

pub fn chain_name(chain: Chain) -> &'static str {
    match chain {
        Chain::Prerouting => "PREROUTING",
        Chain::Output => "OUTPUT",
        Chain::Inbound => "ISTIO_INBOUND",
        Chain::Redirect => "ISTIO_REDIRECT",
        Chain::InRedirect => "ISTIO_IN_REDIRECT",
        Chain::IstioOutput => "ISTIO_OUTPUT",
        Chain::OutputDns => "ISTIO_OUTPUT_DNS",
        Chain::Divert => "ISTIO_DIVERT",
        Chain::Tproxy => "ISTIO_TPROXY",
        Chain::Drop => "ISTIO_DROP",
    }
}

/// The text for an empty namespace: fails, and changes nothing, where one of the chains exists.
pub fn restore(set: &RuleSet, family: Family) -> String {
    let mut text = String::new();
    for table in TABLES {
        let rules: Vec<&Rule> = set.of(table, family).collect();
        if rules.is_empty() {
            continue;
        }
        let chains = chains(&rules).into_iter().map(|chain| format!("-N {}\n", chain_name(chain)));
        let _ = writeln!(text, "*{}", table_name(table));
        text.extend(chains);
        text.extend(commands(&rules));
        text.push_str("COMMIT\n");
    }
    text
}

/// Our own chains in which there are rules or to which rules jump.
fn chains(rules: &[&Rule]) -> Vec<Chain> {
    let mut chains: Vec<Chain> = Vec::new();
    let jumps = rules.iter().filter_map(|rule| match rule.action {
        Action::Jump(chain) => Some(chain),
        _ => None,
    });
    for chain in rules.iter().map(|rule| rule.chain).chain(jumps) {
        if !chain.is_hook() && !chains.contains(&chain) {
            chains.push(chain);
        }
    }
    chains
}

/// One line a rule. Those for the head of a hook are counted from its first place.
fn commands(rules: &[&Rule]) -> Vec<String> {
    let mut heads: Vec<Chain> = Vec::new();
    let mut lines = Vec::new();
    for rule in rules {
        let chain = chain_name(rule.chain);
        let line = match rule.place {
            Place::Head => {
                heads.push(rule.chain);
                let position = heads.iter().filter(|c| **c == rule.chain).count();
                format!("-I {chain} {position} {}\n", spell(rule))
            }
            Place::Tail => format!("-A {chain} {}\n", spell(rule)),
        };
        lines.push(line);
    }
    lines
}
