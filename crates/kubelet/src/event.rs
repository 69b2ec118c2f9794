//! Events: what the node tells of its pods, with repeats counted in place of written anew.
//!
//! In come notes from anywhere, never blocking the one who tells; out go Event objects. Each pod
//! may say so much in a burst and then only now and then, so a pod that fails all day does not
//! fill the store.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use ironsail_sys::clock::Clock;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    Normal,
    Warning,
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Note {
    pub about: ObjectReference,
    pub severity: Severity,
    pub reason: &'static str,
    pub message: String,
}

/// Takes notes. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recorder(mpsc::Sender<Note>);

/// Notes that may wait; more are dropped, for events are hints, not records.
const QUEUE: usize = 4096;
const MAX_MESSAGE: usize = 1024;
/// What is remembered to count repeats.
const MEMORY: usize = 4096;
/// A repeat after this long is told as new.
const FORGET: Duration = Duration::from_secs(600);
/// Kubernetes' own limits of a chatty object.
const BURST: f64 = 25.0;
const REFILL_SECONDS: f64 = 300.0;

impl Recorder {
    /// A recorder and the task that writes what it is told.
    pub fn new(
        client: Client,
        node: String,
        clock: Clock,
    ) -> (Self, impl Future<Output = ()> + Send) {
        let (tx, rx) = mpsc::channel(QUEUE);
        (
            Self(tx),
            Writer {
                client,
                node,
                clock,
                seen: HashMap::new(),
                order: VecDeque::new(),
                spent: HashMap::new(),
            }
            .run(rx),
        )
    }

    /// A recorder whose notes the caller reads, for tests.
    pub fn channel() -> (Self, mpsc::Receiver<Note>) {
        let (tx, rx) = mpsc::channel(QUEUE);
        (Self(tx), rx)
    }

    pub fn note(
        &self,
        about: ObjectReference,
        severity: Severity,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let mut message = message.into();
        if message.len() > MAX_MESSAGE {
            let end = (0..=MAX_MESSAGE).rev().find(|i| message.is_char_boundary(*i)).unwrap_or(0);
            message.truncate(end);
        }
        // A full queue loses the note; there is nobody to tell.
        let _ = self.0.try_send(Note { about, severity, reason, message });
    }
}

/// A reference to a pod, or to a container in it.
pub fn about(pod: &Pod, container: Option<&str>) -> ObjectReference {
    let meta = &pod.metadata;
    let spec = pod.spec.as_ref();
    let is_init = |name: &str| {
        spec.and_then(|s| s.init_containers.as_ref())
            .is_some_and(|list| list.iter().any(|c| c.name == name))
    };
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid: meta.uid.clone(),
        resource_version: meta.resource_version.clone(),
        field_path: container.map(|name| {
            let list = if is_init(name) { "initContainers" } else { "containers" };
            format!("spec.{list}{{{name}}}")
        }),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    uid: String,
    path: Option<String>,
    severity: Severity,
    reason: &'static str,
    message: String,
}

struct Told {
    name: String,
    count: i32,
    at: Instant,
}

struct Writer {
    client: Client,
    node: String,
    clock: Clock,
    seen: HashMap<Key, Told>,
    order: VecDeque<Key>,
    /// Per object: how much of its burst is spent, and when that was reckoned.
    spent: HashMap<String, (f64, Instant)>,
}

impl Writer {
    async fn run(mut self, mut notes: mpsc::Receiver<Note>) {
        while let Some(note) = notes.recv().await {
            if self.allowed(note.about.uid.as_deref().unwrap_or_default()) {
                self.tell(note).await;
            }
        }
    }

    fn allowed(&mut self, uid: &str) -> bool {
        let now = Instant::now();
        if self.spent.len() > MEMORY {
            self.spent.retain(|_, (spent, at)| {
                *spent > now.duration_since(*at).as_secs_f64() / REFILL_SECONDS
            });
        }
        let (spent, at) = self.spent.entry(uid.to_owned()).or_insert((0.0, now));
        *spent = (*spent - now.duration_since(*at).as_secs_f64() / REFILL_SECONDS).max(0.0);
        *at = now;
        let allowed = *spent + 1.0 <= BURST;
        if allowed {
            *spent += 1.0;
        }
        allowed
    }

    async fn tell(&mut self, note: Note) {
        let key = Key {
            uid: note.about.uid.clone().unwrap_or_default(),
            path: note.about.field_path.clone(),
            severity: note.severity,
            reason: note.reason,
            message: note.message.clone(),
        };
        let namespace = note.about.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let api: Api<Event> = Api::namespaced(self.client.clone(), &namespace);
        let wall = Timestamp::try_from(self.clock.now()).unwrap_or(Timestamp::UNIX_EPOCH);
        let now = Instant::now();
        if let Some(told) = self.seen.get_mut(&key).filter(|t| now.duration_since(t.at) < FORGET) {
            told.count = told.count.saturating_add(1);
            told.at = now;
            let patch = serde_json::json!({"count": told.count, "lastTimestamp": Time(wall)});
            match api.patch(&told.name, &PatchParams::default(), &Patch::Merge(patch)).await {
                Ok(_) => return,
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => {
                    tracing::debug!(%error, "cannot count an event");
                    return;
                }
            }
        }
        let name =
            format!("{}.{:x}", note.about.name.as_deref().unwrap_or("pod"), wall.as_nanosecond());
        let event = self.event(&note, &name, &namespace, wall);
        match api.create(&PostParams::default(), &event).await {
            Ok(_) => self.remember(key, name, now),
            Err(error) => tracing::debug!(%error, reason = note.reason, "cannot write an event"),
        }
    }

    fn remember(&mut self, key: Key, name: String, at: Instant) {
        if self.seen.insert(key.clone(), Told { name, count: 1, at }).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > MEMORY {
            if let Some(old) = self.order.pop_front() {
                self.seen.remove(&old);
            }
        }
    }

    fn event(&self, note: &Note, name: &str, namespace: &str, wall: Timestamp) -> Event {
        Event {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: note.about.clone(),
            type_: Some(match note.severity {
                Severity::Normal => "Normal".to_owned(),
                Severity::Warning => "Warning".to_owned(),
            }),
            reason: Some(note.reason.to_owned()),
            message: Some(note.message.clone()),
            count: Some(1),
            first_timestamp: Some(Time(wall)),
            last_timestamp: Some(Time(wall)),
            source: Some(EventSource {
                component: Some("kubelet".to_owned()),
                host: Some(self.node.clone()),
            }),
            reporting_component: Some("kubelet".to_owned()),
            reporting_instance: Some(self.node.clone()),
            ..Event::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_reference_names_the_list_that_holds_the_container() {
        let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"},
            "spec": {"initContainers": [{"name": "i"}], "containers": [{"name": "c"}]}}))
        .unwrap();
        assert_eq!(about(&pod, Some("i")).field_path.as_deref(), Some("spec.initContainers{i}"));
        assert_eq!(about(&pod, Some("c")).field_path.as_deref(), Some("spec.containers{c}"));
        assert_eq!(about(&pod, None).field_path, None);
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let (recorder, mut notes) = Recorder::channel();
        recorder.note(ObjectReference::default(), Severity::Normal, "X", "é".repeat(800));
        let note = notes.try_recv().unwrap();
        assert_eq!(note.message.len(), 1024);
    }
}
