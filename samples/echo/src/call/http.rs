//! HTTP/1.1 and HTTP/2 requests, on one connection or a new one each.

use anyhow::{Context, bail};
use axum::body::{Body, Bytes};
use axum::http::header::HOST;
use axum::http::{HeaderName, HeaderValue, Request};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::dial::Dial;
use super::{Args, Outcome};
use crate::report::header_lists;

enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

impl Sender {
    /// None if the other side has closed it, as it may between requests.
    async fn if_open(mut self) -> Option<Self> {
        let open = match &mut self {
            Self::One(sender) => sender.ready().await,
            Self::Two(sender) => sender.ready().await,
        };
        open.is_ok().then_some(self)
    }
}

/// The connection kept between requests, if any.
#[derive(Default)]
pub(crate) struct Session(Option<Sender>);

impl Session {
    pub(crate) async fn call(&mut self, args: &Args, dial: &Dial) -> anyhow::Result<Outcome> {
        let kept = match self.0.take() {
            Some(sender) => sender.if_open().await,
            None => None,
        };
        let mut sender = match kept {
            Some(sender) => sender,
            None => open(dial).await?,
        };
        let request = request(args, dial.http2)?;
        let response = match &mut sender {
            Sender::One(sender) => sender.send_request(request).await,
            Sender::Two(sender) => sender.send_request(request).await,
        }
        .context("sending the request")?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(Body::new(body), 16 << 20)
            .collect()
            .await
            .map_err(|e| anyhow::anyhow!("reading the answer: {e}"))?;
        if args.keep {
            self.0 = Some(sender);
        }
        Ok(Outcome {
            status: Some(parts.status.as_u16()),
            headers: header_lists(&parts.headers),
            ..Outcome::with_body(&body.to_bytes())
        })
    }
}

async fn open(dial: &Dial) -> anyhow::Result<Sender> {
    let io = TokioIo::new(dial.connect().await?);
    if dial.http2 {
        let (sender, connection) =
            http2::handshake(TokioExecutor::new(), io).await.context("HTTP/2 handshake")?;
        tokio::spawn(connection);
        Ok(Sender::Two(sender))
    } else {
        let (sender, connection) = http1::handshake(io).await.context("HTTP handshake")?;
        tokio::spawn(connection);
        Ok(Sender::One(sender))
    }
}

fn request(args: &Args, http2: bool) -> anyhow::Result<Request<Full<Bytes>>> {
    let authority = args.url.authority().context("the URL needs a host")?.as_str();
    let path = args.url.path_and_query().map_or("/", |p| p.as_str());
    let mut request = Request::builder().method(args.method.as_str());
    let mut host = Some(HeaderValue::from_str(authority).context("host")?);
    for line in &args.headers {
        let Some((name, value)) = line.split_once(':') else { bail!("header {line:?} has no ':'") };
        let name = HeaderName::try_from(name.trim()).with_context(|| format!("header {line:?}"))?;
        let value =
            HeaderValue::from_str(value.trim()).with_context(|| format!("header {line:?}"))?;
        if name == HOST {
            host = Some(value);
        } else {
            request = request.header(name, value);
        }
    }
    let host = host.take().context("host")?;
    request = if http2 {
        let host = host.to_str().context("host")?;
        request.uri(format!("http://{host}{path}"))
    } else {
        request.uri(path).header(HOST, host)
    };
    request.body(Full::new(Bytes::from(args.data.clone()))).context("building the request")
}
