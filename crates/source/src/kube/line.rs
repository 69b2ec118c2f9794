//! The answers of a Kubernetes API, read as bytes: lines of a watch, pages of a list.
//!
//! An object stays text until its kind is known; only its name and version are read here. Lines
//! and pages are bounded, so that a broken server cannot fill the memory.

use std::borrow::Cow;

use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt};
use serde::Deserialize;
use serde_json::value::RawValue;

/// More than any object may have, which is about 3 MiB.
const LONGEST_LINE: usize = 16 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("reading the next part of the answer: {0}")]
    Read(String),
    #[error("a line of a watch is longer than {LONGEST_LINE} bytes")]
    TooLong,
}

/// Who an object is, read without knowing its kind.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub(crate) struct Head {
    #[serde(default)]
    pub(crate) metadata: Metadata,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) resource_version: String,
    pub(crate) generation: i64,
    /// Only bookmarks are asked for these; anything but an object of texts counts as nothing.
    #[serde(deserialize_with = "marks_the_end")]
    #[serde(rename = "annotations")]
    pub(crate) ends_initial: bool,
}

fn marks_the_end<'de, D: serde::Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let value = serde_json::Value::deserialize(from)?;
    Ok(value.get("k8s.io/initial-events-end").is_some_and(|mark| mark == "true"))
}

/// One line of a watch.
#[derive(Debug)]
pub(crate) enum Line {
    Changed(Head, Box<RawValue>),
    Deleted(Head),
    Bookmark {
        version: String,
        ends_initial: bool,
    },
    /// The server ends the watch with a `Status`.
    Error {
        code: u16,
        message: String,
    },
    /// Not understood; what was wrong.
    Unreadable(String),
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) code: u16,
    pub(crate) message: String,
}

impl Line {
    pub(crate) fn parse(line: &[u8]) -> Self {
        let event: Event<'_> = match serde_json::from_slice(line) {
            Ok(event) => event,
            Err(error) => return Self::Unreadable(error.to_string()),
        };
        if event.kind == "ERROR" {
            let status: Status = serde_json::from_str(event.object.get()).unwrap_or_default();
            return Self::Error { code: status.code, message: status.message };
        }
        let head: Head = match serde_json::from_str(event.object.get()) {
            Ok(head) => head,
            Err(error) => return Self::Unreadable(format!("metadata: {error}")),
        };
        match &*event.kind {
            "ADDED" | "MODIFIED" => Self::Changed(head, event.object.to_owned()),
            "DELETED" => Self::Deleted(head),
            "BOOKMARK" => Self::Bookmark {
                version: head.metadata.resource_version,
                ends_initial: head.metadata.ends_initial,
            },
            other => Self::Unreadable(format!("an event of the unknown type {other:?}")),
        }
    }
}

/// Cuts a stream of chunks into lines.
pub(crate) struct Lines<S> {
    chunks: S,
    buffer: BytesMut,
    /// Up to here the buffer is known to have no line end.
    searched: usize,
}

impl<S, E> Lines<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: std::fmt::Display,
{
    pub(crate) fn new(chunks: S) -> Self {
        Self { chunks, buffer: BytesMut::new(), searched: 0 }
    }

    /// The next whole line; `None` at the end. A last line without an end is dropped: it was cut.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        loop {
            if let Some(at) = self.buffer[self.searched..].iter().position(|b| *b == b'\n') {
                let line = self.buffer.split_to(self.searched + at).freeze();
                self.buffer.advance(1);
                self.searched = 0;
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return Some(Ok(line));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > LONGEST_LINE {
                return Some(Err(Error::TooLong));
            }
            match self.chunks.next().await? {
                Ok(chunk) => self.buffer.extend_from_slice(&chunk),
                Err(error) => return Some(Err(Error::Read(error.to_string()))),
            }
        }
    }
}

/// One page of a list.
#[derive(Debug, Deserialize)]
pub(crate) struct Page {
    #[serde(default)]
    pub(crate) metadata: PageMetadata,
    #[serde(default)]
    pub(crate) items: Vec<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PageMetadata {
    pub(crate) resource_version: String,
    #[serde(rename = "continue")]
    pub(crate) after: Option<String>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    async fn cut(chunks: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let stream = futures::stream::iter(
            chunks.into_iter().map(|chunk| Ok::<_, std::io::Error>(Bytes::from(chunk))),
        );
        let mut lines = Lines::new(stream);
        let mut out = Vec::new();
        while let Some(line) = lines.next().await {
            out.push(line.unwrap().to_vec());
        }
        out
    }

    #[tokio::test]
    async fn lines_are_cut_wherever_the_chunks_end() {
        let text = b"one\ntwo\n\nthree\nfou".to_vec();
        for size in 1..text.len() {
            let chunks = text.chunks(size).map(<[u8]>::to_vec).collect();
            assert_eq!(cut(chunks).await, [&b"one"[..], b"two", b"three"]);
        }
    }

    #[test]
    fn a_line_tells_what_happened_to_whom() {
        let line = br#"{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"n","resourceVersion":"5","annotations":{"x":"y"}},"spec":1}}"#;
        let Line::Changed(head, raw) = Line::parse(line) else { panic!("a change") };
        assert_eq!((&*head.metadata.name, &*head.metadata.namespace), ("a", "n"));
        assert_eq!(head.metadata.resource_version, "5");
        assert!(raw.get().contains("\"spec\":1"));
        let line = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        let Line::Bookmark { version, ends_initial: true } = Line::parse(line) else {
            panic!("a bookmark that ends the initial events")
        };
        assert_eq!(version, "9");
        let line = br#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}"#;
        assert!(matches!(Line::parse(line), Line::Error { code: 410, .. }));
    }

    #[test]
    fn what_is_no_event_is_unreadable_and_no_more() {
        for line in [&b"{"[..], b"[]", b"{\"type\":\"NEW\",\"object\":{}}", b"{\"type\":\"ADDED\"}"]
        {
            assert!(matches!(Line::parse(line), Line::Unreadable(_)));
        }
        let line = br#"{"type":"ADDED","object":{"metadata":5}}"#;
        assert!(matches!(Line::parse(line), Line::Unreadable(_)));
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_refused(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Line::parse(&line);
        }
    }
}
