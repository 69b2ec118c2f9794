//! A client that asks and never reads.

use http_body_util::{BodyExt, StreamBody};
use hyper_util::rt::{TokioExecutor, TokioIo};
use ironsail_proto::Message;
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use ironsail_xds::CDS;
use tokio_stream::wrappers::ReceiverStream;

use super::toy::Server;

/// Opens a stream, asks, and never reads the answer.
pub(crate) async fn client(server: &Server) -> impl Sized {
    let io = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let mut http = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    // What the client itself would buffer is not what is measured.
    http.initial_stream_window_size(16_384).initial_connection_window_size(65_535);
    let (mut sender, connection) = http.handshake(TokioIo::new(io)).await.unwrap();
    tokio::spawn(connection);
    let request = DeltaDiscoveryRequest {
        node: Some(Node { id: "deaf".into(), ..Default::default() }),
        type_url: CDS.into(),
        ..Default::default()
    };
    let message = request.encode_to_vec();
    let mut frame = vec![0];
    frame.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend(message);
    let frame = hyper::body::Frame::data(bytes::Bytes::from(frame));
    // The stream of requests stays open until the client is dropped.
    let (more, requests) = tokio::sync::mpsc::channel::<Result<_, std::convert::Infallible>>(1);
    more.send(Ok(frame)).await.unwrap();
    let body = StreamBody::new(ReceiverStream::new(requests));
    let request = http::Request::post(format!(
        "http://{}/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources",
        server.address
    ))
    .header("content-type", "application/grpc")
    .header("te", "trailers")
    .body(body.boxed_unsync())
    .unwrap();
    let response = sender.send_request(request).await.unwrap();
    (sender, response, more)
}
