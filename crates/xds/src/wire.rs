//! Responses as bytes on the wire, a piece at a time.
//!
//! In: a response; out: gRPC frames of some kilobytes, made when the connection has room for them. The
//! resources themselves are never copied as a whole, so a thousand proxies that get the same megabyte,
//! or do not read it, hold one megabyte together.

use bytes::{BufMut, Bytes, BytesMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use crate::{Resource, Response, Variant};

/// Size of a piece, about.
const PIECE: usize = 16 * 1024;
/// A body at least this long is shared; a shorter one is copied into the piece.
const SHARE: usize = 8 * 1024;

/// A response as a sequence of pieces.
pub struct Frames {
    response: Response,
    /// 0 is the head, then the resources, then the tail.
    next: usize,
    /// A long body whose prefix has gone out.
    body: Option<Bytes>,
}

/// A response longer than gRPC can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the response has {0} bytes, more than gRPC can carry")]
pub struct TooLong(usize);

impl Frames {
    pub fn new(response: Response) -> Self {
        Self { response, next: 0, body: None }
    }

    /// The next piece; None at the end.
    pub fn next_piece(&mut self) -> Result<Option<Bytes>, TooLong> {
        if let Some(body) = self.body.take() {
            return Ok(Some(body));
        }
        let mut piece = BytesMut::new();
        while piece.len() < PIECE {
            match self.next {
                0 => self.head(&mut piece)?,
                i if i <= self.response.resources.len() => {
                    let resource = self.response.resources[i - 1].clone();
                    self.resource_prefix(&resource, &mut piece);
                    let body = resource.body().clone();
                    if body.len() >= SHARE {
                        self.body = Some(body);
                        self.next += 1;
                        break;
                    }
                    piece.put(body);
                }
                i if i == self.response.resources.len() + 1 => self.tail(&mut piece),
                _ => break,
            }
            self.next += 1;
        }
        Ok((!piece.is_empty()).then(|| piece.freeze()))
    }

    fn head(&self, out: &mut BytesMut) -> Result<(), TooLong> {
        let version = self.response.version.to_string();
        let resources: usize = self
            .response
            .resources
            .iter()
            .map(|resource| {
                let len = self.resource_len(resource);
                key_len(2) + encoded_len_varint(len as u64) + len
            })
            .sum();
        let mut tail = BytesMut::new();
        self.tail(&mut tail);
        let length = string_len(1, &version) + resources + tail.len();
        out.put_u8(0);
        out.put_u32(u32::try_from(length).map_err(|_| TooLong(length))?);
        put_string(1, &version, out);
        Ok(())
    }

    /// Everything behind the resources.
    fn tail(&self, out: &mut BytesMut) {
        put_string(4, &self.response.type_url, out);
        put_string(5, &self.response.nonce, out);
        if self.response.variant == Variant::Delta {
            for name in &self.response.removed {
                put_key(6, out);
                put_bytes(name.as_bytes(), out);
            }
        }
    }

    /// Length of `google.protobuf.Any` around the body.
    fn any_len(&self, resource: &Resource) -> usize {
        let body = resource.body().len();
        let value = if body == 0 { 0 } else { key_len(2) + encoded_len_varint(body as u64) + body };
        string_len(1, self.content_type(resource)) + value
    }

    fn content_type<'a>(&'a self, resource: &'a Resource) -> &'a str {
        resource.content_type().unwrap_or(&self.response.type_url)
    }

    fn resource_len(&self, resource: &Resource) -> usize {
        let any = self.any_len(resource);
        match self.response.variant {
            Variant::StateOfTheWorld => any,
            Variant::Delta => {
                let aliases: usize = resource.aliases().iter().map(|a| bytes_len(4, a)).sum();
                string_len(1, &resource.version().to_string())
                    + string_len(3, resource.name())
                    + aliases
                    + key_len(2)
                    + encoded_len_varint(any as u64)
                    + any
            }
        }
    }

    /// Everything of a resource up to the body itself, which comes last.
    fn resource_prefix(&self, resource: &Resource, out: &mut BytesMut) {
        put_key(2, out);
        encode_varint(self.resource_len(resource) as u64, out);
        if self.response.variant == Variant::Delta {
            put_string(1, &resource.version().to_string(), out);
            put_string(3, resource.name(), out);
            for alias in resource.aliases() {
                put_key(4, out);
                put_bytes(alias.as_bytes(), out);
            }
            put_key(2, out);
            encode_varint(self.any_len(resource) as u64, out);
        }
        put_string(1, self.content_type(resource), out);
        if !resource.body().is_empty() {
            put_key(2, out);
            encode_varint(resource.body().len() as u64, out);
        }
    }
}

fn put_key(tag: u32, out: &mut BytesMut) {
    encode_key(tag, WireType::LengthDelimited, out);
}

fn put_bytes(bytes: &[u8], out: &mut BytesMut) {
    encode_varint(bytes.len() as u64, out);
    out.put_slice(bytes);
}

fn bytes_len(tag: u32, text: &str) -> usize {
    key_len(tag) + encoded_len_varint(text.len() as u64) + text.len()
}

/// Proto3 leaves out empty strings.
fn string_len(tag: u32, text: &str) -> usize {
    if text.is_empty() { 0 } else { bytes_len(tag, text) }
}

fn put_string(tag: u32, text: &str, out: &mut BytesMut) {
    if !text.is_empty() {
        put_key(tag, out);
        put_bytes(text.as_bytes(), out);
    }
}

#[cfg(test)]
pub(crate) fn decode<M: prost::Message + Default>(response: Response) -> M {
    let mut frames = Frames::new(response);
    let mut all = BytesMut::new();
    while let Some(piece) = frames.next_piece().unwrap() {
        all.put(piece);
    }
    let length = u32::from_be_bytes(all[1..5].try_into().unwrap()) as usize;
    assert_eq!((all[0], length), (0, all.len() - 5));
    M::decode(&all[5..]).unwrap()
}

#[cfg(test)]
mod tests {
    use ironsail_proto::envoy::service::discovery::v3 as discovery;
    use proptest::prelude::*;

    use super::*;
    use crate::{Name, Version};

    fn response(variant: Variant, bodies: &[Vec<u8>], removed: &[String]) -> Response {
        let resources = bodies.iter().enumerate().map(|(i, body)| {
            let aliases = (0..i % 3).map(|a| Name::from(format!("alias{a}")));
            Resource::with_aliases(format!("r{i}"), body.clone(), aliases)
        });
        Response {
            variant,
            type_url: crate::CDS.into(),
            nonce: "7".into(),
            version: Version::of(b"x"),
            resources: resources.collect(),
            removed: removed.iter().map(|n| n.as_str().into()).collect(),
        }
    }

    fn bodies() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let size = prop_oneof![Just(0), 1..300usize, 8_000..9_000usize, Just(40_000)];
        proptest::collection::vec(size.prop_map(|n| vec![7; n]), 0..12)
    }

    proptest! {
        #[test]
        fn state_of_the_world_reads_as_written(bodies in bodies()) {
            let sent = response(Variant::StateOfTheWorld, &bodies, &[]);
            let got: discovery::DiscoveryResponse = decode(sent.clone());
            prop_assert_eq!(got.version_info, sent.version.to_string());
            prop_assert_eq!((got.type_url.as_str(), got.nonce.as_str()), (crate::CDS, "7"));
            let got: Vec<_> = got.resources.iter().map(|any| any.value.to_vec()).collect();
            prop_assert_eq!(got, bodies);
        }

        #[test]
        fn delta_reads_as_written(bodies in bodies(), removed in proptest::collection::vec("[a-z]{0,9}", 0..5)) {
            let sent = response(Variant::Delta, &bodies, &removed);
            let got: discovery::DeltaDiscoveryResponse = decode(sent.clone());
            prop_assert_eq!(got.removed_resources, removed);
            prop_assert_eq!(got.resources.len(), bodies.len());
            for (got, sent) in got.resources.iter().zip(sent.resources.iter()) {
                prop_assert_eq!(got.name.as_str(), &**sent.name());
                prop_assert_eq!(&got.version, &sent.version().to_string());
                prop_assert_eq!(got.aliases.len(), sent.aliases().len());
                let any = got.resource.as_ref().unwrap();
                prop_assert_eq!(any.type_url.as_str(), crate::CDS);
                prop_assert_eq!(&any.value, sent.body());
            }
        }
    }

    #[test]
    fn content_may_have_a_type_of_its_own() {
        let mut sent = response(Variant::StateOfTheWorld, &[], &[]);
        sent.resources = [Resource::with_content_type("a", "x", "other")].into();
        let got: discovery::DiscoveryResponse = decode(sent);
        assert_eq!(
            (got.type_url.as_str(), got.resources[0].type_url.as_str()),
            (crate::CDS, "other")
        );
    }

    #[test]
    fn pieces_are_small_and_long_bodies_are_shared() {
        let sent = response(Variant::Delta, &[vec![1; 100_000], vec![2; 10]], &[]);
        let shared = sent.resources[0].body().as_ptr();
        let mut frames = Frames::new(sent);
        let mut pieces = Vec::new();
        while let Some(piece) = frames.next_piece().unwrap() {
            pieces.push(piece);
        }
        assert!(pieces.iter().any(|p| p.as_ptr() == shared));
        assert!(pieces.iter().all(|p| p.len() <= PIECE + SHARE || p.as_ptr() == shared));
    }
}
