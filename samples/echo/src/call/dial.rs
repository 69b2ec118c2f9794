//! Opening the connection, with TLS where the scheme asks for it.

use std::sync::Arc;

use anyhow::{Context, bail};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Args;
use crate::tls;

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Where to, and how.
pub(crate) struct Dial {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    pub(crate) http2: bool,
}

impl Dial {
    pub(crate) fn new(args: &Args, scheme: &str) -> anyhow::Result<Self> {
        let (encrypted, http2, alpn, port) = match scheme {
            "http" | "ws" => (false, false, "", Some(80)),
            "h2c" | "grpc" => (false, true, "", Some(80)),
            "https" | "wss" => (true, false, "http/1.1", Some(443)),
            "h2" | "grpcs" => (true, true, "h2", Some(443)),
            "tcp" => (false, false, "", None),
            "tls" => (true, false, "", None),
            other => bail!("{other}:// is none of http https h2c h2 grpc grpcs ws wss tcp tls"),
        };
        let host = args.url.host().context("the URL needs a host")?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let port = args.url.port_u16().or(port).context("the URL needs a port")?;
        let tls = if encrypted {
            let own = match (&args.cert, &args.key) {
                (Some(cert), Some(key)) => Some(tls::identity(cert, key)?),
                _ => None,
            };
            let mut config = tls::client(args.ca.as_deref(), own)?;
            if !alpn.is_empty() {
                config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
            }
            let name = args.sni.clone().unwrap_or_else(|| host.clone());
            let name = ServerName::try_from(name).context("server name")?;
            Some((TlsConnector::from(Arc::new(config)), name))
        } else {
            None
        };
        Ok(Self { host, port, tls, http2 })
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<Box<dyn Stream>> {
        let stream = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .with_context(|| format!("connecting to {}:{}", self.host, self.port))?;
        stream.set_nodelay(true).context("TCP_NODELAY")?;
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some((connector, name)) => Ok(Box::new(
                connector.connect(name.clone(), stream).await.context("TLS handshake")?,
            )),
        }
    }
}
