//! Talking to a running container: the seam between the API server and the node, and the wire
//! protocols that `kubectl` and other clients use on it.
//!
//! [`pod`] is the seam: what a node offers (logs, exec, port-forward), free of any wire protocol.

pub mod pod;
