//! Carrying TCP connections from the host to a Service.

use std::sync::Arc;
use std::time::Duration;

use ironsail_podnet::{Network, relay};
use parking_lot::RwLock;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Target;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) async fn serve(
    listener: TcpListener,
    network: Network,
    target: Arc<RwLock<Target>>,
    stop: CancellationToken,
) {
    loop {
        match listener.accept().await {
            Ok((client, _)) => {
                let target = target.read().clone();
                let (network, stop) = (network.clone(), stop.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = carry(client, &network, &target) => {}
                    }
                });
            }
            Err(error) => {
                // Out of descriptors, most likely: let some connections end first.
                tracing::warn!(%error, "cannot accept a connection to a Service");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn carry(client: TcpStream, network: &Network, target: &Target) {
    let dialled = async {
        let (node, to) = target.choose(network)?;
        node.dialer().tcp(to).await
    };
    let result = match timeout(CONNECT_TIMEOUT, dialled).await {
        Ok(Ok(server)) => relay::carry(client, server).await.map(|_| ()),
        Ok(Err(error)) => {
            // The caller sees what it would see of a Service without endpoints.
            relay::reset(&client);
            Err(error)
        }
        Err(_) => {
            relay::reset(&client);
            Err(std::io::ErrorKind::TimedOut.into())
        }
    };
    if let Err(error) = result {
        tracing::debug!(service = %target.cluster, %error, "a connection to a Service broke");
    }
}
