//! A set of chains, sets and elements, and the text that turns one into another.
//!
//! In: two programs; out: nft commands for their difference, in an order that one transaction
//! accepts: what is referred to exists before it is referred to, and goes after. Pure.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Elements on one line; keeps lines of large tables readable for nft and for people.
const PER_LINE: usize = 200;

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

    /// The commands that make `old` this program.
    pub(super) fn change_from(&self, old: &Self) -> String {
        let mut text = String::new();
        self.drop_elements(old, &mut text);
        for (name, declaration) in &self.sets {
            if !old.sets.contains_key(name) {
                let _ = writeln!(text, "add set inet podlet {name} {{ {declaration} }}");
            }
        }
        for name in self.chains.keys().filter(|name| !old.chains.contains_key(*name)) {
            let _ = writeln!(text, "add chain inet podlet {name}");
        }
        for name in old.chains.keys() {
            if self.chains.get(name) != old.chains.get(name) {
                let _ = writeln!(text, "flush chain inet podlet {name}");
            }
        }
        for (name, rules) in &self.chains {
            if old.chains.get(name) != Some(rules) {
                for rule in rules {
                    let _ = writeln!(text, "add rule inet podlet {name} {rule}");
                }
            }
        }
        self.add_elements(old, &mut text);
        for name in old.chains.keys().filter(|name| !self.chains.contains_key(*name)) {
            let _ = writeln!(text, "delete chain inet podlet {name}");
        }
        for name in old.sets.keys().filter(|name| !self.sets.contains_key(*name)) {
            let _ = writeln!(text, "delete set inet podlet {name}");
        }
        text
    }

    fn drop_elements(&self, old: &Self, text: &mut String) {
        for (set, before) in &old.elements {
            let now = self.elements.get(set);
            let gone = before.iter().filter(|(k, v)| now.and_then(|now| now.get(*k)) != Some(v));
            write_elements(text, "delete", set, gone.map(|(key, value)| entry(key, value)));
        }
    }

    fn add_elements(&self, old: &Self, text: &mut String) {
        for (set, now) in &self.elements {
            let before = old.elements.get(set);
            let new = now.iter().filter(|(k, v)| before.and_then(|old| old.get(*k)) != Some(v));
            write_elements(text, "add", set, new.map(|(key, value)| entry(key, value)));
        }
    }
}

fn entry(key: &str, value: &Option<String>) -> String {
    match value {
        Some(value) => format!("{key} : {value}"),
        None => key.to_owned(),
    }
}

fn write_elements(
    text: &mut String,
    verb: &str,
    set: &str,
    elements: impl Iterator<Item = String>,
) {
    for some in elements.collect::<Vec<_>>().chunks(PER_LINE) {
        let _ = writeln!(text, "{verb} element inet podlet {set} {{ {} }}", some.join(", "));
    }
}
