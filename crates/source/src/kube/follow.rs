//! One collection of a Kubernetes API as an endless stream: everything there is, then every change,
//! whatever happens to the connection.
//!
//! In: a client and a [`Target`]. Out: [`Step`]s. A list is streamed where the server can, and paged
//! where it cannot. A watch that ends goes on after the last version it told; one whose version has
//! expired lists again, and the taker finds out what vanished meanwhile. A resource that is not
//! served counts as empty, and is asked for again when the set of CRDs changes, or now and then.

use std::time::Duration;

use futures::{Stream, StreamExt};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use rand::Rng;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::Instant;

use super::line::{Head, Line, Lines, Page, Status};
use super::target::{From, Target};
use crate::backoff::Backoff;

/// What a list may be at most, per page.
const LONGEST_PAGE: usize = 512 << 20;
/// How long a watch lasts, in seconds; below the read timeout of the client.
const LASTS: std::ops::Range<u64> = 230..290;
/// A watch that ends sooner has failed.
const SHORTEST: Duration = Duration::from_secs(1);
/// How much later than asked for a server may end a watch before it counts as dead.
const GRACE: Duration = Duration::from_secs(15);
/// How often a resource that is not served is asked for when nobody tells of new CRDs.
const ABSENT: Duration = Duration::from_secs(30);
/// How long after a CRD came its resource is asked for.
const SOON: Duration = Duration::from_millis(100);
/// After so many failures to go on, everything is listed again.
const GIVE_UP: u32 = 4;

#[derive(Debug)]
pub(crate) enum Step {
    /// What follows up to `Listed` is everything there is.
    Begin,
    Changed(Head, Box<RawValue>),
    Deleted(Head),
    /// The list is complete.
    Listed,
    /// The resource is not served: there are no objects of it.
    Absent,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the server does not serve it")]
    Absent,
    #[error("the version to go on from has expired: {0}")]
    Expired(String),
    #[error("the server cannot stream a list: {0}")]
    CannotStream(String),
    #[error("the server answers {code}: {message}")]
    Refused { code: u16, message: String },
    #[error("{0}")]
    Broken(String),
}

pub(crate) struct Follow {
    pub(crate) client: Client,
    pub(crate) target: Target,
    /// Whether the server may be asked to stream lists.
    pub(crate) stream_lists: bool,
    /// Changes when a CRD comes or goes.
    pub(crate) served: Option<watch::Receiver<u64>>,
}

/// What one connection tells: steps, and where to go on after them.
enum Heard {
    Step(Step),
    Version(String),
}

impl Follow {
    pub(crate) fn steps(mut self) -> impl Stream<Item = Step> + Send {
        async_stream::stream! {
            let mut backoff = Backoff::default();
            // Where to go on; nothing means a list first.
            let mut version: Option<String> = None;
            loop {
                if let Some(served) = &mut self.served {
                    served.mark_unchanged();
                }
                let (mut failure, begun) = (None, Instant::now());
                {
                    let mut session = std::pin::pin!(self.session(version.clone()));
                    while let Some(heard) = session.next().await {
                        match heard {
                            Ok(Heard::Step(step)) => yield step,
                            Ok(Heard::Version(told)) => {
                                version = Some(told);
                                backoff.reset();
                            }
                            Err(error) => failure = Some(error),
                        }
                    }
                }
                let failure = match failure {
                    // A server that ends every watch at once must not be asked without a pause.
                    None if begun.elapsed() < SHORTEST => Failure::Broken("ended at once".to_owned()),
                    None => continue,
                    Some(failure) => failure,
                };
                if matches!(failure, Failure::Absent) {
                    version = None;
                    yield Step::Absent;
                }
                self.rest(failure, &mut version, &mut backoff).await;
            }
        }
    }

    /// One try: a list unless there is a version to go on from, then a watch until it ends.
    fn session(
        &self,
        version: Option<String>,
    ) -> impl Stream<Item = Result<Heard, Failure>> + Send + '_ {
        async_stream::try_stream! {
            let mut version = version;
            if version.is_none() && !self.stream_lists {
                yield Heard::Step(Step::Begin);
                let mut after = None;
                loop {
                    let page = self.page(after.as_deref()).await?;
                    for raw in page.items {
                        match serde_json::from_str::<Head>(raw.get()) {
                            Ok(head) => yield Heard::Step(Step::Changed(head, raw)),
                            Err(error) => self.unreadable(&error.to_string()),
                        }
                    }
                    after = page.metadata.after.filter(|token| !token.is_empty());
                    if after.is_none() {
                        version = Some(page.metadata.resource_version);
                        break;
                    }
                }
                yield Heard::Step(Step::Listed);
                yield Heard::Version(version.clone().unwrap_or_default());
            }
            let mut watch = std::pin::pin!(self.watch(version));
            while let Some(heard) = watch.next().await {
                yield heard?;
            }
        }
    }

    /// One watch, which begins with a streamed list unless there is a version to go on from.
    fn watch(
        &self,
        version: Option<String>,
    ) -> impl Stream<Item = Result<Heard, Failure>> + Send + '_ {
        async_stream::try_stream! {
            let lasts = rand::rng().random_range(LASTS);
            let body = self.open(version.as_deref(), lasts).await?;
            let mut lines = Lines::new(body.into_data_stream());
            let until = Instant::now() + Duration::from_secs(lasts) + GRACE;
            // While a list is streamed, versions are those of the objects, not of the list.
            let mut initial = version.is_none();
            if initial {
                yield Heard::Step(Step::Begin);
            }
            while let Ok(Some(line)) = tokio::time::timeout_at(until, lines.next()).await {
                let line = line.map_err(|error| Failure::Broken(error.to_string()))?;
                let (step, told) = match Line::parse(&line) {
                    Line::Changed(head, raw) => {
                        let told = head.metadata.resource_version.clone();
                        (Some(Step::Changed(head, raw)), told)
                    }
                    Line::Deleted(head) => {
                        let told = head.metadata.resource_version.clone();
                        (Some(Step::Deleted(head)), told)
                    }
                    Line::Bookmark { version, ends_initial } => {
                        let ended = initial && ends_initial;
                        initial = initial && !ends_initial;
                        (ended.then_some(Step::Listed), version)
                    }
                    Line::Error { code, message } => Err(Failure::of(code, message))?,
                    Line::Unreadable(why) => {
                        self.unreadable(&why);
                        continue;
                    }
                };
                if let Some(step) = step {
                    yield Heard::Step(step);
                }
                if !initial && !told.is_empty() {
                    yield Heard::Version(told);
                }
            }
            if initial {
                let why = "the watch ended before its list was complete";
                Err(Failure::Broken(why.to_owned()))?;
            }
        }
    }

    fn unreadable(&self, why: &str) {
        tracing::warn!(resource = %self.target.name(), why, "an event of a watch is unreadable");
    }

    /// Decides where to go on after a failure, and waits until it is time.
    async fn rest(
        &mut self,
        failure: Failure,
        version: &mut Option<String>,
        backoff: &mut Backoff,
    ) {
        let resource = self.target.name();
        match failure {
            Failure::Absent => {
                tracing::debug!(%resource, "not served; waiting for its CRD");
                let wait = ABSENT.mul_f64(rand::rng().random_range(0.8..1.2));
                if let Some(served) = &mut self.served {
                    let changed = async {
                        if served.changed().await.is_err() {
                            std::future::pending::<()>().await;
                        }
                    };
                    let _ = tokio::time::timeout(wait, changed).await;
                    // A CRD is there before it is served, by some milliseconds.
                    let soon = SOON.mul_f64(rand::rng().random_range(0.5..1.0));
                    tokio::time::sleep(soon).await;
                } else {
                    tokio::time::sleep(wait).await;
                }
                return;
            }
            Failure::CannotStream(why) => {
                tracing::debug!(%resource, %why, "lists are paged from now on");
                self.stream_lists = false;
                return;
            }
            Failure::Expired(why) => {
                tracing::info!(%resource, %why, "listing again");
                *version = None;
                if backoff.failures() == 0 {
                    // Once at once: nobody is at fault.
                    let _ = backoff.pause();
                    return;
                }
            }
            Failure::Refused { code, message } => {
                tracing::warn!(%resource, code, %message, "watch refused, trying again");
                // What the server does not like about the version, a list may cure.
                if (400..500).contains(&code) && code != 429 || backoff.failures() >= GIVE_UP {
                    *version = None;
                }
            }
            Failure::Broken(why) => {
                tracing::warn!(%resource, %why, "watch broke, trying again");
                if backoff.failures() >= GIVE_UP {
                    *version = None;
                }
            }
        }
        tokio::time::sleep(backoff.pause()).await;
    }

    async fn page(&self, after: Option<&str>) -> Result<Page, Failure> {
        let request = self.target.page(after).map_err(|e| Failure::Broken(e.to_string()))?;
        let body = self.send(request).await?;
        let body = http_body_util::Limited::new(body, LONGEST_PAGE);
        let bytes = body.collect().await.map_err(|e| Failure::Broken(e.to_string()))?.to_bytes();
        serde_json::from_slice(&bytes).map_err(|e| Failure::Broken(format!("reading a list: {e}")))
    }

    async fn open(&self, version: Option<&str>, lasts: u64) -> Result<Body, Failure> {
        let from = version.map_or(From::Everything, From::Version);
        let request = self.target.watch(from, lasts);
        let request = request.map_err(|e| Failure::Broken(e.to_string()))?;
        self.send(request).await.map_err(|failure| match failure {
            // Servers without streamed lists say so with one of these.
            Failure::Refused { code: 400 | 422, message } if version.is_none() => {
                Failure::CannotStream(message)
            }
            other => other,
        })
    }

    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<Body, Failure> {
        let answer = self.client.send(request.map(Body::from)).await;
        let answer = answer.map_err(|e| Failure::Broken(chain(&e)))?;
        let code = answer.status();
        if code.is_success() {
            return Ok(answer.into_body());
        }
        let body = http_body_util::Limited::new(answer.into_body(), 1 << 20);
        let bytes =
            body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let status: Status = serde_json::from_slice(&bytes).unwrap_or_default();
        Err(Failure::of(code.as_u16(), status.message))
    }
}

impl Failure {
    fn of(code: u16, message: String) -> Self {
        match code {
            404 => Self::Absent,
            410 => Self::Expired(message),
            code => Self::Refused { code, message },
        }
    }
}

/// An error with its causes: the outermost alone often says only "service error".
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}
