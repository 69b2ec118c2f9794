//! The connection to the CA: TCP, and TLS on it as configured at that moment.

use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use super::{Config, Error, Security};
use crate::tls;

/// How often a silent peer is asked whether it is still there.
const ALIVE: Duration = Duration::from_secs(30);

/// A channel that connects when it is used, and again after it was lost.
pub(super) fn open(config: &Config) -> Result<Channel, Error> {
    let bad = || Error::Address(config.address.clone());
    let scheme = match config.security {
        Security::Tls { .. } => "https",
        Security::Plaintext => "http",
    };
    let uri: Uri = format!("{scheme}://{}", config.address).parse().map_err(|_| bad())?;
    let host = uri.host().ok_or_else(bad)?.trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().ok_or_else(bad)?;
    // A peer that went away without a word is noticed, also by a stream that only listens.
    let endpoint = Endpoint::from(uri)
        .connect_timeout(config.timeout)
        .tcp_keepalive(Some(ALIVE))
        .http2_keep_alive_interval(ALIVE)
        .keep_alive_timeout(config.timeout);
    match &config.security {
        Security::Plaintext => {
            Ok(endpoint.connect_with_connector_lazy(service_fn(move |_: Uri| {
                let host = host.clone();
                async move { Ok::<_, std::io::Error>(TokioIo::new(connect(&host, port).await?)) }
            })))
        }
        Security::Tls { server_name, trusted, shown } => {
            let name = server_name.as_deref().unwrap_or(&host);
            let name = ServerName::try_from(name.to_owned()).map_err(|_| bad())?;
            let tls = tls::to_dns_name(trusted, shown, &["h2"])
                .map_err(|source| Error::Connect { address: config.address.clone(), source })?;
            let connector = TlsConnector::from(Arc::new(tls));
            // The scheme only tells tonic what to write into requests; TLS is done by the connector.
            Ok(endpoint.connect_with_connector_lazy(service_fn(move |_: Uri| {
                let (host, name, connector) = (host.clone(), name.clone(), connector.clone());
                async move {
                    let io = connect(&host, port).await?;
                    Ok::<_, std::io::Error>(TokioIo::new(connector.connect(name, io).await?))
                }
            })))
        }
    }
}

async fn connect(host: &str, port: u16) -> std::io::Result<TcpStream> {
    let io = TcpStream::connect((host, port)).await?;
    io.set_nodelay(true)?;
    Ok(io)
}
