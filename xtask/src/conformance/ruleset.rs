//! Packet rules as a kernel would hold them after running a text: tables, chains, rules in order.
//!
//! In: commands that append and insert; out: something that can be compared. Shared by the families of
//! packet rules. The spelling of a rule is the business of those.

use std::collections::BTreeMap;

/// Table and chain, with the rules in the order a packet meets them. A rule is a sorted list of parts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ruleset(BTreeMap<(String, String), Vec<Vec<String>>>);

impl Ruleset {
    pub(super) fn add_chain(&mut self, table: &str, chain: &str) {
        self.0.entry((table.to_owned(), chain.to_owned())).or_default();
    }

    pub(super) fn drop_table(&mut self, table: &str) {
        self.0.retain(|(of, _), _| of != table);
    }

    pub(super) fn append(&mut self, table: &str, chain: &str, rule: Vec<String>) {
        self.0.entry((table.to_owned(), chain.to_owned())).or_default().push(rule);
    }

    /// Before the rule number `index`, counted from zero.
    pub(super) fn insert(&mut self, table: &str, chain: &str, index: usize, rule: Vec<String>) {
        let rules = self.0.entry((table.to_owned(), chain.to_owned())).or_default();
        rules.insert(index.min(rules.len()), rule);
    }

    /// Fine, or the first chain that differs.
    pub(super) fn same_as(&self, expected: &Self) -> Result<(), String> {
        for (at @ (table, chain), rules) in &expected.0 {
            let Some(ours) = self.0.get(at) else {
                return Err(format!("chain {chain} of table {table} is missing"));
            };
            let longest = rules.len().max(ours.len());
            for index in 0..longest {
                let (rule, our) = (rules.get(index), ours.get(index));
                if rule != our {
                    return Err(format!(
                        "rule {} of chain {chain} of table {table}: {} instead of {}",
                        index + 1,
                        show(our),
                        show(rule)
                    ));
                }
            }
        }
        match self.0.keys().find(|at| !expected.0.contains_key(*at)) {
            Some((table, chain)) => Err(format!("chain {chain} of table {table} is too much")),
            None => Ok(()),
        }
    }
}

fn show(rule: Option<&Vec<String>>) -> String {
    rule.map_or_else(|| "nothing".to_owned(), |parts| format!("[{}]", parts.join(" | ")))
}
