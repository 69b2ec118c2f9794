//! Which iptables: the kernel has two, and rules are to go where the others of this namespace are.
//!
//! In: what is installed and what each of them lists; out: the commands to use. Asks only in ways that
//! change nothing: merely listing a table makes it exist in the older kind, and the next run would
//! then take it for the one in use.

use super::Error;
use super::program::{Programs, ask};
use crate::iptables::state::State;
use crate::rule::Family;

/// The older kernel interface, or iptables on top of nftables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Legacy,
    Nft,
}

/// The commands of one kind and family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    command: String,
    kind: Kind,
}

impl Variant {
    pub fn command(&self) -> &str {
        &self.command
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn restore_command(&self) -> String {
        format!("{}-restore", self.command)
    }

    pub(super) fn state(&self, programs: &dyn Programs) -> Result<State, Error> {
        let saved = ask(programs, &format!("{}-save", self.command), &[], "")?;
        Ok(State::parse(&saved))
    }

    /// Runs `-restore`. The older kind has a lock that others may hold for a moment.
    pub(super) fn restore(
        &self,
        programs: &dyn Programs,
        how: &'static str,
        text: &str,
    ) -> Result<(), Error> {
        let args: &[&str] = if self.kind == Kind::Legacy { &[how, "--wait=30"] } else { &[how] };
        ask(programs, &self.restore_command(), args, text).map(drop)
    }
}

pub(super) fn family_name(family: Family) -> &'static str {
    match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    }
}

pub(super) fn plain(family: Family) -> &'static str {
    match family {
        Family::V4 => "iptables",
        Family::V6 => "ip6tables",
    }
}

fn suffixed(family: Family, kind: Kind) -> String {
    let suffix = if kind == Kind::Legacy { "legacy" } else { "nft" };
    format!("{}-{suffix}", plain(family))
}

/// The older kind if it is there and holds rules; else the newer one; else whatever is installed.
pub fn detect(
    programs: &dyn Programs,
    family: Family,
    forced: Option<Kind>,
) -> Result<Variant, Error> {
    let unusable = |tried: String| Error::NoIptables { family, tried };
    if let Some(kind) = forced {
        let command = suffixed(family, kind);
        return look(programs, &command).map(|(found, _)| found).map_err(unusable);
    }
    let legacy = look(programs, &suffixed(family, Kind::Legacy));
    let legacy = match legacy {
        Ok((found, true)) => return Ok(found),
        Ok((found, false)) => Ok(found),
        Err(why) => Err(why),
    };
    let mut tried = Vec::new();
    for command in [suffixed(family, Kind::Nft), plain(family).to_owned()] {
        match look(programs, &command) {
            Ok((found, _)) => return Ok(found),
            Err(why) => tried.push(why),
        }
    }
    legacy.map_err(|why| {
        tried.push(why);
        unusable(tried.join("; "))
    })
}

/// All kinds that are installed, for those who look for leftovers.
pub(super) fn installed(
    programs: &dyn Programs,
    family: Family,
    forced: Option<Kind>,
) -> Vec<Variant> {
    let kinds = forced.map_or_else(|| vec![Kind::Legacy, Kind::Nft], |kind| vec![kind]);
    let found: Vec<Variant> = kinds
        .into_iter()
        .filter_map(|kind| look(programs, &suffixed(family, kind)).ok())
        .map(|(found, _)| found)
        .collect();
    if found.is_empty() {
        return look(programs, plain(family)).ok().into_iter().map(|(found, _)| found).collect();
    }
    found
}

/// The commands, and whether anybody has rules there; or why they cannot be used.
fn look(programs: &dyn Programs, command: &str) -> Result<(Variant, bool), String> {
    let save = format!("{command}-save");
    let saved = ask(programs, &save, &[], "").map_err(|error| describe(&error))?;
    // Very old ones know no --version; they are all of the older kind.
    let version = ask(programs, &save, &["--version"], "").unwrap_or_default();
    let kind = if version.contains("nf_tables") { Kind::Nft } else { Kind::Legacy };
    let variant = Variant { command: command.to_owned(), kind };
    Ok((variant, State::parse(&saved).has_rules()))
}

fn describe(error: &Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
