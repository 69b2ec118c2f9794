//! From what is there to what should be, in one `iptables-restore --noflush` text per family.
//!
//! In: a [`State`] and rule sets; out: text. Rules and chains of others are never named. Each table
//! changes as a whole; [`undo`] puts tables back when a later one failed.

use std::fmt::Write;

use super::state::{State, jumps_to_ours, normal};
use super::{TABLES, chain_name, chains, commands, spell, table_name};
use crate::rule::{Chain, Family, Rule, RuleSet, Table};

/// Makes `set` the only rules of ours. `known` are further sets whose rules in hooks count as ours.
pub fn replace(state: &State, set: &RuleSet, known: &[&RuleSet], family: Family) -> String {
    let mut text = String::new();
    for table in TABLES {
        let rules: Vec<&Rule> = set.of(table, family).collect();
        let old = own_in_hooks(state, table, known.iter().copied().chain([set]), family);
        if rules.is_empty() && old.is_empty() && !state.has_ours(table) {
            continue;
        }
        let wanted: Vec<&str> = chains(&rules).into_iter().map(chain_name).collect();
        let obsolete: Vec<&str> =
            state.own_chains(table).filter(|own| !wanted.contains(own)).collect();
        let _ = writeln!(text, "*{}", table_name(table));
        // This line makes a chain, or empties the one that is there.
        for chain in wanted.iter().chain(&obsolete) {
            let _ = writeln!(text, ":{chain} - [0:0]");
        }
        for (hook, rule) in old {
            let _ = writeln!(text, "-D {hook} {rule}");
        }
        for chain in obsolete {
            let _ = writeln!(text, "-X {chain}");
        }
        text.extend(commands(&rules));
        text.push_str("COMMIT\n");
    }
    text
}

/// Removes all rules of ours.
pub fn remove(state: &State, known: &[&RuleSet], family: Family) -> String {
    replace(state, &RuleSet::default(), known, family)
}

/// The text for `iptables-restore` (with flush) that puts back every table `change` names.
pub fn undo(before: &State, change: &str) -> String {
    change
        .lines()
        .filter_map(|line| line.strip_prefix('*'))
        .map(|table| before.text(table))
        .collect()
}

/// Rules of ours among the rules of all in the hooks, as iptables printed them.
fn own_in_hooks<'a>(
    state: &'a State,
    table: Table,
    sets: impl Iterator<Item = &'a RuleSet>,
    family: Family,
) -> Vec<(&'static str, &'a str)> {
    let known: Vec<(Chain, Vec<String>)> = sets
        .flat_map(|set| set.of(table, family))
        .filter(|rule| rule.chain.is_hook())
        .map(|rule| (rule.chain, normal(&spell(rule))))
        .collect();
    let mut own = Vec::new();
    for hook in [Chain::Prerouting, Chain::Output] {
        for rule in state.rules(table, chain_name(hook)) {
            let is_known = || known.contains(&(hook, normal(rule)));
            if jumps_to_ours(rule) || is_known() {
                own.push((chain_name(hook), rule.as_str()));
            }
        }
    }
    own
}
