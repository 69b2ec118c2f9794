//! Where to listen, as Go's programs are told: `:PORT`, `HOST:PORT`, or nothing at all.

use anyhow::Context;
use tokio::net::TcpListener;

/// Listens; None if the address is empty or its port is `off`.
pub(crate) async fn listen(name: &str, address: &str) -> anyhow::Result<Option<TcpListener>> {
    if address.is_empty() {
        return Ok(None);
    }
    let doing = || format!("listening on --{name} {address}");
    let listener = match address.strip_prefix(':') {
        None => TcpListener::bind(address).await.with_context(doing)?,
        // Every address, of both kinds where the machine has both.
        Some(port) => match TcpListener::bind(format!("[::]:{port}")).await {
            Ok(listener) => listener,
            Err(_) => TcpListener::bind(format!("0.0.0.0:{port}")).await.with_context(doing)?,
        },
    };
    let local = listener.local_addr().with_context(doing)?;
    tracing::info!("{name} listens on {local}");
    Ok(Some(listener))
}

#[cfg(test)]
mod tests {
    use super::listen;

    #[tokio::test]
    async fn a_port_alone_is_every_address_and_nothing_is_nowhere() {
        let any = listen("a", ":0").await.unwrap().unwrap();
        assert!(any.local_addr().unwrap().ip().is_unspecified());
        let own = listen("a", "127.0.0.1:0").await.unwrap().unwrap();
        assert!(own.local_addr().unwrap().ip().is_loopback());
        assert!(listen("a", "").await.unwrap().is_none());
        let error = listen("httpAddr", "nowhere:x").await.unwrap_err();
        assert!(format!("{error:#}").contains("--httpAddr nowhere:x"));
    }
}
