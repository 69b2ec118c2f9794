//! The task behind one stream: requests and changes in, responses out.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tracing::debug;

use super::Shared;
use super::body::{Out, StreamBody};
use super::feed::{Caller, Dirty, Feed, HasNode, Report, Source};
use super::listen::ConnectionEnd;
use crate::messages::Messages;
use crate::{Ask, HEALTH, Request, Session, TRUST, TypeUrl};

/// Starts the task and gives the body that it fills.
pub(super) fn spawn<S, M>(
    shared: &Arc<Shared<S>>,
    requests: Messages<M>,
    caller: Caller,
) -> StreamBody
where
    S: Source,
    M: prost::Message + Default + HasNode + Into<Request> + 'static,
{
    // One response waits at most; the next is made when this one is on its way.
    let (out, queue) = mpsc::channel(1);
    let open = Open::new(shared);
    tokio::spawn(async move {
        tokio::select! {
            // The client went away: nobody is left to tell.
            () = out.closed() => {}
            status = run(&open.0, requests, caller, &out) => {
                debug!(code = ?status.code(), reason = status.message(), "stream ends");
                let _ = out.send(Out::End(status)).await;
            }
        }
    });
    StreamBody::new(queue)
}

/// Counts a stream while it lives.
struct Open<S>(Arc<Shared<S>>);

impl<S> Open<S> {
    fn new(shared: &Arc<Shared<S>>) -> Self {
        shared.streams.fetch_add(1, Ordering::Relaxed);
        Self(shared.clone())
    }
}

impl<S> Drop for Open<S> {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Runs a stream to its end.
async fn run<S, M>(
    shared: &Shared<S>,
    mut requests: Messages<M>,
    mut caller: Caller,
    out: &mpsc::Sender<Out>,
) -> Status
where
    S: Source,
    M: prost::Message + Default + HasNode + Into<Request> + 'static,
{
    let first = tokio::time::timeout(shared.settings.first_request, requests.message()).await;
    let mut first = match first {
        Ok(Ok(Some(request))) => request,
        Ok(Ok(None)) => return Status::ok(""),
        Ok(Err(status)) => return status,
        Err(_) => return Status::deadline_exceeded("no request came"),
    };
    let Some(node) = first.take_node() else {
        return Status::invalid_argument("the first request does not say which node it is from");
    };
    caller.node = node;
    let first: Request = first.into();
    caller.type_url = first.type_url.clone();
    let end = caller.extensions.get::<ConnectionEnd>().cloned().unwrap_or_default();
    let session = Session::new(caller.variant, shared.interner.clone());
    let feed = match shared.source.open(caller).await {
        Ok(feed) => feed,
        Err(status) => return status,
    };
    let mut stream = Stream { session, feed, dirty: false };
    match stream.hear(first).await {
        Ok(()) => stream.run(requests, out, &end.0).await,
        Err(status) => status,
    }
}

struct Stream {
    session: Session,
    feed: Box<dyn Feed>,
    /// There may be something to send.
    dirty: bool,
}

impl Stream {
    async fn run<M>(
        &mut self,
        mut requests: Messages<M>,
        out: &mpsc::Sender<Out>,
        end: &CancellationToken,
    ) -> Status
    where
        M: prost::Message + Default + Into<Request> + 'static,
    {
        loop {
            tokio::select! {
                request = requests.message() => match request {
                    Ok(Some(request)) => {
                        if let Err(status) = self.hear(request.into()).await {
                            return status;
                        }
                    }
                    Ok(None) => return Status::ok(""),
                    Err(status) => return status,
                },
                changed = self.feed.changed() => match changed {
                    Some(changed) => self.refresh(changed).await,
                    None => return Status::unavailable("the proxy should connect again"),
                },
                // Made only when there is room for it, so that it is never out of date.
                room = out.reserve(), if self.dirty => match room {
                    Ok(room) => self.push(room),
                    Err(_) => return Status::ok(""),
                },
                () = end.cancelled() => return Status::ok(""),
            }
        }
    }

    /// Takes a request and gets the set that it asks for.
    async fn hear(&mut self, request: Request) -> Result<(), Status> {
        let type_url = request.type_url.clone();
        if &*type_url == HEALTH {
            self.feed.report(Report::Health { trouble: request.error.as_deref() });
            return Ok(());
        }
        if &*type_url == TRUST {
            let (Ask::StateOfTheWorld { names, .. } | Ask::Delta { more: names, .. }) = request.ask;
            if let Some(text) = names.first() {
                self.feed.report(Report::Trust { text });
            }
            return Ok(());
        }
        let refused = |refusal: crate::Refusal| Status::invalid_argument(refusal.to_string());
        let heard = self.session.request(request).map_err(refused)?;
        if let Some(verdict) = &heard.verdict {
            self.feed.report(Report::Answered { type_url: &type_url, verdict });
        }
        if heard.interest_changed {
            if let Some(interest) = self.session.interest(&type_url) {
                self.feed.report(Report::Subscribed { type_url: &type_url, interest });
            }
            self.aim(&type_url).await;
        }
        self.dirty = true;
        Ok(())
    }

    async fn refresh(&mut self, changed: Dirty) {
        let types: Vec<TypeUrl> = match changed {
            Dirty::All => self.session.types().cloned().collect(),
            Dirty::Types(types) => types,
        };
        for type_url in &types {
            self.aim(type_url).await;
        }
        self.dirty = true;
    }

    async fn aim(&mut self, type_url: &TypeUrl) {
        if let Some(interest) = self.session.interest(type_url) {
            let set = self.feed.set(type_url, interest).await;
            self.session.aim(type_url, set);
        }
    }

    fn push(&mut self, room: mpsc::Permit<'_, Out>) {
        match self.session.next_response() {
            Some(response) => {
                self.feed.report(Report::Sent(&response));
                room.send(Out::Push(Box::new(response)));
            }
            None => {
                self.dirty = false;
                if self.session.is_settled() {
                    self.feed.report(Report::Settled);
                }
            }
        }
    }
}
