//! Events about objects, as `kubectl describe` shows them: in come facts, out go Event objects.
//!
//! The same fact told again raises the count of the Event already there. Events are best effort:
//! when the API is slow they are dropped, never waited for.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use rustc_hash::FxHashMap;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use ironsail_sys::clock::Clock;

/// How many Events may wait to be written.
const WAITING: usize = 512;
/// How many different facts are remembered to be counted together.
const REMEMBERED: usize = 512;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fact {
    pub(crate) warning: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Fact {
    pub(crate) fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { warning: false, reason, message: message.into() }
    }

    pub(crate) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { warning: true, reason, message: message.into() }
    }
}

struct Record {
    component: &'static str,
    about: ObjectReference,
    fact: Fact,
}

pub(crate) struct Recorder {
    sender: mpsc::Sender<Record>,
}

impl Recorder {
    pub(crate) fn new() -> (Self, Inbox) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self { sender }, Inbox(receiver))
    }

    pub(crate) fn tell<K: Resource<DynamicType = ()>>(
        &self,
        component: &'static str,
        object: &K,
        fact: Fact,
    ) {
        let meta = object.meta();
        let about = ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            field_path: None,
        };
        if self.sender.try_send(Record { component, about, fact }).is_err() {
            tracing::debug!(component, "an event was dropped: too many are waiting");
        }
    }
}

/// The receiving end, to be given to [`write`].
pub(crate) struct Inbox(mpsc::Receiver<Record>);

/// Writes events until `stop`.
pub(crate) async fn write(client: Client, clock: Clock, mut inbox: Inbox, stop: CancellationToken) {
    let mut known: FxHashMap<String, (String, i32)> = FxHashMap::default();
    let mut serial = clock.since_epoch().as_nanos();
    loop {
        let record = tokio::select! {
            () = stop.cancelled() => return,
            record = inbox.0.recv() => match record {
                Some(record) => record,
                None => return,
            },
        };
        let now = Timestamp::try_from(clock.now()).unwrap_or(Timestamp::UNIX_EPOCH);
        let ns = record.about.namespace.clone().unwrap_or_else(|| "default".into());
        let api: Api<Event> = Api::namespaced(client.clone(), &ns);
        let identity = format!(
            "{ns}/{}/{}/{}",
            record.about.uid.as_deref().unwrap_or(""),
            record.fact.reason,
            record.fact.message
        );
        if let Some((name, count)) = known.get_mut(&identity) {
            *count += 1;
            let body = json!({ "count": *count, "lastTimestamp": Time(now) });
            if api.patch(name, &PatchParams::default(), &Patch::Merge(&body)).await.is_ok() {
                continue;
            }
        }
        serial += 1;
        let event = compose(record, &ns, serial, now);
        let name = event.metadata.name.clone().unwrap_or_default();
        match api.create(&PostParams::default(), &event).await {
            Ok(_) => {
                if known.len() >= REMEMBERED {
                    known.clear();
                }
                known.insert(identity, (name, 1));
            }
            Err(error) => tracing::debug!(%error, event = %name, "an event was not written"),
        }
    }
}

fn compose(record: Record, ns: &str, serial: u128, now: Timestamp) -> Event {
    let subject = record.about.name.as_deref().unwrap_or("");
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{subject}.{serial:x}")),
            namespace: Some(ns.to_string()),
            ..ObjectMeta::default()
        },
        type_: Some(if record.fact.warning { "Warning" } else { "Normal" }.into()),
        reason: Some(record.fact.reason.into()),
        message: Some(record.fact.message),
        count: Some(1),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        event_time: None::<MicroTime>,
        source: Some(EventSource { component: Some(record.component.into()), host: None }),
        reporting_component: Some(record.component.into()),
        reporting_instance: Some(String::new()),
        involved_object: record.about,
        ..Event::default()
    }
}
