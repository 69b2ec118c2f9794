//! Port-forward: connections to ports of a pod, over SPDY (plain or tunnelled in a WebSocket, as
//! `kubectl` speaks it) or WebSocket channels (as `kube` speaks it).

use std::sync::Arc;

use http::request::Parts;
use hyper_util::rt::TokioIo;

use crate::pod::{PodRef, PodStreams};
use crate::upgrade::{self, Refused, Upgrade, Wire};
use crate::{spdy, websocket};

mod channels;
mod pairs;
#[cfg(test)]
mod tests;

const CHANNELS: &str = "v4.channel.k8s.io";
const TUNNELLED: &str = "SPDY/3.1+portforward.k8s.io";
const PORT_FORWARD: &str = "portforward.k8s.io";
/// Channel numbers are bytes, two for each port.
const MAX_PORTS: usize = 127;

/// Takes the upgrade of a port-forward request. `ports` are those of the query (`?ports=80,443`),
/// which only the WebSocket channels need.
pub fn accept(
    parts: &mut Parts,
    pod: PodRef,
    ports: &[u16],
    streams: Arc<dyn PodStreams>,
) -> Result<Upgrade, Refused> {
    let accepted = upgrade::negotiate(parts, &[TUNNELLED, CHANNELS], &[PORT_FORWARD])?;
    let (wire, on_upgrade) = (accepted.wire, accepted.on_upgrade);
    let ports = ports.to_vec();
    if wire == Wire::WebSocket(CHANNELS) && !(1..=MAX_PORTS).contains(&ports.len()) {
        return Err(Refused::bad_request("query parameter \"port\" is required"));
    }
    let session = Box::pin(async move {
        let upgraded = match on_upgrade.await {
            Ok(upgraded) => upgraded,
            Err(error) => {
                tracing::debug!(%error, "a client left before its port-forward began");
                return;
            }
        };
        match wire {
            Wire::WebSocket(CHANNELS) => channels::run(upgraded, pod, &ports, streams).await,
            Wire::WebSocket(_) => {
                let (near, carry) = websocket::tunnel(websocket::socket(upgraded).await);
                let (connection, reader) = spdy::serve(near);
                tokio::join!(carry, pairs::run(connection, reader, pod, streams));
            }
            Wire::Spdy(_) => {
                let (connection, reader) = spdy::serve(TokioIo::new(upgraded));
                pairs::run(connection, reader, pod, streams).await;
            }
        }
    });
    Ok(Upgrade { response: accepted.response, session })
}

/// The text for a port that cannot be reached, in the words of the kubelet.
fn error_text(pod: &PodRef, port: u16, error: &dyn std::fmt::Display) -> String {
    format!("error forwarding port {port} to pod {}, uid : {error}", pod.name)
}
