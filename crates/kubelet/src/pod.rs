//! One pod on this node.

pub mod adopt;
pub mod backoff;
pub mod container;
pub mod drive;
pub mod ending;
pub mod exec;
pub mod hook;
pub mod launch;
pub mod machine;
pub mod phase;
pub mod qos;
pub mod report;
pub mod sandbox;
pub mod status;
pub mod unsupported;
pub mod worker;
