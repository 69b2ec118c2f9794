//! A client that stays in conversation: connects, asks, answers, and comes back when it broke off.

use std::time::Duration;

use ironsail_proto::envoy::config::core::v3::Node;
use tokio::sync::{mpsc, oneshot};
use tonic::Status;
use tonic::transport::Channel;

use super::session::{ClientSession, Outgoing, Update};
use super::transport::{self, Requests};
use crate::{Name, TypeUrl, Variant};

/// How long to wait before the next try.
#[derive(Clone, Debug)]
pub struct Backoff {
    pub first: Duration,
    pub longest: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { first: Duration::from_millis(100), longest: Duration::from_secs(30) }
    }
}

/// A client that stays connected. Dropping it ends the conversation.
pub struct Client {
    wishes: mpsc::Sender<Wish>,
}

enum Wish {
    All(TypeUrl),
    More(TypeUrl, Vec<Name>),
    Less(TypeUrl, Vec<Name>),
}

/// What happens to a client.
#[derive(Debug)]
pub enum Event {
    Connected,
    /// The stream ended; the client tries again.
    Disconnected(Status),
    Update(Pending),
}

/// An update that waits for a verdict. Dropping it refuses it.
#[derive(Debug)]
pub struct Pending {
    pub update: Update,
    answer: oneshot::Sender<Result<(), String>>,
}

impl Pending {
    pub fn accept(self) {
        let _ = self.answer.send(Ok(()));
    }

    pub fn reject(self, reason: impl Into<String>) {
        let _ = self.answer.send(Err(reason.into()));
    }
}

impl Client {
    /// Starts a client that speaks over `channel` as `node`.
    pub fn start(
        channel: Channel,
        node: Node,
        variant: Variant,
        backoff: Backoff,
    ) -> (Self, mpsc::Receiver<Event>) {
        let (wishes, wanted) = mpsc::channel(16);
        let (events, happened) = mpsc::channel(1);
        let session = ClientSession::new(variant, node);
        let task = Conversation { channel, session, wanted, events, progress: false };
        tokio::spawn(task.run(backoff));
        (Self { wishes }, happened)
    }

    pub async fn subscribe_all(&self, type_url: &str) {
        self.wish(Wish::All(type_url.into())).await;
    }

    pub async fn subscribe(&self, type_url: &str, names: impl IntoIterator<Item = &str>) {
        self.wish(Wish::More(type_url.into(), names.into_iter().map(Name::from).collect())).await;
    }

    pub async fn unsubscribe(&self, type_url: &str, names: impl IntoIterator<Item = &str>) {
        self.wish(Wish::Less(type_url.into(), names.into_iter().map(Name::from).collect())).await;
    }

    async fn wish(&self, wish: Wish) {
        // The task ends with this handle or with the receiver of events; in the second case there
        // is nobody left who could want something.
        let _ = self.wishes.send(wish).await;
    }
}

struct Conversation {
    channel: Channel,
    session: ClientSession,
    wanted: mpsc::Receiver<Wish>,
    events: mpsc::Sender<Event>,
    /// A response came since the last disconnect.
    progress: bool,
}

/// Why the conversation stopped.
enum Stop {
    /// Nobody wants anything any more.
    Done,
    Broken(Status),
}

impl From<Status> for Stop {
    fn from(status: Status) -> Self {
        Self::Broken(status)
    }
}

impl Conversation {
    async fn run(mut self, backoff: Backoff) {
        let mut wait = backoff.first;
        loop {
            let stop = self.converse().await;
            self.session.disconnect();
            let Stop::Broken(status) = stop else { return };
            if self.events.send(Event::Disconnected(status)).await.is_err() {
                return;
            }
            if std::mem::take(&mut self.progress) {
                wait = backoff.first;
            }
            if self.pause(wait.mul_f64(rand::random_range(0.5..1.0))).await.is_none() {
                return;
            }
            wait = (wait * 2).min(backoff.longest);
        }
    }

    /// Waits, and remembers wishes; None if there will be no more.
    async fn pause(&mut self, time: Duration) -> Option<()> {
        let mut over = std::pin::pin!(tokio::time::sleep(time));
        loop {
            tokio::select! {
                () = over.as_mut() => return Some(()),
                wish = self.wanted.recv() => {
                    let _ = apply(&mut self.session, wish?);
                }
            }
        }
    }

    async fn converse(&mut self) -> Stop {
        match self.one_stream().await {
            Ok(never) => match never {},
            Err(stop) => stop,
        }
    }

    async fn one_stream(&mut self) -> Result<std::convert::Infallible, Stop> {
        let (requests, opening) = transport::open(&self.channel, self.session.variant());
        for request in self.session.connect() {
            requests.send(request).await?;
        }
        let mut opening = std::pin::pin!(opening);
        let mut responses = loop {
            tokio::select! {
                opened = opening.as_mut() => break opened?,
                wish = self.wanted.recv() => self.ask(wish, &requests).await?,
            }
        };
        self.tell(Event::Connected).await?;
        loop {
            tokio::select! {
                wish = self.wanted.recv() => self.ask(wish, &requests).await?,
                incoming = responses.next() => {
                    self.progress = true;
                    let update = self.session.receive(incoming?);
                    let verdict = self.verdict(&update).await?;
                    let request = self.session.answer(update, verdict);
                    requests.send(request).await?;
                }
            }
        }
    }

    async fn ask(&mut self, wish: Option<Wish>, requests: &Requests) -> Result<(), Stop> {
        let request = apply(&mut self.session, wish.ok_or(Stop::Done)?);
        match request {
            Some(request) => Ok(requests.send(request).await?),
            None => Ok(()),
        }
    }

    async fn verdict(&mut self, update: &Update) -> Result<Result<(), String>, Stop> {
        let (answer, verdict) = oneshot::channel();
        self.tell(Event::Update(Pending { update: update.clone(), answer })).await?;
        Ok(verdict.await.unwrap_or_else(|_| Err("nobody took it".to_owned())))
    }

    async fn tell(&self, event: Event) -> Result<(), Stop> {
        self.events.send(event).await.map_err(|_| Stop::Done)
    }
}

fn apply(session: &mut ClientSession, wish: Wish) -> Option<Outgoing> {
    match wish {
        Wish::All(type_url) => session.subscribe_all(&type_url),
        Wish::More(type_url, names) => session.subscribe(&type_url, &names),
        Wish::Less(type_url, names) => session.unsubscribe(&type_url, &names),
    }
}
