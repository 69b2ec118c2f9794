//! What can go wrong between the texts and the kernel.

use std::io;

use super::variant::family_name;
use crate::rule::Family;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no usable iptables for {}: {tried}", family_name(*family))]
    NoIptables { family: Family, tried: String },
    #[error("cannot run {program}")]
    Start { program: String, source: io::Error },
    #[error("{program} failed ({}): {message}", exit(*code))]
    Failed { program: String, code: Option<i32>, message: String },
    #[error(
        "{} rules of another configuration are in place: {difference}; --reconcile replaces them",
        family_name(*family)
    )]
    Drift { family: Family, difference: String },
    #[error("cannot {action}")]
    Route { action: &'static str, source: Box<dyn std::error::Error + Send + Sync> },
    /// The first failure is the source; the rules are neither the old nor the new ones.
    #[error("the rules could not be put back either: {second}")]
    NotUndone { source: Box<Error>, second: Box<Error> },
}

fn exit(code: Option<i32>) -> String {
    code.map_or_else(|| "killed".to_owned(), |code| format!("exit {code}"))
}
