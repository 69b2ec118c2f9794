//! The effects: rules into the kernel, and out of it.
//!
//! In: a [`Config`] and how to proceed; out: the kernel's state. Works on the network namespace of the
//! calling thread, which blocks while programs run. Decides nothing about rules: the texts come from
//! the pure part. A failure puts back what was there before.

mod error;
pub mod host;
mod iptables;
mod nftables;
pub mod probe;
mod program;
mod route;
#[cfg(test)]
mod tests;
mod variant;

pub use error::Error;
pub use program::{Output, Programs, Rehearsal, System};
pub use variant::{Kind, Variant, detect};

use crate::config::{Config, InboundPorts, Mode};
use crate::rule::{Family, RuleSet};

/// Who holds the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// iptables; `Some` uses this kind whatever is found.
    Iptables(Option<Kind>),
    Nftables,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub backend: Backend,
    /// Replace rules of ours that differ, instead of failing.
    pub reconcile: bool,
    /// Write the rules even if the same ones are in place.
    pub force: bool,
}

/// What happened to the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The same rules were there.
    Unchanged,
    Applied,
    /// Other rules of ours were there.
    Replaced,
}

/// Puts the rules of `config` in place, with the addresses and routes they need.
pub fn apply(
    config: &Config,
    options: &Options,
    programs: &dyn Programs,
) -> Result<Outcome, Error> {
    let set = crate::build(config);
    match options.backend {
        Backend::Iptables(kind) => {
            let done = iptables::apply(config, &set, options, kind, programs)?;
            done.keep_if(route::ensure(config), programs)
        }
        Backend::Nftables => {
            let done = nftables::apply(&set, programs)?;
            done.keep_if(route::ensure(config), programs)
        }
    }
}

/// Removes what [`apply`] does for `config`, and all chains of ours whatever made them.
pub fn clean(config: &Config, backend: Backend, programs: &dyn Programs) -> Result<(), Error> {
    clean_rules(config, backend, programs)?;
    route::remove(config)
}

/// As [`clean`], but addresses and routes stay.
pub fn clean_rules(
    config: &Config,
    backend: Backend,
    programs: &dyn Programs,
) -> Result<(), Error> {
    match backend {
        Backend::Iptables(kind) => iptables::clean(config, kind, programs),
        Backend::Nftables => nftables::clean(programs),
    }
}

/// What [`apply`] would feed to which program, for people to read.
pub fn describe(config: &Config, backend: Backend) -> String {
    let set = crate::build(config);
    let mut text = match backend {
        Backend::Iptables(_) => families(config)
            .iter()
            .map(|family| {
                let command = variant::plain(*family);
                let rules = crate::iptables::restore(&set, *family);
                format!("# {command}-restore --noflush\n{rules}")
            })
            .collect(),
        Backend::Nftables => format!("# nft -f -\n{}", crate::nftables::script(&set)),
    };
    text.push_str(&route::describe(config));
    text
}

fn families(config: &Config) -> &'static [Family] {
    if config.ipv6 { &[Family::V4, Family::V6] } else { &[Family::V4] }
}

/// Rules in the hooks that another configuration of the same proxy would have made: they carry no name
/// of ours, so they are known by their content only.
fn other_mode(config: &Config) -> RuleSet {
    let mode = if config.mode == Mode::Tproxy { Mode::Redirect } else { Mode::Tproxy };
    let inbound_ports = InboundPorts::AllExcept(Vec::new());
    crate::build(&Config { mode, inbound_ports, drop_invalid: true, ..config.clone() })
}
