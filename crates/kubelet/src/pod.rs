//! One pod on this node.

pub mod backoff;
pub mod machine;
pub mod phase;
pub mod qos;
pub mod status;
