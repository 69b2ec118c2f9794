//! The way to the control plane: TLS to a name that its certificate must have, and the workload's
//! token on every stream.

use std::path::PathBuf;

use anyhow::Context;
use ironsail_identity::client::{self, Security, Token};
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic::{IntoStreamingRequest, Request, Status};

use crate::proxy::root::RootFile;

/// Where the control plane is and how to speak to it.
pub(crate) struct Upstream {
    address: String,
    channel: Channel,
    token: Option<PathBuf>,
    root: Option<RootFile>,
}

impl Upstream {
    /// `root` is read again before every stream, since the file changes when the mesh's root does.
    pub(crate) fn new(
        address: &str,
        security: Security,
        token: Option<PathBuf>,
        root: Option<RootFile>,
    ) -> anyhow::Result<Self> {
        let proof = token.clone().map_or(Token::None, Token::File);
        let config = client::Config::new(address, security, proof);
        let channel = client::channel(&config).context("connecting to the control plane")?;
        Ok(Self { address: address.to_owned(), channel, token, root })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn channel(&self) -> Channel {
        if let Some(root) = &self.root {
            root.refresh();
        }
        self.channel.clone()
    }

    /// A stream of requests, with the proof of who asks.
    pub(super) fn request<S>(&self, requests: S) -> Result<Request<S>, Status>
    where
        S: IntoStreamingRequest<Stream = S>,
    {
        let mut request = Request::new(requests);
        if let Some(path) = &self.token {
            let token = std::fs::read_to_string(path).map_err(|error| {
                Status::unauthenticated(format!("reading the token {}: {error}", path.display()))
            })?;
            let mut header = MetadataValue::try_from(format!("Bearer {}", token.trim()))
                .map_err(|_| Status::unauthenticated("the token holds characters no header may"))?;
            header.set_sensitive(true);
            request.metadata_mut().insert("authorization", header);
        }
        Ok(request)
    }
}
