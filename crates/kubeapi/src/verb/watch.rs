//! Watch: an endless answer with one line per change.
//!
//! The stream pulls from the store's shared history at the pace of its client. A client that falls
//! behind the history gets an ERROR event with 410 and must list again.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_stream::stream;
use bytes::Bytes;
use futures::Stream;
use http::Response;
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use rand::Rng;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::select::Selection;
use crate::accept::Shape;
use crate::body::{Body, BoxError};
use crate::call::Call;
use crate::query::ListOptions;
use crate::reply::{Reply, bytes_in_version, response, value_in_version};
use crate::status::Status;
use crate::store::{Cursor, Event, EventKind, Expired, Object, watch_line};
use crate::table::{self, Include};

/// How often an idle client that asked for bookmarks gets one.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long a watch lasts when the client does not say.
const LASTS: std::ops::Range<u64> = 1800..3600;

pub(crate) fn watch(call: &Call, options: &ListOptions) -> Result<Reply, Status> {
    let mut selection = Selection::new(call, options)?;
    if let Some(name) = &call.target.name {
        selection = selection.named(name)?;
    }
    let reader = call.server.store.reader();
    let (group, resource) = call.definition.storage();
    let from = options.revision()?.filter(|revision| *revision > 0);
    let initial = options.initial_events.unwrap_or(from.is_none());
    let (state, revision) = match (initial, from) {
        (true, _) => {
            let listing = reader.list(&group, &resource, selection.namespace.as_deref());
            if from.is_some_and(|from| from > listing.revision) {
                let wanted = from.unwrap_or_default();
                return Err(Status::too_large_revision(wanted, listing.revision));
            }
            (listing.objects, listing.revision)
        }
        (false, Some(revision)) => (Vec::new(), revision),
        (false, None) => (Vec::new(), reader.revision()),
    };
    let clock = call.server.clock.clone();
    let lines = Lines {
        shape: call.accept.shape,
        include: Include::parse(&call.query)?,
        now: Box::new(move || clock.now()),
        selection,
        columns_sent: false,
    };
    let seconds = options.timeout.filter(|seconds| *seconds > 0);
    let seconds = seconds.unwrap_or_else(|| rand::rng().random_range(LASTS));
    let plan = Plan {
        cursor: reader.follow(&group, &resource, revision),
        state,
        lines,
        bookmarks: options.bookmarks,
        announce_end: options.initial_events == Some(true),
        deadline: Instant::now() + Duration::from_secs(seconds),
        ended: call.server.ended.clone(),
        retired: call.definition.retired(),
    };
    Ok(Reply::Response(answer(plan.stream())))
}

fn answer(stream: impl Stream<Item = Bytes> + Send + 'static) -> Response<Body> {
    use futures::StreamExt as _;
    let frames = stream.map(|line| Ok::<_, BoxError>(Frame::data(line)));
    response(200, "application/json", StreamBody::new(frames).boxed_unsync())
}

/// Everything a watch needs once its request is understood.
struct Plan {
    cursor: Cursor,
    /// What is told as ADDED before the first change.
    state: Vec<Arc<Object>>,
    lines: Lines,
    bookmarks: bool,
    /// Marks the end of the initial state with a bookmark.
    announce_end: bool,
    deadline: Instant,
    /// Cancelled when the server ends.
    ended: tokio_util::sync::CancellationToken,
    /// Cancelled when the resource is no longer served.
    retired: tokio_util::sync::CancellationToken,
}

impl Plan {
    fn stream(self) -> impl Stream<Item = Bytes> + Send {
        let Self { mut cursor, state, mut lines, bookmarks, announce_end, deadline, .. } = self;
        let (ended, retired) = (self.ended, self.retired);
        stream! {
            for object in state {
                if lines.selection.matches(&object) {
                    yield lines.line(EventKind::Added, &object);
                }
            }
            if announce_end && bookmarks {
                yield lines.bookmark(cursor.revision(), true);
            }
            let mut next_bookmark = Instant::now() + BOOKMARK_EVERY;
            loop {
                let events = tokio::select! {
                    events = cursor.next() => events,
                    () = tokio::time::sleep_until(next_bookmark), if bookmarks => {
                        next_bookmark = Instant::now() + BOOKMARK_EVERY;
                        yield lines.bookmark(cursor.revision(), false);
                        continue;
                    }
                    () = tokio::time::sleep_until(deadline) => {
                        if bookmarks && cursor.poll().is_ok_and(|events| events.is_empty()) {
                            yield lines.bookmark(cursor.revision(), false);
                        }
                        return;
                    }
                    () = ended.cancelled() => return,
                    () = retired.cancelled() => {
                        // The deletions that led here are still to be told.
                        for event in cursor.poll().unwrap_or_default() {
                            if let Some(line) = lines.event(&event) {
                                yield line;
                            }
                        }
                        return;
                    }
                };
                match events {
                    Ok(events) => {
                        for event in events {
                            if let Some(line) = lines.event(&event) {
                                yield line;
                            }
                        }
                    }
                    Err(expired) => {
                        yield error(expired);
                        return;
                    }
                }
            }
        }
    }
}

fn error(expired: Expired) -> Bytes {
    let status = Status::expired(expired.to_string());
    watch_line("ERROR", status.to_json().to_string().as_bytes())
}

/// Makes lines in the shape the client asked for.
struct Lines {
    selection: Selection,
    shape: Shape,
    include: Include,
    now: Box<dyn Fn() -> SystemTime + Send + Sync>,
    columns_sent: bool,
}

impl Lines {
    /// The line of one change, or nothing if it does not concern the selection.
    fn event(&mut self, event: &Event) -> Option<Bytes> {
        if let Some(namespace) = &self.selection.namespace
            && *event.object.key.namespace != **namespace
        {
            return None;
        }
        let (is, was) = if self.selection.is_everything() {
            (event.kind != EventKind::Deleted, event.kind != EventKind::Added)
        } else {
            let is = event.kind != EventKind::Deleted && self.selection.matches(&event.object);
            (is, event.previous.as_ref().is_some_and(|previous| self.selection.matches(previous)))
        };
        let kind = match (is, was) {
            (true, true) => EventKind::Modified,
            (true, false) => EventKind::Added,
            (false, true) => EventKind::Deleted,
            (false, false) => return None,
        };
        if kind == event.kind && self.is_stored_form(&event.object) {
            return Some(event.line());
        }
        match (&event.previous, kind) {
            // It left the selection: its last state inside is told, at the new revision.
            (Some(previous), EventKind::Deleted) if event.kind != EventKind::Deleted => {
                let mut value = value_in_version(&*self.selection.definition, previous);
                value["metadata"]["resourceVersion"] = event.revision().to_string().into();
                Some(self.value_line(kind, value))
            }
            _ => Some(self.line(kind, &event.object)),
        }
    }

    fn is_stored_form(&self, object: &Object) -> bool {
        self.shape == Shape::Object
            && self.selection.definition.answers_stored_bytes()
            && *object.api_version == *self.selection.definition.names().api_version()
    }

    fn line(&mut self, kind: EventKind, object: &Object) -> Bytes {
        if self.shape == Shape::Object {
            let bytes = bytes_in_version(&*self.selection.definition, object);
            return watch_line(kind.as_str(), &bytes);
        }
        let value = value_in_version(&*self.selection.definition, object);
        self.value_line(kind, value)
    }

    fn value_line(&mut self, kind: EventKind, value: Value) -> Bytes {
        let shown = match self.shape {
            Shape::Object => value,
            Shape::Metadata => table::metadata(&value),
            Shape::Table => {
                let meta = json!({"resourceVersion": value["metadata"]["resourceVersion"]});
                let definition = &*self.selection.definition;
                let now = (self.now)();
                let mut table = table::table(definition, &[value], &meta, self.include, now);
                // Only the first table of a watch says what the columns are.
                if std::mem::replace(&mut self.columns_sent, true) {
                    table["columnDefinitions"] = Value::Null;
                }
                table
            }
        };
        watch_line(kind.as_str(), shown.to_string().as_bytes())
    }

    /// Tells that everything up to `revision` has been told.
    fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let names = self.selection.definition.names();
        let mut metadata =
            json!({"resourceVersion": revision.to_string(), "creationTimestamp": null});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (kind, api_version) = match self.shape {
            Shape::Object => (&*names.kind, names.api_version()),
            Shape::Metadata => ("PartialObjectMetadata", "meta.k8s.io/v1".to_owned()),
            Shape::Table => {
                let partial = json!({
                    "kind": "PartialObjectMetadata",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": metadata,
                });
                let table = json!({
                    "kind": "Table",
                    "apiVersion": "meta.k8s.io/v1",
                    "metadata": {"resourceVersion": revision.to_string()},
                    "columnDefinitions": self.selection.definition.columns(),
                    "rows": [{"cells": [], "object": partial}],
                });
                return watch_line("BOOKMARK", table.to_string().as_bytes());
            }
        };
        let object = json!({"kind": kind, "apiVersion": api_version, "metadata": metadata});
        watch_line("BOOKMARK", object.to_string().as_bytes())
    }
}
