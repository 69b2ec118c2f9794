//! Merging one message into another, as Istio does it.
//!
//! What is set in the patch wins; messages are merged, lists are appended (or replaced, if asked for),
//! maps are merged by key. Durations and `Any` are values: they are replaced whole.

use ironsail_proto::google::protobuf::Any;
use ironsail_proto::reflect::{DynamicMessage, ReflectMessage, Value};
use ironsail_proto::{Message, Name};

use super::{rules, value};

/// Messages that are replaced, not merged.
const WHOLE: [&str; 3] =
    ["google.protobuf.Duration", "google.protobuf.Any", "google.protobuf.Timestamp"];

/// How lists are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lists {
    Append,
    Replace,
}

pub(super) fn merge(into: &mut DynamicMessage, from: &DynamicMessage, lists: Lists) {
    for (field, value) in from.fields() {
        match value {
            Value::List(items) if lists == Lists::Append => {
                if let Some(list) = into.get_field_mut(&field).as_list_mut() {
                    list.extend(items.iter().cloned());
                }
            }
            Value::Map(entries) => {
                if let Some(map) = into.get_field_mut(&field).as_map_mut() {
                    map.extend(entries.iter().map(|(key, value)| (key.clone(), value.clone())));
                }
            }
            Value::Message(message) => {
                let whole = WHOLE.contains(&message.descriptor().full_name());
                let there = into.has_field(&field);
                match into.get_field_mut(&field).as_message_mut() {
                    Some(inner) if there && !whole => merge(inner, message, lists),
                    _ => into.set_field(&field, value.clone()),
                }
            }
            scalar => into.set_field(&field, scalar.clone()),
        }
    }
}

/// `target` with `patch` merged into it, checked by Envoy's own rules.
pub(super) fn merged<M: Name + Default>(
    target: &M,
    patch: &DynamicMessage,
    lists: Lists,
) -> Result<M, String> {
    let mut into = value::dynamic(target)?;
    merge(&mut into, patch, lists);
    rules::check(&into)?;
    value::typed(&into)
}

/// Merges one configuration into another of the same type.
pub(super) fn merged_any(target: &Any, patch: &Any, lists: Lists) -> Result<Any, String> {
    let mut into = value::open_any(target)?;
    let from = value::open_any(patch)?;
    let (own, other) = (into.descriptor(), from.descriptor());
    if own.full_name() != other.full_name() {
        let (own, other) = (own.full_name(), other.full_name());
        return Err(format!("its typed_config is a {other}, what it is merged into a {own}"));
    }
    merge(&mut into, &from, lists);
    rules::check(&into)?;
    let type_url = format!("type.googleapis.com/{}", own.full_name());
    Ok(Any { type_url, value: into.encode_to_vec().into() })
}
