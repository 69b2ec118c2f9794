//! Opening a store whose files hold anything: sound frames with changes that make sense or not,
//! damaged ones, torn ends. What opens must open again with the same objects, and take writes.

use std::path::Path;

use arbitrary::Arbitrary;
use flate2::Crc;
use ironsail_kubeapi::store::{Change, Expect, Key, Limits, Store};
use serde_json::json;

#[derive(Arbitrary, Debug)]
struct Input {
    snapshot: Option<(Revision, Vec<Frame>, bool)>,
    logs: Vec<(Revision, Vec<Frame>)>,
    torn: Vec<u8>,
}

/// Numbers that are near each other, so that files fit together now and then.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Revision {
    Small(u8),
    Any(u64),
}

impl Revision {
    fn number(self) -> u64 {
        match self {
            Self::Small(n) => u64::from(n % 8),
            Self::Any(n) => n,
        }
    }
}

#[derive(Arbitrary, Debug)]
enum Frame {
    Changes(Vec<Put>),
    /// A sound frame of any bytes.
    Payload(Vec<u8>),
    /// A frame with one bit turned.
    Damaged(Vec<u8>, u8),
}

#[derive(Arbitrary, Debug)]
struct Put {
    remove: bool,
    revision: Option<u64>,
    name: u8,
    object: Object,
}

#[derive(Arbitrary, Debug)]
enum Object {
    Sound,
    Json(u8),
    Bytes(Vec<u8>),
}

fn sum(bytes: &[u8]) -> [u8; 4] {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum().to_be_bytes()
}

fn sealed(payload: &[u8]) -> Vec<u8> {
    let mut out = b"IrSl".to_vec();
    out.extend_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes());
    out.extend_from_slice(&sum(payload));
    let head = sum(&out);
    out.extend_from_slice(&head);
    out.extend_from_slice(payload);
    out
}

fn field(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap().to_be_bytes());
    out.extend_from_slice(bytes);
}

/// The bytes of a file; `next` is the revision that a sound change has.
fn file(frames: &[Frame], next: &mut u64, count: &mut u64) -> Vec<u8> {
    let mut out = Vec::new();
    for frame in frames {
        match frame {
            Frame::Changes(puts) => {
                let mut payload = Vec::new();
                for put in puts {
                    let revision = put.revision.unwrap_or(*next);
                    *next = revision.wrapping_add(1);
                    *count += 1;
                    payload.push(if put.remove { 2 } else { 1 });
                    payload.extend_from_slice(&revision.to_be_bytes());
                    let name = format!("n{}", put.name % 4);
                    for part in ["", "configmaps", "default", &name] {
                        field(&mut payload, part.as_bytes());
                    }
                    let texts =
                        ["null", "[]", "{}", "{\"metadata\":5}", "{\"metadata\":{\"labels\":5}}"];
                    let object = match &put.object {
                        Object::Sound => json!({"metadata": {"name": name, "uid": "u", "resourceVersion": revision.to_string()}}).to_string().into_bytes(),
                        Object::Json(n) => texts[usize::from(*n) % texts.len()].into(),
                        Object::Bytes(bytes) => bytes.clone(),
                    };
                    field(&mut payload, &object);
                }
                out.extend(sealed(&payload));
            }
            Frame::Payload(payload) => out.extend(sealed(payload)),
            Frame::Damaged(payload, at) => {
                let mut frame = sealed(payload);
                let at = usize::from(*at) % frame.len();
                frame[at] ^= 1;
                out.extend(frame);
            }
        }
    }
    out
}

fn names(store: &Store) -> Vec<(String, u64)> {
    let listing = store.reader().list("", "configmaps", None);
    listing.objects.iter().map(|o| (o.key.path(), o.revision)).collect()
}

fn check(directory: &Path) {
    let Ok(store) = Store::open(directory, Limits::default()) else { return };
    let (before, revision) = (names(&store), store.reader().revision());
    drop(store);
    let store = Store::open(directory, Limits::default()).expect("what opened once opens again");
    assert_eq!((names(&store), store.reader().revision()), (before, revision));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let key = || Key::new("", "configmaps", "default", "new");
    let put = Change::Put(json!({"metadata": {"name": "new"}}));
    if runtime.block_on(store.commit(key(), Expect::Absent, put)).is_err() {
        return;
    }
    drop(store);
    let store = Store::open(directory, Limits::default()).expect("a written store opens again");
    assert!(store.reader().get("", "configmaps", "default", "new").is_some());
}

pub(crate) fn target(bytes: &[u8]) {
    let Some(input) = crate::made::<Input>(bytes) else { return };
    let directory = crate::scratch();
    let mut next = 1;
    if let Some((revision, frames, whole)) = &input.snapshot {
        let mut count = 0;
        let mut bytes = file(frames, &mut next, &mut count);
        if *whole {
            bytes.extend(sealed(&[&[0xff][..], &count.to_be_bytes()].concat()));
        }
        next = revision.number().wrapping_add(1);
        let name = format!("snapshot-{:020}", revision.number());
        std::fs::write(directory.path().join(name), bytes).unwrap();
    }
    let last = input.logs.len().saturating_sub(1);
    for (index, (revision, frames)) in input.logs.iter().enumerate() {
        let begins = if index == 0 { next.wrapping_sub(1) } else { revision.number() };
        let mut bytes = file(frames, &mut next, &mut 0);
        if index == last {
            bytes.extend_from_slice(&input.torn);
        }
        std::fs::write(directory.path().join(format!("log-{begins:020}")), bytes).unwrap();
    }
    check(directory.path());
}
