//! The seam: who knows the names that are ours.

use hickory_proto::rr::{Name, Record, RecordType};

/// What is known of a name and a type.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The records asked for, or a CNAME, which is then followed. Addresses of the names within
    /// (targets of SRV records) may come along.
    Records { answers: Vec<Record>, additionals: Vec<Record> },
    /// The name is ours and exists, but has nothing of this type.
    NoData,
    /// The name would be ours, and does not exist.
    NxDomain,
    /// Somebody else's name.
    NotMine,
}

impl Answer {
    pub fn records(answers: Vec<Record>) -> Self {
        Self::Records { answers, additionals: Vec::new() }
    }
}

/// Looks names up. Called for every query on the server's own task, so it must not block.
pub trait Lookup: Send + Sync {
    /// `name` is fully qualified and in lower case.
    fn lookup(&self, name: &Name, kind: RecordType) -> Answer;

    /// The start-of-authority record that goes with a negative answer about `name`. Its `minimum`
    /// says how long clients may remember the absence.
    fn authority(&self, name: &Name) -> Option<Record>;
}
