//! A set of chains, sets and elements, and the text that turns one into another.
//!
//! In: two programs; out: nft commands for their difference, in an order that one transaction
//! accepts: what is referred to exists before it is referred to, and goes after. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Elements changed in one step.
const PER_STEP: usize = 200;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Program {
    /// Sets that belong to single ports, by name, with their declaration.
    pub(super) sets: BTreeMap<String, String>,
    /// Chains by name, with their rules.
    pub(super) chains: BTreeMap<String, Vec<String>>,
    /// Elements of the fixed sets and maps: set, then key, then what a map holds under it.
    pub(super) elements: BTreeMap<&'static str, BTreeMap<String, Option<String>>>,
}

impl Program {
    /// Adds an element unless its key is taken: the first one with a key keeps it.
    pub(super) fn element(&mut self, set: &'static str, key: String, value: Option<String>) {
        self.elements.entry(set).or_default().entry(key).or_insert(value);
    }

    /// The steps that make `old` this program. Together they are one transaction; where the kernel
    /// does not take that much at once, each step leaves rules that work.
    pub(super) fn change_from(&self, old: &Self) -> Vec<String> {
        let mut steps = Vec::new();
        for (name, declaration) in &self.sets {
            if !old.sets.contains_key(name) {
                steps.push(format!("add set inet podlet {name} {{ {declaration} }}\n"));
            }
        }
        for name in self.chains.keys().filter(|name| !old.chains.contains_key(*name)) {
            steps.push(format!("add chain inet podlet {name}\n"));
        }
        for (name, rules) in &self.chains {
            let before = old.chains.get(name);
            if before == Some(rules) {
                continue;
            }
            let mut step = String::new();
            if before.is_some() {
                let _ = writeln!(step, "flush chain inet podlet {name}");
            }
            for rule in rules {
                let _ = writeln!(step, "add rule inet podlet {name} {rule}");
            }
            steps.push(step);
        }
        self.change_elements(old, &mut steps);
        let gone = || old.chains.keys().filter(|name| !self.chains.contains_key(*name));
        steps.extend(gone().map(|name| format!("flush chain inet podlet {name}\n")));
        steps.extend(gone().map(|name| format!("delete chain inet podlet {name}\n")));
        for name in old.sets.keys().filter(|name| !self.sets.contains_key(*name)) {
            steps.push(format!("delete set inet podlet {name}\n"));
        }
        steps
    }

    fn change_elements(&self, old: &Self, steps: &mut Vec<String>) {
        let none = BTreeMap::new();
        let sets: BTreeSet<_> = old.elements.keys().chain(self.elements.keys()).collect();
        for set in sets {
            let before = old.elements.get(set).unwrap_or(&none);
            let now = self.elements.get(set).unwrap_or(&none);
            let keys: BTreeSet<_> = before.keys().chain(now.keys()).collect();
            let changed: Vec<_> =
                keys.into_iter().filter(|k| before.get(*k) != now.get(*k)).collect();
            for some in changed.chunks(PER_STEP) {
                let list = |from: &BTreeMap<String, Option<String>>| {
                    let known = some.iter().filter_map(|k| Some(entry(k, from.get(*k)?)));
                    known.collect::<Vec<_>>().join(", ")
                };
                let mut step = String::new();
                for (verb, list) in [("delete", list(before)), ("add", list(now))] {
                    if !list.is_empty() {
                        let _ = writeln!(step, "{verb} element inet podlet {set} {{ {list} }}");
                    }
                }
                steps.push(step);
            }
        }
    }
}

fn entry(key: &str, value: &Option<String>) -> String {
    match value {
        Some(value) => format!("{key} : {value}"),
        None => key.to_owned(),
    }
}
