//! What is there already: the output of `iptables-save`, and how it compares with a rule set.
//!
//! In: text of a program; out: whether our rules are absent, the same or different. iptables prints a
//! rule in other words than it was given, so both are brought to one form first. Where that does not
//! help (a group's name against its number), the caller is told what to ask `iptables -C`.

mod normal;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use super::{PREFIX, TABLES, chain_name, chains, spell, table_name};
use crate::rule::{Chain, Family, Rule, RuleSet, Table};

pub(super) use normal::normal;

/// The tables that `iptables-save` listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    tables: BTreeMap<String, Saved>,
}

/// One table: its chains and their rules, without the `-A CHAIN` in front.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Saved {
    text: String,
    chains: BTreeMap<String, Vec<String>>,
}

/// How our rules stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// There are none.
    Clean,
    Same,
    /// The same if `iptables -C` finds each of these.
    Unsure(Vec<Question>),
    /// And the first thing that differs.
    Different(String),
}

/// A rule to ask about: the arguments behind `iptables -t TABLE -C CHAIN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub table: &'static str,
    pub chain: &'static str,
    pub rule: String,
}

impl State {
    pub fn parse(saved: &str) -> Self {
        let mut state = Self::default();
        let mut current: Option<&mut Saved> = None;
        for line in saved.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
            if let Some(name) = line.strip_prefix('*') {
                current = Some(state.tables.entry(name.trim().to_owned()).or_default());
            }
            let Some(table) = &mut current else { continue };
            table.text.push_str(line);
            table.text.push('\n');
            if let Some(name) = line.strip_prefix(':').and_then(|l| l.split(' ').next()) {
                table.chains.entry(name.to_owned()).or_default();
            }
            // With counters, they stand in front of the command.
            let command = match line.strip_prefix('[') {
                Some(rest) => rest.split_once("] ").map_or(line, |(_, command)| command),
                None => line,
            };
            if let Some((chain, rule)) =
                command.strip_prefix("-A ").and_then(|rest| rest.split_once(' '))
            {
                table.chains.entry(chain.to_owned()).or_default().push(rule.to_owned());
            }
        }
        state
    }

    /// Whether anybody has rules or chains of their own here.
    pub fn has_rules(&self) -> bool {
        self.tables.values().any(|t| {
            t.chains.iter().any(|(name, rules)| !rules.is_empty() || name.starts_with(PREFIX))
        })
    }

    /// The chains of ours that are there.
    pub(super) fn own_chains(&self, table: Table) -> impl Iterator<Item = &str> {
        let chains = self.tables.get(table_name(table)).map(|t| t.chains.keys());
        chains.into_iter().flatten().map(String::as_str).filter(|name| name.starts_with(PREFIX))
    }

    pub(super) fn rules(&self, table: Table, chain: &str) -> &[String] {
        let table = self.tables.get(table_name(table));
        table.and_then(|t| t.chains.get(chain)).map_or(&[], Vec::as_slice)
    }

    /// The table as it was saved, or the text of an empty one.
    pub(super) fn text(&self, table: &str) -> String {
        self.tables.get(table).map_or_else(|| format!("*{table}\nCOMMIT\n"), |t| t.text.clone())
    }

    pub(super) fn has_ours(&self, table: Table) -> bool {
        self.own_chains(table).next().is_some() || self.own_jumps(table) > 0
    }

    fn own_jumps(&self, table: Table) -> usize {
        [Chain::Prerouting, Chain::Output]
            .iter()
            .flat_map(|hook| self.rules(table, chain_name(*hook)))
            .filter(|rule| jumps_to_ours(rule))
            .count()
    }

    /// Our rules here against those that should be.
    pub fn compare(&self, set: &RuleSet, family: Family) -> Found {
        if !TABLES.iter().any(|table| self.has_ours(*table)) {
            return Found::Clean;
        }
        let mut questions = Vec::new();
        for table in TABLES {
            let rules: Vec<&Rule> = set.of(table, family).collect();
            match self.compare_table(table, &rules) {
                Ok(open) => questions.extend(open),
                Err(difference) => return Found::Different(difference),
            }
        }
        if questions.is_empty() { Found::Same } else { Found::Unsure(questions) }
    }

    fn compare_table(&self, table: Table, rules: &[&Rule]) -> Result<Vec<Question>, String> {
        let name = table_name(table);
        let expected = chains(rules);
        let missing = expected
            .iter()
            .map(|chain| chain_name(*chain))
            .find(|chain| !self.own_chains(table).any(|own| own == *chain));
        if let Some(chain) = missing {
            return Err(format!("chain {chain} of table {name} is missing"));
        }
        let known = |own: &str| expected.iter().any(|chain| chain_name(*chain) == own);
        if let Some(extra) = self.own_chains(table).find(|own| !known(own)) {
            return Err(format!(
                "chain {extra} of table {name} is left from another configuration"
            ));
        }
        let mut questions = Vec::new();
        for chain in expected {
            let of_chain: Vec<&Rule> =
                rules.iter().copied().filter(|rule| rule.chain == chain).collect();
            questions.extend(self.compare_chain(table, chain, &of_chain)?);
        }
        questions.extend(self.compare_hooks(table, rules)?);
        Ok(questions)
    }

    fn compare_chain(
        &self,
        table: Table,
        chain: Chain,
        rules: &[&Rule],
    ) -> Result<Vec<Question>, String> {
        let here = self.rules(table, chain_name(chain));
        if here.len() != rules.len() {
            return Err(format!(
                "chain {} of table {} has {} rules and should have {}",
                chain_name(chain),
                table_name(table),
                here.len(),
                rules.len()
            ));
        }
        let here: Vec<_> = here.iter().map(|rule| normal(rule)).collect();
        let mut questions = Vec::new();
        for (rule, there) in rules.iter().zip(&here) {
            let wanted = normal(&spell(rule));
            if wanted == *there {
                continue;
            }
            if here.contains(&wanted) {
                let (chain, table) = (chain_name(chain), table_name(table));
                return Err(format!(
                    "the rules of chain {chain} of table {table} stand in another order"
                ));
            }
            questions.push(question(rule));
        }
        Ok(questions)
    }

    /// Others may have rules in the hooks too, before, between and after ours.
    fn compare_hooks(&self, table: Table, rules: &[&Rule]) -> Result<Vec<Question>, String> {
        let mut questions = Vec::new();
        let mut jumps = 0;
        for hook in [Chain::Prerouting, Chain::Output] {
            let here: Vec<_> =
                self.rules(table, chain_name(hook)).iter().map(|rule| normal(rule)).collect();
            let mut from = 0;
            for rule in rules.iter().filter(|rule| rule.chain == hook) {
                let text = spell(rule);
                jumps += usize::from(jumps_to_ours(&text));
                let wanted = normal(&text);
                match here[from..].iter().position(|there| *there == wanted) {
                    Some(ahead) => from += ahead + 1,
                    None => questions.push(question(rule)),
                }
            }
        }
        if self.own_jumps(table) > jumps {
            return Err(format!("table {} jumps to our chains more than once", table_name(table)));
        }
        Ok(questions)
    }
}

pub(super) fn jumps_to_ours(rule: &str) -> bool {
    let mut words = rule.split_whitespace();
    words.find(|word| *word == "-j" || *word == "-g").is_some()
        && words.next().is_some_and(|target| target.starts_with(PREFIX))
}

fn question(rule: &Rule) -> Question {
    Question { table: table_name(rule.table), chain: chain_name(rule.chain), rule: spell(rule) }
}
