//! A stream to a server, message by message, for whoever carries the conversation himself.

use futures::StreamExt;
use http_body::Frame;
use http_body_util::StreamBody;
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tower::{Service, ServiceExt};

use crate::Variant;
use crate::messages::{Messages, ended, framed};
use crate::server::{DELTA, STATE_OF_THE_WORLD};

/// Opens a stream with these headers on top of gRPC's own. A server may wait for the first request before
/// it answers at all. Responses longer than `limit` end the stream.
pub async fn call<Q, A>(
    mut channel: Channel,
    variant: Variant,
    headers: http::HeaderMap,
    requests: mpsc::Receiver<Q>,
    limit: usize,
) -> Result<Messages<A>, Status>
where
    Q: Message + 'static,
    A: Message + Default,
{
    let path = match variant {
        Variant::StateOfTheWorld => STATE_OF_THE_WORLD,
        Variant::Delta => DELTA,
    };
    let frames =
        ReceiverStream::new(requests).map(|one| Ok::<_, Status>(Frame::data(framed(&one))));
    let mut request = http::Request::new(tonic::body::Body::new(StreamBody::new(frames)));
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = http::Uri::from_static(path);
    *request.version_mut() = http::Version::HTTP_2;
    *request.headers_mut() = headers;
    let word = http::HeaderValue::from_static;
    request.headers_mut().insert(http::header::TE, word("trailers"));
    request.headers_mut().insert(http::header::CONTENT_TYPE, word("application/grpc"));
    let failed = |error: tonic::transport::Error| Status::from_error(Box::new(error));
    let response = channel.ready().await.map_err(failed)?.call(request).await.map_err(failed)?;
    ended(Some(response.headers()))?;
    if response.status() != http::StatusCode::OK {
        let why = format!("the server answers with status {}", response.status());
        return Err(Status::new(Code::Unavailable, why));
    }
    Ok(Messages::new(response.into_body(), limit))
}
