//! The network that pods live in, made of network namespaces inside one machine.
//!
//! In: how many nodes and pods there are, and what the Services point at. Out: namespaces with
//! addresses and routes, packet rules inside them, and sockets into them. It knows no Kubernetes
//! type, and it never touches the network of the namespace it runs in.
//!
//! ```text
//!            backbone (bridge; podlet's own listeners, the way out)
//!        ┌──────────────┼──────────────┬───────────────┐
//!     node 0         node 1         outside A       outside B      each a namespace
//!     pod bridge     pod bridge
//!     ┌──┴──┐        ┌──┴──┐
//!    pod   pod      pod   pod                                      each a namespace
//! ```

mod backbone;
mod config;
mod conntrack;
mod egress;
mod error;
mod link;
mod network;
mod nft;
mod node;
mod outside;
mod pool;
pub mod relay;
pub mod service;
#[cfg(test)]
mod tests;

pub use config::NetworkConfig;
pub use error::Error;
pub use ironsail_sys::netns::{Dialer, Netns};
pub use network::Network;
pub use nft::check;
pub use node::{Node, PodLink};
pub use outside::{Outside, OutsideConfig};
pub use service::{Endpoint, Protocol, ServicePort, ServiceTable};
