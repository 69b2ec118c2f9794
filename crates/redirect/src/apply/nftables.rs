//! Rules by nftables: one text that the kernel takes as a whole or not at all.
//!
//! In: a rule set; out: our three tables. They are always written anew, in one step, so what others
//! changed in them does not stay.

use super::program::{Programs, ask};
use super::{Error, Outcome};
use crate::nftables;
use crate::rule::{RuleSet, Table};

/// What was there, until it is clear that the new rules stay.
pub(super) struct Done {
    before: String,
}

impl Done {
    pub(super) fn keep_if(
        self,
        rest: Result<(), Error>,
        programs: &dyn Programs,
    ) -> Result<Outcome, Error> {
        let outcome = if self.before.is_empty() { Outcome::Applied } else { Outcome::Replaced };
        rest.map(|()| outcome).map_err(|first| {
            let text = format!("{}{}", nftables::remove(), self.before);
            match load(programs, &text) {
                Ok(()) => first,
                Err(second) => {
                    Error::NotUndone { source: Box::new(first), second: Box::new(second) }
                }
            }
        })
    }
}

pub(super) fn apply(set: &RuleSet, programs: &dyn Programs) -> Result<Done, Error> {
    let before = present(programs)?
        .into_iter()
        .map(|name| ask(programs, "nft", &["list", "table", "inet", name], ""))
        .collect::<Result<String, Error>>()?;
    let script = nftables::script(set);
    tracing::info!("applying with nft:\n{script}");
    load(programs, &script)?;
    Ok(Done { before })
}

pub(super) fn clean(programs: &dyn Programs) -> Result<(), Error> {
    if present(programs)?.is_empty() {
        return Ok(());
    }
    load(programs, &nftables::remove())
}

/// Those of our tables that exist.
fn present(programs: &dyn Programs) -> Result<Vec<&'static str>, Error> {
    let listed = ask(programs, "nft", &["list", "tables", "inet"], "")?;
    let names = Table::ALL.into_iter().map(nftables::table_name);
    Ok(names.filter(|name| listed.split_whitespace().any(|word| word == *name)).collect())
}

fn load(programs: &dyn Programs, script: &str) -> Result<(), Error> {
    ask(programs, "nft", &["-f", "-"], script).map(drop)
}
