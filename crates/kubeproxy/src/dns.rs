//! Cluster DNS on the backbone.
//!
//! In: the network and the names; out: a DNS server at podlet's own addresses, port 53, behind the
//! Service that pods are told of.

use std::sync::Arc;

use ironsail_dns::{Forwarder, Server};
use ironsail_podnet::Network;
use tokio_util::task::AbortOnDropHandle;

use crate::{Config, Error, Names};

/// Where the DNS server listens on the backbone.
pub(crate) const PORT: u16 = 53;

/// A running DNS server; ends when dropped.
pub struct DnsServer(
    #[expect(dead_code, reason = "ends the tasks when dropped")] Vec<AbortOnDropHandle<()>>,
);

impl DnsServer {
    /// Where it listens at podlet's own addresses.
    pub const PORT: u16 = PORT;

    pub async fn start(network: &Network, names: Names, config: &Config) -> Result<Self, Error> {
        let forwarder =
            (!config.upstreams.is_empty()).then(|| Forwarder::new(config.upstreams.clone()));
        let server = Server::new(Arc::new(names), forwarder);
        let mut tasks = Vec::new();
        for socket in network.bind_udp(PORT).await.map_err(Error::Dns)? {
            let server = server.clone();
            tasks.push(tokio::spawn(async move { server.serve_udp(socket).await }));
        }
        for listener in network.listen(PORT).await.map_err(Error::Dns)? {
            let server = server.clone();
            tasks.push(tokio::spawn(async move { server.serve_tcp(listener).await }));
        }
        Ok(Self(tasks.into_iter().map(AbortOnDropHandle::new).collect()))
    }
}
