//! Packet rules that bring a pod's traffic to its sidecar.
//!
//! ```text
//! Settings (text, as flags give it) → Config (typed) → RuleSet → iptables-restore text, v4 and v6
//!                                                            └─→ nftables text
//! ```
//!
//! Everything up to the texts is pure: no IO, no clock, no environment. [`apply`] is the only part
//! that touches the kernel, and it does so through programs and netlink.

pub mod apply;
mod build;
pub mod config;
pub mod iptables;
pub mod nftables;
mod rule;
#[cfg(test)]
mod tests;

pub use build::build;
pub use config::{Config, Settings};
pub use rule::{Action, Chain, Family, Match, Owner, Place, Protocol, Rule, RuleSet, Table};
