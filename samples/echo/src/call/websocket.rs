//! A WebSocket: one message out, one back.

use anyhow::{Context, bail};
use axum::http::{HeaderName, HeaderValue};
use futures::{SinkExt, StreamExt};
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::dial::Dial;
use super::{Args, Outcome};
use crate::report::header_lists;

pub(crate) async fn call(args: &Args, dial: &Dial) -> anyhow::Result<Outcome> {
    let mut request = args.url.clone().into_client_request().context("the URL")?;
    for line in &args.headers {
        let (name, value) = line.split_once(':').context("a header needs ':'")?;
        request.headers_mut().insert(
            HeaderName::try_from(name.trim()).with_context(|| format!("header {line:?}"))?,
            HeaderValue::from_str(value.trim()).with_context(|| format!("header {line:?}"))?,
        );
    }
    let stream = dial.connect().await?;
    let (mut socket, response) = match tokio_tungstenite::client_async(request, stream).await {
        Ok(opened) => opened,
        Err(Error::Http(refused)) => {
            return Ok(Outcome {
                status: Some(refused.status().as_u16()),
                headers: header_lists(refused.headers()),
                ..Outcome::with_body(refused.body().as_deref().unwrap_or_default())
            });
        }
        Err(error) => return Err(error).context("WebSocket handshake"),
    };
    socket.send(Message::text(args.data.clone())).await.context("sending the message")?;
    let answer = match socket.next().await {
        Some(answer) => answer.context("reading the answer")?,
        None => bail!("closed without an answer"),
    };
    socket.close(None).await.context("closing")?;
    Ok(Outcome {
        status: Some(response.status().as_u16()),
        headers: header_lists(response.headers()),
        ..Outcome::with_body(&answer.into_data())
    })
}
