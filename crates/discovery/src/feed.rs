//! One proxy's stream: its class's sets, as they change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use ironsail_identity::ANNOUNCEMENT;
use ironsail_xds::server::{Dirty, Feed, Report};
use ironsail_xds::{Interest, Resource, Response, Set, TypeUrl, Verdict};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::class::Class;
use crate::connection::Connection;
use crate::debug::Access;
use crate::{Engine, Kind, debug};

/// A proxy that takes longer for its first configuration no longer keeps others waiting.
const LONGEST_TURN: Duration = Duration::from_secs(5);
/// Clusters, endpoints, listeners and routes: what Envoy asks for one after the other.
const FIRST_TYPES: usize = 4;

/// Feeds one proxy.
pub(crate) struct ProxyFeed {
    engine: Arc<Engine>,
    number: u64,
    connection: Arc<Connection>,
    access: Access,
    class: Arc<Class>,
    changed: watch::Receiver<u64>,
    /// Whom the mesh trusts.
    announced: watch::Receiver<Arc<Set>>,
    /// The sets that the stream was given last.
    given: BTreeMap<TypeUrl, Arc<Set>>,
    /// When the change came that is on its way to the proxy.
    underway: Option<Instant>,
    /// Held until the proxy has its first configuration, or took too long.
    turn: Option<(OwnedSemaphorePermit, Instant)>,
}

impl ProxyFeed {
    pub(crate) fn new(
        engine: Arc<Engine>,
        (number, connection): (u64, Arc<Connection>),
        access: Access,
        turn: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let class = connection.class();
        let (changed, given) = (class.watch(), BTreeMap::new());
        let announced = engine.trust.announced();
        let turn = turn.map(|turn| (turn, Instant::now() + LONGEST_TURN));
        Self {
            engine,
            number,
            connection,
            access,
            class,
            changed,
            announced,
            given,
            underway: None,
            turn,
        }
    }

    /// Types whose set is another than was given.
    fn dirty(&mut self) -> Option<Dirty> {
        let class = self.connection.class();
        let moved = !Arc::ptr_eq(&class, &self.class);
        if moved {
            self.changed = class.watch();
            self.class = class;
        }
        self.changed.mark_unchanged();
        let is_other = |(type_url, given): &(&TypeUrl, &Arc<Set>)| {
            Kind::of(type_url).is_some_and(|kind| match self.class.set(kind) {
                Some(now) => !Arc::ptr_eq(given, &now),
                None => moved,
            })
        };
        let types: Vec<TypeUrl> =
            self.given.iter().filter(is_other).map(|(type_url, _)| type_url.clone()).collect();
        if types.is_empty() {
            return None;
        }
        self.underway = self.underway.or_else(|| Some(self.engine.publication()?.changed_at));
        Some(Dirty::Types(types))
    }

    /// Only who proved who it is may have Secrets, and only if Kubernetes says so.
    async fn may_read_secrets(&self) -> bool {
        match (&self.connection.identity, self.engine.secret_access.get()) {
            (Some(identity), Some(access)) => access.may_read_secrets(identity).await,
            _ => false,
        }
    }

    fn sent(&self, response: &Response) {
        self.connection.sent(response, self.engine.now());
        if let Some(kind) = Kind::of(&response.type_url) {
            let (put, gone) = (response.resources.len(), response.removed.len());
            self.engine.counters.sent(kind, put, gone, response.body_bytes());
        }
        debug!(
            target: "ads",
            "{}: PUSH for node:{} resources:{} removed:{} nonce:{}",
            word(&response.type_url),
            self.connection.proxy.id,
            response.resources.len(),
            response.removed.len(),
            response.nonce
        );
    }

    fn answered(&self, type_url: &TypeUrl, verdict: &Verdict) {
        let given = self.given.get(type_url).map(|set| &**set);
        let nack = self.connection.answered(type_url, verdict, given, self.engine.now());
        if let Some(kind) = Kind::of(type_url) {
            self.engine.counters.answered(kind, nack.is_none());
        }
        if let Some(nack) = nack {
            if let (Some(kind), Some(given)) = (Kind::of(type_url), given) {
                let blamed = nack.rejection.resources.iter().filter_map(|name| given.get(name));
                let blamed: Vec<Resource> = blamed.cloned().collect();
                self.engine.refused(&self.class, kind, &blamed, &nack.rejection.message);
            }
            warn!(
                target: "ads",
                "{}: ACK ERROR {} {}",
                word(type_url),
                self.connection.id,
                nack.rejection.message
            );
        }
    }
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// As Istio's log calls a type.
fn word(type_url: &str) -> String {
    Kind::of(type_url).map_or_else(|| type_url.to_owned(), |kind| kind.short().to_uppercase())
}

impl Feed for ProxyFeed {
    fn set<'a>(
        &'a mut self,
        type_url: &'a TypeUrl,
        interest: &'a Interest,
    ) -> BoxFuture<'a, Arc<Set>> {
        Box::pin(async move {
            if &**type_url == ANNOUNCEMENT {
                return self.announced.borrow_and_update().clone();
            }
            let Some(kind) = Kind::of(type_url) else {
                return debug::set(&self.engine, &self.access, type_url, interest);
            };
            if matches!(kind, Kind::Secret | Kind::Extension) {
                let may = self.may_read_secrets().await;
                if may {
                    self.engine.want_secrets_of(&self.connection.proxy.namespace);
                }
                self.class.may_read_secrets(may);
            }
            let set = self.engine.set(&self.class, kind, interest).await;
            self.given.insert(type_url.clone(), set.clone());
            set
        })
    }

    fn changed(&mut self) -> BoxFuture<'_, Option<Dirty>> {
        Box::pin(async move {
            let connection = self.connection.clone();
            let mut following = true;
            loop {
                let moved = connection.moved.notified();
                if let Some(dirty) = self.dirty() {
                    return Some(dirty);
                }
                let late = self.turn.as_ref().map(|(_, end)| *end);
                tokio::select! {
                    // The class cannot go: it is held here.
                    _ = self.changed.changed() => {}
                    () = until(late) => self.turn = None,
                    () = moved => {}
                    changed = self.announced.changed(), if following => match changed {
                        Ok(()) => return Some(Dirty::Types(vec![ANNOUNCEMENT.into()])),
                        Err(_) => following = false,
                    },
                    () = connection.close.cancelled() => return None,
                }
            }
        })
    }

    fn report(&mut self, report: Report<'_>) {
        match report {
            Report::Subscribed { type_url, interest } => {
                self.connection.subscribed(type_url, interest);
            }
            Report::Sent(response) => self.sent(response),
            Report::Answered { type_url, verdict } => self.answered(type_url, verdict),
            Report::Health { trouble } => self.heard_health(trouble),
            Report::Trust { text } => self.engine.heard_trust(&self.connection, text),
            Report::Settled => {
                if self.given.len() >= FIRST_TYPES {
                    self.turn = None;
                }
                if let Some(since) = self.underway.take() {
                    self.engine.counters.convergence.add(since.elapsed());
                }
            }
        }
    }
}

impl ProxyFeed {
    fn heard_health(&self, trouble: Option<&str>) {
        let id = &self.connection.id;
        match trouble {
            None => info!(target: "ads", "{id}: its application is healthy"),
            // Nothing would be worse than to seem to act on it.
            Some(why) => warn!(
                target: "ads",
                "{id}: its application is not healthy: {why}; it stays an endpoint, since health of \
                 WorkloadEntries is not supported yet"
            ),
        }
    }
}

impl Drop for ProxyFeed {
    fn drop(&mut self) {
        self.engine.connections.remove(self.number);
        self.engine.trust.moved();
        debug!(target: "ads", "{} terminated", self.connection.id);
    }
}
