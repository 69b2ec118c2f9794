//! Port-forward over WebSocket: channel 2n is the data of the n-th port, 2n+1 its error. The first
//! message on each is the port's number.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::future::join_all;
use hyper::upgrade::Upgraded;
use tokio::io::{AsyncWriteExt as _, DuplexStream};

use super::error_text;
use crate::pod::{PodRef, PodStreams};
use crate::websocket::{self, Sender, Source};

const BUFFER: usize = 1 << 20;

pub(super) async fn run(
    upgraded: Upgraded,
    pod: PodRef,
    ports: &[u16],
    streams: Arc<dyn PodStreams>,
) {
    let (sink, source) = websocket::socket(upgraded).await.split();
    let sender = Sender::new(sink);
    for (channel, port) in (0..).zip(ports.iter().flat_map(|p| [p, p])) {
        if sender.send(channel, &port.to_le_bytes()).await.is_err() {
            return;
        }
    }
    let mut inputs = Vec::new();
    let mut connections = Vec::new();
    for (channel, port) in (0_u8..).step_by(2).zip(ports) {
        let (near, far) = tokio::io::duplex(BUFFER);
        inputs.push(Some(near));
        connections.push(connection(channel, *port, far, &pod, &*streams, &sender));
    }
    let mut gone = std::pin::pin!(read(source, inputs));
    tokio::select! {
        _ = join_all(connections) => sender.close(gone).await,
        () = &mut gone => {}
    }
}

async fn connection(
    channel: u8,
    port: u16,
    mut input: DuplexStream,
    pod: &PodRef,
    streams: &dyn PodStreams,
    sender: &Sender,
) {
    let target = match streams.connect(pod.clone(), port).await {
        Ok(target) => target,
        Err(why) => {
            // Where the client is gone, the reading side tells.
            let _ = sender.send(channel + 1, error_text(pod, port, &why).as_bytes()).await;
            return;
        }
    };
    let (from_pod, mut to_pod) = tokio::io::split(target);
    let upward = async {
        // The client has no way to close one port, so this ends with the connection.
        let _ = tokio::io::copy(&mut input, &mut to_pod).await;
        let _ = to_pod.shutdown().await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = upward => {}
        () = sender.pump(channel, Some(from_pod)) => {}
    }
}

async fn read(mut source: Source, mut inputs: Vec<Option<DuplexStream>>) {
    while let Some((channel, data)) = websocket::next(&mut source).await {
        if channel % 2 == 1 {
            continue;
        }
        if let Some(place) = inputs.get_mut(usize::from(channel / 2))
            && let Some(pipe) = place
            && pipe.write_all(&data).await.is_err()
        {
            *place = None;
        }
    }
}
