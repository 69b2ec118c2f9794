//! How changes lie in a file: frames with length and checksums, each holding one synced batch.
//!
//! A batch is one frame and is synced before the next is written, so a crash can damage only the
//! last frame. Damage with a sound frame behind it is therefore never a crash's work.

use std::sync::Arc;

use bytes::Bytes;
use flate2::Crc;

use super::object::{Key, Object};
use super::state::Applied;

const MAGIC: u32 = u32::from_be_bytes(*b"IrSl");
pub(super) const HEADER: usize = 16;
/// Longer frames are never written, so a longer length is damage.
pub(super) const MAX_PAYLOAD: usize = 64 << 20;

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Puts the header before the payload that begins at `start + HEADER`.
pub(super) fn seal(buffer: &mut [u8], start: usize) {
    let (header, payload) = buffer[start..].split_at_mut(HEADER);
    let length = u32::try_from(payload.len()).expect("batches end far below MAX_PAYLOAD");
    header[0..4].copy_from_slice(&MAGIC.to_be_bytes());
    header[4..8].copy_from_slice(&length.to_be_bytes());
    header[8..12].copy_from_slice(&checksum(payload).to_be_bytes());
    let sum = checksum(&header[..12]);
    header[12..16].copy_from_slice(&sum.to_be_bytes());
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The payload of the frame at the start of `bytes`, if it is sound.
pub(super) fn payload(bytes: &[u8]) -> Option<&[u8]> {
    if word(bytes, 0)? != MAGIC || word(bytes, 12)? != checksum(bytes.get(..12)?) {
        return None;
    }
    let length = word(bytes, 4)? as usize;
    if length > MAX_PAYLOAD {
        return None;
    }
    let payload = bytes.get(HEADER..HEADER + length)?;
    (checksum(payload) == word(bytes, 8)?).then_some(payload)
}

/// Whether a sound frame begins anywhere in `bytes`.
pub(super) fn any(bytes: &[u8]) -> bool {
    let magic = MAGIC.to_be_bytes();
    bytes
        .windows(4)
        .enumerate()
        .any(|(at, window)| window == magic && payload(&bytes[at..]).is_some())
}

const PUT: u8 = 1;
const REMOVE: u8 = 2;

/// Appends one change to a payload.
pub(super) fn encode(out: &mut Vec<u8>, change: &Applied) {
    let object = change.object();
    out.push(if matches!(change, Applied::Put(_)) { PUT } else { REMOVE });
    out.extend_from_slice(&object.revision.to_be_bytes());
    let key = &object.key;
    for part in [&key.group, &key.resource, &key.namespace, &key.name] {
        field(out, part.as_bytes());
    }
    field(out, &object.bytes);
}

fn field(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u32::try_from(bytes.len()).expect("objects are bounded by the request limit");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

/// Takes all changes out of a payload; the error says what is wrong with it.
pub(super) fn decode(mut payload: &[u8]) -> Result<Vec<Applied>, String> {
    let mut changes = Vec::new();
    while !payload.is_empty() {
        changes.push(decode_one(&mut payload)?);
    }
    Ok(changes)
}

fn decode_one(input: &mut &[u8]) -> Result<Applied, String> {
    let tag = take(input, 1)?[0];
    let revision = take(input, 8)?.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let key = Key {
        group: text(input)?,
        resource: text(input)?,
        namespace: text(input)?,
        name: text(input)?,
    };
    let bytes = Bytes::copy_from_slice(take_field(input)?);
    let what = format!("{key} at revision {revision}");
    let object =
        Object::decode(key, revision, bytes).map_err(|error| format!("{what}: {error}"))?;
    match tag {
        PUT => Ok(Applied::Put(Arc::new(object))),
        REMOVE => Ok(Applied::Remove(Arc::new(object))),
        other => Err(format!("{what}: unknown change {other}")),
    }
}

fn take<'a>(input: &mut &'a [u8], length: usize) -> Result<&'a [u8], String> {
    let (taken, rest) = input.split_at_checked(length).ok_or("a change ends too early")?;
    *input = rest;
    Ok(taken)
}

fn take_field<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], String> {
    let length = take(input, 4)?.iter().fold(0usize, |sum, byte| sum << 8 | usize::from(*byte));
    take(input, length)
}

fn text(input: &mut &[u8]) -> Result<Arc<str>, String> {
    let bytes = take_field(input)?;
    std::str::from_utf8(bytes).map(Into::into).map_err(|error| error.to_string())
}
