//! The way to the control plane: TLS to a name that its certificate must have, and the workload's
//! token on every stream.

use std::path::PathBuf;

use anyhow::Context;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use ironsail_identity::client::{self, Security, Token};
use ironsail_xds::{Messages, client as xds};
use tokio::sync::mpsc;
use tonic::Status;
use tonic::transport::Channel;
use tracing::warn;

use super::MAX_MESSAGE;
use super::variant::Variant;
use crate::proxy::root::RootFile;

/// Where the control plane is and how to speak to it.
pub(crate) struct Upstream {
    address: String,
    channel: Channel,
    token: PathBuf,
    root: Option<RootFile>,
}

impl Upstream {
    /// `root` is read again before every stream, since the file changes when the mesh's root does.
    pub(crate) fn new(
        address: &str,
        security: Security,
        token: PathBuf,
        root: Option<RootFile>,
    ) -> anyhow::Result<Self> {
        let config = client::Config::new(address, security, Token::None);
        let channel = client::channel(&config).context("connecting to the control plane")?;
        Ok(Self { address: address.to_owned(), channel, token, root })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// A stream of requests, with the proof of who asks, and what is answered to them.
    pub(super) async fn open<V: Variant>(
        &self,
        requests: mpsc::Receiver<V>,
    ) -> Result<Messages<V::Response>, Status> {
        if let Some(root) = &self.root {
            root.refresh();
        }
        let channel = self.channel.clone();
        xds::call(channel, V::KIND, self.proof()?, requests, MAX_MESSAGE).await
    }

    fn proof(&self) -> Result<HeaderMap, Status> {
        let mut headers = HeaderMap::new();
        let token = match std::fs::read_to_string(&self.token) {
            Ok(token) => token,
            // The certificate that this side shows may be proof enough, and a kubelet may be late.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                warn!(target: "xdsproxy", "there is no token {}", self.token.display());
                return Ok(headers);
            }
            Err(error) => {
                let path = self.token.display();
                return Err(Status::unauthenticated(format!("reading the token {path}: {error}")));
            }
        };
        let mut header = HeaderValue::try_from(format!("Bearer {}", token.trim()))
            .map_err(|_| Status::unauthenticated("the token holds characters no header may"))?;
        header.set_sensitive(true);
        headers.insert(AUTHORIZATION, header);
        Ok(headers)
    }
}
