//! What Services mean: packet rules on every node, names in DNS, and ways in from the host.
//!
//! In: Services and EndpointSlices, watched through a Kubernetes client like anybody's; out: each
//! node's Service table (podnet), DNS answers, listeners on the host's loopback for node ports and
//! load balancers, and the status of load balancers. It changes nothing else in the API.

mod balancer;
mod config;
mod dns;
mod error;
mod forward;
mod model;
mod names;
mod proxy;
mod publish;
mod report;
mod table;
#[cfg(test)]
mod tests;
mod watch;

pub use config::Config;
pub use dns::DnsServer;
pub use error::Error;
pub use names::Names;
pub use proxy::Proxy;
pub use publish::{PublishedPort, PublishedService, publish};
