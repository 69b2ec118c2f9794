//! podlet's own certificates: a CA in the data directory, the API server's certificate, the
//! administrator's, and the kubeconfig that carries it.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use ironsail_sys::clock::Clock;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("not there yet")]
    Later,
}

/// What the API server needs to serve TLS, and what its users need to trust it.
pub struct Pki {
    ca_pem: String,
}

impl Pki {
    /// Opens or makes the CA under `directory` (`ca.crt`, `ca.key`, `admin.crt`, …). `addresses`
    /// are those of the server beside loopback, such as the Service address 10.96.0.1.
    pub fn open(directory: &Path, addresses: &[IpAddr], clock: &Clock) -> Result<Self, Error> {
        let _ = (directory, addresses, clock);
        Err(Error::Later)
    }

    /// The CA's certificate as PEM: the content of `kube-root-ca.crt`.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// TLS for the listener; asks for a client certificate and accepts a connection without one.
    pub fn server_config(&self) -> Result<Arc<rustls::ServerConfig>, Error> {
        Err(Error::Later)
    }

    /// A kubeconfig with everything embedded; `server` as in `https://127.0.0.1:6443`.
    pub fn kubeconfig(&self, server: &str) -> String {
        server.to_owned()
    }
}
