//! `metadata` of objects: reading it, and the parts that only the server may set.

use rand::Rng;
use serde_json::{Map, Value};

use ironsail_sys::clock::Clock;

/// The text of a field of `metadata`; empty if it is absent.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get("metadata").and_then(|m| m.get(field)).and_then(Value::as_str).unwrap_or_default()
}

/// `metadata`, made if it is absent or null; `None` if it is something else than an object.
pub(crate) fn of(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let object = object.as_object_mut()?;
    let metadata = object.entry("metadata").or_insert(Value::Null);
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut()
}

pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    let list = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    list.map(|list| list.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

pub(crate) fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    let Some(metadata) = of(object) else { return };
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), finalizers.into());
    }
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

pub(crate) fn grace(object: &Value) -> Option<i64> {
    object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64)
}

/// Raises the generation where there is one: its controllers must look again.
pub(crate) fn raise_generation(object: &mut Value) {
    let Some(generation) = object.pointer_mut("/metadata/generation") else { return };
    if let Some(number) = generation.as_i64().filter(|number| *number > 0) {
        *generation = (number + 1).into();
    }
}

/// A point in time as Kubernetes writes it, in whole seconds.
pub(crate) fn timestamp(clock: &Clock, offset: i64) -> String {
    let seconds = i64::try_from(clock.since_epoch().as_secs()).unwrap_or(i64::MAX);
    format_seconds(seconds.saturating_add(offset))
}

pub(crate) fn format_seconds(seconds: i64) -> String {
    let time = jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX);
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

pub(crate) fn parse_seconds(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second)
}

/// The letters and digits of generated names: none that spell words or look alike.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX: usize = 5;
/// A generated name is a DNS label.
const LONGEST: usize = 63;

/// A name that begins with `base`.
pub(crate) fn generate_name(base: &str) -> String {
    let mut name: String = base.chars().take(LONGEST - SUFFIX).collect();
    let mut random = rand::rng();
    for _ in 0..SUFFIX {
        name.push(char::from(ALPHABET[random.random_range(0..ALPHABET.len())]));
    }
    name
}

/// Sets what the server decides on a new object and drops what a client may not say.
pub(crate) fn stamp(metadata: &mut Map<String, Value>, clock: &Clock) {
    for field in ["resourceVersion", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        metadata.remove(field);
    }
    metadata.insert("uid".to_owned(), uuid::Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".to_owned(), timestamp(clock, 0).into());
}

/// Copies from the stored object what an update can never change.
pub(crate) fn keep(new: &mut Value, old: &Value) {
    let Some(metadata) = of(new) else { return };
    let kept = [
        "name",
        "namespace",
        "generateName",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
    ];
    for field in kept {
        match old.get("metadata").and_then(|old| old.get(field)) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
    metadata.remove("selfLink");
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn times_are_whole_seconds_in_utc() {
        let clock = Clock::fixed(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_900));
        assert_eq!(timestamp(&clock, 0), "2023-11-14T22:13:20Z");
        assert_eq!(timestamp(&clock, 30), "2023-11-14T22:13:50Z");
        assert_eq!(parse_seconds("2023-11-14T22:13:20Z"), Some(1_700_000_000));
    }

    #[test]
    fn generated_names_fit_a_label() {
        let name = generate_name(&"a".repeat(100));
        assert_eq!(name.len(), 63);
        assert_ne!(generate_name("a-"), generate_name("a-"));
    }
}
