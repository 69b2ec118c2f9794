//! Talking to a running container: the seam between the API server and the node, and the wire
//! protocols that `kubectl` and other clients use on it.
//!
//! [`pod`] is the seam: what a node offers (logs, exec, port-forward), free of any wire protocol.
//! [`exec::accept`] and [`forward::accept`] take an HTTP request that wants to be upgraded, answer
//! it and speak with the client: WebSocket channels (`v4` and `v5.channel.k8s.io`), SPDY/3.1, and
//! SPDY/3.1 tunnelled in a WebSocket. Authentication and authorization come before, elsewhere.

pub mod exec;
pub mod forward;
pub mod pod;
mod spdy;
#[cfg(test)]
mod tests;
pub mod upgrade;
mod websocket;

pub use upgrade::{Refused, Upgrade};
