//! What the agent itself wants from the control plane, over the stream that its proxy has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ironsail_identity::{ANNOUNCEMENT, TrustReport};
use ironsail_proto::Message;
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::google::protobuf::Any;
use ironsail_proto::istio::networking::nds::v1::NameTable;
use ironsail_xds::{HEALTH, TRUST};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tracing::warn;

use super::addresses::{Addresses, ENDPOINTS};
use super::variant::Variant;
use crate::proxy::health::Health;
use crate::proxy::trust::Trust;
use crate::proxy::wasm::Cache;

pub(crate) const NAME_TABLE: &str = "type.googleapis.com/istio.networking.nds.v1.NameTable";
/// From this size on a message leaves a hole in memory that is worth closing.
const LARGE: usize = 64 << 10;
/// Large messages come together.
const CALM: Duration = Duration::from_secs(2);
/// Types of debug data begin so.
const DEBUG: &str = "istio.io/debug";

/// The agent's own part in all streams.
pub(crate) struct Own {
    names: Option<watch::Sender<Option<Arc<NameTable>>>>,
    health: Option<Healths>,
    trust: Option<Trust>,
    modules: Option<Arc<Cache>>,
    /// Something large went through.
    large: Notify,
    debug: Mutex<Option<mpsc::Sender<Question>>>,
    addresses: Arc<Addresses>,
    /// One question at a time: answers are told apart by their type only.
    asking: tokio::sync::Mutex<()>,
}

/// The application's health, once it is known.
pub(crate) type Healths = watch::Receiver<Option<Health>>;

struct Question {
    type_url: String,
    names: Vec<String>,
    answer: oneshot::Sender<Vec<Any>>,
}

impl Own {
    /// With `names`, the name table is asked for and kept there.
    pub(crate) fn new(names: Option<watch::Sender<Option<Arc<NameTable>>>>) -> Self {
        Self {
            names,
            health: None,
            trust: None,
            modules: None,
            large: Notify::new(),
            debug: Mutex::new(None),
            addresses: Arc::default(),
            asking: tokio::sync::Mutex::default(),
        }
    }

    /// Also says how the application is, at the start of a stream and whenever that changes.
    #[must_use]
    pub(crate) fn with_health(self, health: Option<Healths>) -> Self {
        Self { health, ..self }
    }

    /// Whom to trust is asked for, and what came of it is told.
    #[must_use]
    pub(crate) fn with_trust(self, trust: Trust) -> Self {
        Self { trust: Some(trust), ..self }
    }

    /// Modules that configurations of filters want are fetched.
    pub(crate) fn with_modules(mut self, modules: Arc<Cache>) -> Self {
        self.modules = Some(modules);
        self
    }

    pub(super) fn modules(&self) -> Option<&Arc<Cache>> {
        self.modules.as_ref()
    }

    /// Who has which address, as far as the proxy was told.
    pub(crate) fn addresses(&self) -> &Arc<Addresses> {
        &self.addresses
    }

    /// Gives back the memory that large messages took, once they are through.
    pub(crate) async fn tidy(&self) {
        loop {
            self.large.notified().await;
            tokio::time::sleep(CALM).await;
            ironsail_sys::memory::give_back_now();
        }
    }

    /// Takes part in a stream of its proxy.
    pub(super) fn join(self: &Arc<Self>, node: Option<Node>) -> Side {
        // A gRPC client beside the proxy has a stream too, but the proxy's is the one that lasts.
        let grpc = node
            .as_ref()
            .and_then(|node| node.metadata.as_ref())
            .is_some_and(|metadata| metadata.fields.contains_key("GENERATOR"));
        let (ask, questions) = mpsc::channel(4);
        if !grpc {
            *self.debug.lock() = Some(ask);
        }
        let wants_names = !grpc && self.names.is_some();
        let health = self.health.clone().filter(|_| !grpc).map(|mut health| {
            // What an earlier stream said is news for whoever is at the other end now.
            if health.borrow().is_some() {
                health.mark_changed();
            }
            health
        });
        let reports = self.trust.as_ref().map(|trust| {
            let mut reports = trust.reports();
            reports.mark_changed();
            reports
        });
        let open = BTreeMap::new();
        Side { own: self.clone(), node, wants_names, health, reports, questions, open }
    }

    /// Asks the control plane for debug data over the stream that is open now; None if there is none.
    pub(crate) async fn debug(&self, type_url: &str, names: Vec<String>) -> Option<Vec<Any>> {
        let _one = self.asking.lock().await;
        let questions = self.debug.lock().clone()?;
        let (answer, heard) = oneshot::channel();
        let question = Question { type_url: type_url.to_owned(), names, answer };
        questions.send(question).await.ok()?;
        heard.await.ok()
    }
}

/// One stream's share for the agent.
pub(super) struct Side {
    own: Arc<Own>,
    node: Option<Node>,
    wants_names: bool,
    health: Option<Healths>,
    reports: Option<watch::Receiver<Option<TrustReport>>>,
    questions: mpsc::Receiver<Question>,
    open: BTreeMap<String, oneshot::Sender<Vec<Any>>>,
}

pub(super) enum Taken<V: Variant> {
    /// Was for the agent, who has this to say back.
    Ours(V),
    /// Was for the agent, who has nothing to say.
    Heard,
    Theirs(V::Response),
}

impl Side {
    pub(super) fn first_requests<V: Variant>(&self) -> Vec<V> {
        let names = self.wants_names.then_some(NAME_TABLE);
        let trust = self.own.trust.is_some().then_some(ANNOUNCEMENT);
        let wanted = names.into_iter().chain(trust);
        wanted.map(|type_url| V::ask(type_url, &[], self.node.clone())).collect()
    }

    /// Something that the agent wants to ask or say.
    pub(super) async fn next_request<V: Variant>(&mut self) -> V {
        let asked = async {
            match self.questions.recv().await {
                Some(question) => question,
                // A newer stream answers questions now.
                None => std::future::pending().await,
            }
        };
        let changed = async {
            let Some(health) = &mut self.health else { return std::future::pending().await };
            loop {
                if health.changed().await.is_err() {
                    return std::future::pending().await;
                }
                if let Some(health) = health.borrow_and_update().clone() {
                    return health;
                }
            }
        };
        let reported = async {
            let Some(reports) = &mut self.reports else { return std::future::pending().await };
            loop {
                if reports.changed().await.is_err() {
                    return std::future::pending().await;
                }
                if let Some(report) = reports.borrow_and_update().clone() {
                    return report;
                }
            }
        };
        tokio::select! {
            report = reported => V::ask(TRUST, &[report.to_text()], None),
            question = asked => {
                let request = V::ask(&question.type_url, &question.names, self.node.clone());
                self.open.insert(question.type_url, question.answer);
                request
            }
            health = changed => {
                let error = match health {
                    Health::Good => None,
                    Health::Bad(why) => Some(why),
                };
                V::say(HEALTH, error)
            }
        }
    }

    pub(super) fn take<V: Variant>(&mut self, response: V::Response) -> Taken<V> {
        if response.encoded_len() >= LARGE {
            self.own.large.notify_one();
        }
        let type_url = V::type_url(&response);
        if type_url == NAME_TABLE && self.wants_names {
            let error = self.take_names(V::resources(&response).first()).err();
            return Taken::Ours(V::answer(&response, error));
        }
        if type_url == ANNOUNCEMENT
            && let Some(trust) = &self.own.trust
        {
            let heard = V::resources(&response).first().map(|one| trust.hear(&one.value));
            return Taken::Ours(V::answer(&response, heard.and_then(Result::err)));
        }
        // An answer to this would be another word about the application's health.
        if type_url == HEALTH {
            return Taken::Heard;
        }
        if type_url.starts_with(DEBUG)
            && let Some(asked) = self.open.remove(type_url)
        {
            let _ = asked.send(V::resources(&response));
            return Taken::Ours(V::answer(&response, None));
        }
        if type_url == ENDPOINTS {
            self.own.addresses.learn(&V::resources(&response), V::removed(&response));
        }
        Taken::Theirs(response)
    }

    fn take_names(&self, table: Option<&Any>) -> Result<(), String> {
        let (Some(table), Some(names)) = (table, &self.own.names) else { return Ok(()) };
        match NameTable::decode(table.value.clone()) {
            Ok(table) => {
                names.send_replace(Some(Arc::new(table)));
                Ok(())
            }
            Err(error) => {
                warn!(target: "dns", "the name table cannot be read: {error}");
                Err(error.to_string())
            }
        }
    }
}
