//! Port-forward with `kube`, with SPDY, and with SPDY in a WebSocket.

use std::net::SocketAddr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::tests::client::Client;
use crate::tests::{Node, read_all, serve};

async fn node() -> SocketAddr {
    serve(Arc::new(Node::default())).await
}

#[tokio::test]
async fn kube_reaches_several_ports_at_once() {
    let address = node().await;
    let config = kube::Config::new(format!("http://{address}").parse().unwrap());
    let pods: Api<Pod> = Api::namespaced(kube::Client::try_from(config).unwrap(), "a");
    let mut forward = pods.portforward("p", &[7, 13, 9]).await.unwrap();
    let mut echo = forward.take_stream(7).unwrap();
    echo.write_all(b"hello").await.unwrap();
    let mut back = [0; 5];
    echo.read_exact(&mut back).await.unwrap();
    assert_eq!(&back, b"hello");
    let mut time = [0; 4];
    forward.take_stream(13).unwrap().read_exact(&mut time).await.unwrap();
    assert_eq!(&time, b"noon");
    assert_eq!(
        forward.take_error(9).unwrap().await.as_deref(),
        Some("error forwarding port 9 to pod p, uid : connection refused")
    );
}

/// What `kubectl port-forward` does for each connection it takes.
async fn pair<S>(client: &mut Client<S>, port: &str, number: &str) -> (u32, u32)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let error = [("streamType", "error"), ("port", port), ("requestID", number)];
    let data = [("streamType", "data"), ("port", port), ("requestID", number)];
    let error = client.open(&error).await;
    client.finish(error).await;
    (client.open(&data).await, error)
}

async fn use_ports<S>(mut client: Client<S>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let (first, first_error) = pair(&mut client, "7", "0").await;
    let (second, _) = pair(&mut client, "7", "1").await;
    let (time, _) = pair(&mut client, "13", "2").await;
    let (lost, lost_error) = pair(&mut client, "9", "3").await;
    let long = "x".repeat(500_000);
    client.send(second, b"two").await;
    client.send(first, long.as_bytes()).await;
    client.finish(first).await;
    client.finish(second).await;
    assert!(client.wait(first).await == long);
    assert_eq!(client.wait(first_error).await, "");
    assert_eq!(client.wait(second).await, "two");
    assert_eq!(client.wait(time).await, "noon");
    assert_eq!(client.wait(lost).await, "");
    assert_eq!(
        client.wait(lost_error).await,
        "error forwarding port 9 to pod p, uid : connection refused"
    );
    client.ping(7).await;
}

#[tokio::test]
async fn spdy_carries_many_connections() {
    let address = node().await;
    let client = Client::upgrade(address, "/p/portforward", "portforward.k8s.io").await.unwrap();
    use_ports(client).await;
}

#[tokio::test]
async fn spdy_can_be_tunnelled_in_a_websocket() {
    let address = node().await;
    let mut request = format!("ws://{address}/p/portforward").into_client_request().unwrap();
    let protocol = "SPDY/3.1+portforward.k8s.io".parse().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", protocol);
    let stream = TcpStream::connect(address).await.unwrap();
    let (socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    let (near, far) = tokio::io::duplex(1 << 16);
    tokio::spawn(carry(socket, far));
    use_ports(Client::over(near)).await;
}

/// The client's end of the tunnel.
async fn carry(
    socket: tokio_tungstenite::WebSocketStream<TcpStream>,
    far: tokio::io::DuplexStream,
) {
    use futures::{SinkExt as _, StreamExt as _};
    use tokio_tungstenite::tungstenite::Message;
    let (mut sink, mut source) = socket.split();
    let (mut reader, mut writer) = tokio::io::split(far);
    let outward = async {
        let mut buffer = vec![0; 4096];
        while let Ok(length @ 1..) = reader.read(&mut buffer).await {
            sink.send(Message::binary(buffer[..length].to_vec())).await.unwrap();
        }
    };
    let inward = async {
        while let Some(Ok(message)) = source.next().await {
            if let Message::Binary(data) = message {
                writer.write_all(&data).await.unwrap();
            }
        }
    };
    tokio::join!(outward, inward);
}

#[tokio::test]
async fn channels_need_ports() {
    let address = node().await;
    let mut request = format!("ws://{address}/p/portforward").into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "v4.channel.k8s.io".parse().unwrap());
    let stream = TcpStream::connect(address).await.unwrap();
    let error = tokio_tungstenite::client_async(request, stream).await.unwrap_err();
    assert!(error.to_string().contains("400"), "{error}");
    let mut plain = TcpStream::connect(address).await.unwrap();
    plain
        .write_all(b"GET /p/portforward HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    assert!(read_all(&mut plain).await.ends_with("Upgrade request required"));
}
