//! One unary gRPC call.

use anyhow::Context;
use axum::http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tonic::metadata::{MetadataKey, MetadataValue};
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

use super::dial::Dial;
use super::{Args, Outcome};
use crate::grpc::{ECHO, EchoReply, EchoRequest};
use crate::report::header_lists;

pub(crate) async fn call(args: &Args, dial: &Dial) -> anyhow::Result<Outcome> {
    let authority = args.url.authority().context("the URL needs a host")?;
    // TLS is the dial's business; the channel only sees a stream.
    let stream = dial.connect().await?;
    let mut stream = Some(TokioIo::new(stream));
    let channel = Endpoint::from_shared(format!("http://{authority}"))
        .context("the URL's host")?
        .connect_with_connector(tower::service_fn(move |_| {
            let stream =
                stream.take().ok_or_else(|| std::io::Error::other("one connection a call"));
            async move { stream }
        }))
        .await
        .context("HTTP/2 handshake")?;
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.context("opening the channel")?;
    let mut request =
        tonic::Request::new(EchoRequest { message: args.data.clone(), code: args.grpc_code });
    for line in &args.headers {
        let (name, value) = line.split_once(':').context("a header needs ':'")?;
        let name = MetadataKey::from_bytes(name.trim().to_ascii_lowercase().as_bytes())
            .with_context(|| format!("header {line:?}"))?;
        let value = MetadataValue::try_from(value.trim().to_owned())
            .with_context(|| format!("header {line:?}"))?;
        request.metadata_mut().append(name, value);
    }
    let codec = ProstCodec::<EchoRequest, EchoReply>::default();
    Ok(match client.unary(request, PathAndQuery::from_static(ECHO), codec).await {
        Ok(reply) => Outcome {
            status: Some(0),
            headers: header_lists(&reply.metadata().clone().into_headers()),
            ..Outcome::with_body(reply.get_ref().report.as_bytes())
        },
        // A status from the other side is an answer; what never left is an error.
        Err(status) => Outcome {
            status: u16::try_from(i32::from(status.code())).ok(),
            headers: header_lists(&status.metadata().clone().into_headers()),
            ..Outcome::with_body(status.message().as_bytes())
        },
    })
}
