//! The rules that Envoy's API gives for its fields, read from the descriptors.
//!
//! In: a message; out: the first field that breaks a rule, with all typed configurations inside looked
//! at too. Envoy checks the same rules when configuration arrives, so what passes here is not refused
//! for them there.

mod field;

use ironsail_proto::pool;
use ironsail_proto::reflect::{DynamicMessage, FieldDescriptor, Kind, ReflectMessage, Value};

use super::{stock, value};

/// Messages inside messages; nothing real comes near it.
const MAX_DEPTH: usize = 64;

/// Why Envoy would refuse the message, with the path of the field.
pub(super) fn check(message: &DynamicMessage) -> Result<(), String> {
    walk(message, &mut Vec::new())
}

fn walk(message: &DynamicMessage, path: &mut Vec<String>) -> Result<(), String> {
    if path.len() > MAX_DEPTH {
        return Err(at(path, "it is nested too deep"));
    }
    let descriptor = message.descriptor();
    match descriptor.full_name() {
        "google.protobuf.Any" => return any(message, path),
        "envoy.type.matcher.v3.RegexMatcher" => pattern(message, path)?,
        _ => {}
    }
    if flag(&descriptor.options(), "validate.disabled") {
        return Ok(());
    }
    stock::check(message).map_err(|why| at(path, &why))?;
    for oneof in descriptor.oneofs() {
        let set = oneof.fields().any(|field| message.has_field(&field));
        if !set && flag(&oneof.options(), "validate.required") {
            let names: Vec<String> = oneof.fields().map(|f| f.name().to_owned()).collect();
            return Err(at(path, &format!("one of {} must be set", names.join(", "))));
        }
    }
    for one in descriptor.fields() {
        path.push(one.name().to_owned());
        if let Some(rules) = rules_of(&one) {
            field::check(message, &one, &rules).map_err(|why| at(path, &why))?;
        }
        inside(message, &one, path)?;
        path.pop();
    }
    Ok(())
}

/// What is set in the field, if it is made of messages.
fn inside(
    message: &DynamicMessage,
    field: &FieldDescriptor,
    path: &mut Vec<String>,
) -> Result<(), String> {
    if !message.has_field(field) || !has_messages(field) {
        return Ok(());
    }
    match message.get_field(field).as_ref() {
        Value::Message(inner) => walk(inner, path),
        Value::List(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(format!("[{index}]"));
                item.as_message().map_or(Ok(()), |inner| walk(inner, path))?;
                path.pop();
            }
            Ok(())
        }
        Value::Map(entries) => {
            // The one that is told must not depend on the order of a hash map.
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by_cached_key(|(key, _)| format!("{key:?}"));
            for (key, value) in entries {
                path.push(format!("[{}]", key.as_str().unwrap_or_default()));
                value.as_message().map_or(Ok(()), |inner| walk(inner, path))?;
                path.pop();
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn has_messages(field: &FieldDescriptor) -> bool {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => {
            matches!(entry.map_entry_value_field().kind(), Kind::Message(_))
        }
        Kind::Message(_) => true,
        _ => false,
    }
}

/// The message inside must be of a type that is known.
fn any(message: &DynamicMessage, path: &mut Vec<String>) -> Result<(), String> {
    let url = message.get_field_by_name("type_url");
    let url = url.as_ref().and_then(|v| v.as_str()).unwrap_or_default();
    let bytes = message.get_field_by_name("value");
    let bytes = bytes.as_ref().and_then(|v| v.as_bytes()).cloned().unwrap_or_default();
    let inner = value::opened(url, &bytes).map_err(|why| at(path, &why))?;
    path.push(format!("({})", value::bare(url)));
    walk(&inner, path)?;
    path.pop();
    Ok(())
}

fn pattern(message: &DynamicMessage, path: &[String]) -> Result<(), String> {
    let text = message.get_field_by_name("regex");
    let text = text.as_ref().and_then(|v| v.as_str()).unwrap_or_default();
    let built = regex::RegexBuilder::new(text).size_limit(1 << 22).build();
    built.map(drop).map_err(|error| at(path, &format!("{text:?} is no pattern: {error}")))
}

fn flag(options: &DynamicMessage, extension: &str) -> bool {
    let extension = pool().get_extension_by_name(extension);
    extension.is_some_and(|e| options.get_extension(&e).as_bool() == Some(true))
}

fn rules_of(field: &FieldDescriptor) -> Option<DynamicMessage> {
    let extension = pool().get_extension_by_name("validate.rules")?;
    let options = field.options();
    if !options.has_extension(&extension) {
        return None;
    }
    options.get_extension(&extension).as_message().cloned()
}

fn at(path: &[String], why: &str) -> String {
    let mut text = String::new();
    for part in path {
        if !text.is_empty() && !part.starts_with('[') {
            text.push('.');
        }
        text.push_str(part);
    }
    match text.is_empty() {
        true => why.to_owned(),
        false => format!("{text}: {why}"),
    }
}
