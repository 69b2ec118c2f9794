//! JSON of any message, with every `Any` inside written out.
//!
//! In: messages, or JSON as users write it (names in either spelling); out: the other. Output is the
//! same for the same message: keys are sorted, and a field at its default is left out. Types are found
//! by name in the descriptors of the whole API, so messages without a Rust type work as well.

use std::sync::LazyLock;

use prost::{Message, Name};
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, ReflectMessage, SerializeOptions,
};
use serde_json::Value as Json;

use crate::google::protobuf::Any;
use crate::structure::number;

/// Why a message and JSON could not be turned into one another.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no message is called {0}")]
    UnknownType(String),
    #[error("decoding a {name}")]
    Decode {
        name: String,
        #[source]
        source: prost::DecodeError,
    },
    #[error("writing a {name} as JSON")]
    Write {
        name: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("reading a {name} from JSON")]
    Read {
        name: String,
        #[source]
        source: serde_json::Error,
    },
}

/// The descriptors of every message, read once.
pub fn pool() -> &'static DescriptorPool {
    static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
        let bytes: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
        DescriptorPool::decode(bytes).expect("the build script wrote descriptors that fit together")
    });
    &POOL
}

/// `message` as JSON.
pub fn to_json<M: Name>(message: &M) -> Result<Json, Error> {
    write(&dynamic(&M::full_name(), &message.encode_to_vec())?)
}

/// The message inside `any` as JSON, with `@type` first among its fields.
pub fn to_json_any(any: &Any) -> Result<Json, Error> {
    let name = any.type_url.rsplit('/').next().unwrap_or_default();
    let mut json = write(&dynamic(name, &any.value)?)?;
    if let Json::Object(map) = &mut json {
        map.insert("@type".into(), Json::String(any.type_url.clone()));
    }
    Ok(json)
}

/// The message that `json` describes. A field that the message does not have is an error.
pub fn from_json<M: Name + Default>(json: &Json) -> Result<M, Error> {
    let name = M::full_name();
    let descriptor =
        pool().get_message_by_name(&name).ok_or_else(|| Error::UnknownType(name.clone()))?;
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let message = DynamicMessage::deserialize_with_options(descriptor, json, &options)
        .map_err(|source| Error::Read { name: name.clone(), source })?;
    M::decode(message.encode_to_vec().as_slice()).map_err(|source| Error::Decode { name, source })
}

fn dynamic(name: &str, bytes: &[u8]) -> Result<DynamicMessage, Error> {
    let descriptor =
        pool().get_message_by_name(name).ok_or_else(|| Error::UnknownType(name.to_owned()))?;
    DynamicMessage::decode(descriptor, bytes)
        .map_err(|source| Error::Decode { name: name.to_owned(), source })
}

fn write(message: &DynamicMessage) -> Result<Json, Error> {
    let options = SerializeOptions::new().stringify_64_bit_integers(true);
    let mut json = message
        .serialize_with_options(serde_json::value::Serializer, &options)
        .map_err(|source| Error::Write { name: message.descriptor().full_name().into(), source })?;
    whole_numbers(&mut json);
    Ok(json)
}

/// Writes `1`, not `1.0`, as Envoy and Go do.
fn whole_numbers(json: &mut Json) {
    match json {
        Json::Number(n) => {
            if let Some(float) = n.as_f64().filter(|_| n.is_f64()) {
                *json = number(float);
            }
        }
        Json::Array(items) => items.iter_mut().for_each(whole_numbers),
        Json::Object(map) => map.values_mut().for_each(whole_numbers),
        Json::Null | Json::Bool(_) | Json::String(_) => {}
    }
}

#[cfg(test)]
mod tests;
