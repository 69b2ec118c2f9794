//! One collection: from the steps of a watch to events.
//!
//! In: steps, and the namespaces that are selected. Out: events, and findings about objects that
//! cannot be read. The table decides what makes a difference; here is the order of things.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use ironsail_api::{Code, Diagnostic, Event, Kind, Meta, ObjectKey, Severity, decode};
use serde_json::value::RawValue;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::follow::{Follow, Step};
use super::line::Head;
use super::target::Target;
use crate::selection::{Selected, Selectors};
use crate::table::Table;

impl Target {
    /// All objects of a kind, without those that nobody can use.
    pub(crate) fn of(kind: Kind) -> Self {
        let fields = match kind {
            // They will never serve again.
            Kind::Pod => Some("status.phase!=Failed".to_owned()),
            Kind::Secret => Some(
                "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token".to_owned(),
            ),
            _ => None,
        };
        Self {
            group: kind.group().to_owned(),
            version: kind.version().to_owned(),
            plural: kind.plural().to_owned(),
            fields,
            ..Self::default()
        }
    }
}

/// The taker of events is gone.
pub(super) struct Closed;

/// Puts what is found into a table, and what makes a difference onto the channel.
struct Collection {
    shared: Shared,
    kind: Kind,
    table: Table,
    /// Told once everything that was there at the start has been sent.
    listed: Option<oneshot::Sender<()>>,
}

/// A kind in all namespaces, until `stop`.
pub(super) async fn everywhere(shared: Shared, kind: Kind, stop: CancellationToken) {
    let (listed, wait) = oneshot::channel();
    let sync = shared.clone();
    let watching = keep(shared, kind, Target::of(kind), listed, stop.child_token());
    tokio::select! {
        () = stop.cancelled() => {}
        ((), ()) = async { tokio::join!(watching, synced(sync, kind, wait)) } => {}
    }
}

async fn synced(shared: Shared, kind: Kind, listed: oneshot::Receiver<()>) {
    if listed.await.is_ok() {
        let event = Event::Synced { cluster: shared.cluster.clone(), kind };
        let _ = shared.events.send(event).await;
    }
}

/// Watches one target until `leave`, and then tells that all its objects are gone.
pub(super) async fn keep(
    mut shared: Shared,
    kind: Kind,
    target: Target,
    listed: oneshot::Sender<()>,
    leave: CancellationToken,
) {
    // Before the first object comes, it must be known whether anybody wants it.
    let selected = tokio::select! {
        () = leave.cancelled() => return,
        selected = shared.selected.wait_for(Option::is_some) => match selected {
            Ok(selected) => selected.clone().unwrap_or_default(),
            Err(_) => return,
        },
    };
    let steps = Follow {
        client: shared.client.clone(),
        target,
        stream_lists: shared.stream_lists,
        served: kind.is_istio().then(|| shared.served.clone()),
    };
    let mut steps = pin!(steps.steps());
    let table = Table::new(shared.cluster.clone(), kind, selected);
    let mut selected = shared.selected.clone();
    let mut collection = Collection { shared, kind, table, listed: Some(listed) };
    loop {
        let done = tokio::select! {
            () = leave.cancelled() => {
                let _ = collection.leave().await;
                return;
            }
            () = collection.shared.events.closed() => return,
            Ok(()) = selected.changed() => {
                let now = selected.borrow_and_update().clone().unwrap_or_default();
                let events = collection.table.select(now);
                collection.send(events).await
            }
            Some(step) = steps.next() => collection.take(step).await,
        };
        if done.is_err() {
            return;
        }
    }
}

/// Namespaces, and from them and the selectors which are selected.
pub(super) async fn namespaces(
    shared: Shared,
    mut selectors: watch::Receiver<Arc<Selectors>>,
    selection: watch::Sender<Option<Selected>>,
    stop: CancellationToken,
) {
    let kind = Kind::Namespace;
    let steps = Follow {
        client: shared.client.clone(),
        target: Target::of(kind),
        stream_lists: shared.stream_lists,
        served: None,
    };
    let mut steps = pin!(steps.steps());
    let (listed, wait) = oneshot::channel();
    tokio::spawn(synced(shared.clone(), kind, wait));
    let table = Table::new(shared.cluster.clone(), kind, Selected::All);
    let mut collection = Collection { shared, kind, table, listed: Some(listed) };
    loop {
        let now = selectors.borrow_and_update().clone();
        // With nothing to select by, nobody need wait for the list.
        let known = collection.listed.is_none();
        if known || now.select_all() {
            let selected = Some(collection.table.selected_by(&now));
            selection.send_if_modified(|before| {
                let changed = *before != selected;
                before.clone_from(&selected);
                changed
            });
        }
        let done = tokio::select! {
            () = stop.cancelled() => return,
            Ok(()) = selectors.changed() => Ok(()),
            Some(step) = steps.next() => collection.take(step).await,
        };
        if done.is_err() {
            return;
        }
    }
}

impl Table {
    /// The namespaces of this table whose labels are selected.
    fn selected_by(&self, selectors: &Selectors) -> Selected {
        if selectors.select_all() {
            return Selected::All;
        }
        let chosen = self.objects().filter(|namespace| selectors.select(&namespace.meta().labels));
        Selected::Only(Arc::new(chosen.map(|n| n.meta().name.clone()).collect::<BTreeSet<_>>()))
    }
}

impl Collection {
    async fn send(&self, events: impl IntoIterator<Item = Event>) -> Result<(), Closed> {
        for event in events {
            self.shared.events.send(event).await.map_err(|_| Closed)?;
        }
        Ok(())
    }

    async fn take(&mut self, step: Step) -> Result<(), Closed> {
        let (gone, events) = match step {
            Step::Begin => {
                self.table.begin();
                return Ok(());
            }
            Step::Changed(head, raw) => {
                let event = self.changed(&head, &raw);
                return self.send(event).await;
            }
            Step::Deleted(head) => {
                let (namespace, name) = (&*head.metadata.namespace, &*head.metadata.name);
                let event = self.table.delete(namespace, name);
                self.shared.board.clear(&self.table.key(namespace, name));
                return self.send(event).await;
            }
            Step::Listed => self.table.listed(),
            Step::Absent => self.table.clear(),
        };
        self.forget(&gone);
        self.send(events).await?;
        if let Some(listed) = self.listed.take() {
            let _ = listed.send(());
        }
        Ok(())
    }

    /// Reads an object; one that cannot be read stays as it was.
    fn changed(&mut self, head: &Head, raw: &RawValue) -> Option<Event> {
        let (namespace, name) = (&*head.metadata.namespace, &*head.metadata.name);
        let generation = head.metadata.generation;
        let key = self.table.key(namespace, name);
        let value = match serde_json::from_str(raw.get()) {
            Ok(value) => value,
            Err(error) => {
                // Its head was readable, so this is a number or depth beyond the parser's limits.
                let meta =
                    Meta { name: name.into(), namespace: namespace.into(), ..Meta::default() };
                let why = format!("not readable as JSON: {error}");
                let broken = Diagnostic::new(Code::SCHEMA, Severity::Error, self.kind, &meta, why);
                self.shared.board.set(&key, generation, vec![broken]);
                self.table.touch(namespace, name);
                return None;
            }
        };
        let decoded = decode(self.kind, &value);
        self.shared.board.set(&key, generation, decoded.diagnostics);
        match decoded.object {
            Ok(object) => self.table.apply(object),
            Err(_) => {
                self.table.touch(namespace, name);
                None
            }
        }
    }

    fn forget(&self, gone: &[ObjectKey]) {
        for key in gone {
            self.shared.board.clear(key);
        }
    }

    /// Nobody wants this collection any more.
    async fn leave(&mut self) -> Result<(), Closed> {
        let (gone, events) = self.table.clear();
        self.forget(&gone);
        self.send(events).await
    }
}
