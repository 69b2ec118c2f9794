//! One text by HTTP: at most so long and so large.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

/// Why a text did not come.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{uri} is no address of HTTP")]
    Uri { uri: String },
    #[error("asking {uri}: {why}")]
    Ask { uri: String, why: String },
    #[error("{uri} did not answer within {after:?}")]
    Late { uri: String, after: Duration },
    #[error("{uri} answered {status}")]
    Status { uri: String, status: StatusCode },
    #[error("{uri} answered with more than {most} bytes")]
    Large { uri: String, most: usize },
    #[error("reading what {uri} answered: {why}")]
    Read { uri: String, why: String },
}

/// What is done with a text that is longer than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Longer {
    Refuse,
    /// The beginning is enough.
    Cut,
}

#[derive(Clone, Debug)]
pub(crate) struct Fetcher {
    client: Client<HttpConnector, Empty<Bytes>>,
}

impl Fetcher {
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(Duration::from_secs(1)));
        let client = Client::builder(TokioExecutor::new())
            .pool_max_idle_per_host(1)
            .pool_idle_timeout(Duration::from_secs(15))
            .build(connector);
        Self { client }
    }

    pub(crate) async fn get(
        &self,
        uri: &str,
        within: Duration,
        (most, longer): (usize, Longer),
    ) -> Result<Vec<u8>, Error> {
        let late = |_| Error::Late { uri: uri.to_owned(), after: within };
        tokio::time::timeout(within, self.ask(uri, most, longer)).await.map_err(late)?
    }

    async fn ask(&self, uri: &str, most: usize, longer: Longer) -> Result<Vec<u8>, Error> {
        let ask = |why: String| Error::Ask { uri: uri.to_owned(), why };
        let to: Uri = uri.parse().map_err(|_| Error::Uri { uri: uri.to_owned() })?;
        let request = Request::get(to)
            .header(header::USER_AGENT, "pilot-discovery")
            .body(Empty::new())
            .map_err(|error| ask(error.to_string()))?;
        let response = self.client.request(request).await.map_err(|error| ask(chain(&error)))?;
        let status = response.status();
        if !status.is_success() {
            return Err(Error::Status { uri: uri.to_owned(), status });
        }
        let mut body = response.into_body();
        let mut text = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| ask(chain(&error)))?;
            let Ok(piece) = frame.into_data() else { continue };
            let room = most - text.len();
            if piece.len() > room {
                if longer == Longer::Refuse {
                    return Err(Error::Large { uri: uri.to_owned(), most });
                }
                text.extend_from_slice(&piece[..room]);
                break;
            }
            text.extend_from_slice(&piece);
        }
        Ok(text)
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        line = format!("{line}: {error}");
        source = error.source();
    }
    line
}
