//! The rules of one field, against its value.

use ironsail_proto::reflect::{DynamicMessage, FieldDescriptor, Kind, ReflectMessage, Value};

/// Whether the field of `message` keeps to `rules`; why not.
pub(super) fn check(
    message: &DynamicMessage,
    field: &FieldDescriptor,
    rules: &DynamicMessage,
) -> Result<(), String> {
    let set = message.has_field(field);
    // One of several that is not set is not looked at.
    if !set && field.containing_oneof().is_some() {
        return Ok(());
    }
    if matches!(field.kind(), Kind::Message(_)) && !field.is_list() && !field.is_map() {
        let required = sub(rules, "message").is_some_and(|r| is(&r, "required"))
            || sub(rules, "duration").is_some_and(|r| is(&r, "required"))
            || sub(rules, "any").is_some_and(|r| is(&r, "required"));
        return match (set, required) {
            (false, true) => Err("it must be set".to_owned()),
            (false, false) => Ok(()),
            (true, _) => value(&message.get_field(field), field.kind(), rules),
        };
    }
    value(&message.get_field(field), field.kind(), rules)
}

fn value(value: &Value, kind: Kind, rules: &DynamicMessage) -> Result<(), String> {
    match value {
        Value::List(items) => repeated(items, &kind, rules),
        Value::Map(entries) => map(entries, kind, rules),
        Value::String(text) => sub(rules, "string").map_or(Ok(()), |r| string(text, &r)),
        Value::Bytes(bytes) => sub(rules, "bytes").map_or(Ok(()), |r| size(bytes.len(), &r, "len")),
        Value::Bool(on) => match sub(rules, "bool").filter(|r| r.has_field_by_name("const")) {
            Some(r) if is(&r, "const") != *on => Err(format!("it must be {}", is(&r, "const"))),
            _ => Ok(()),
        },
        Value::EnumNumber(number) => {
            sub(rules, "enum").map_or(Ok(()), |r| enumeration(*number, &kind, &r))
        }
        Value::Message(message) => wrapped(message, rules),
        scalar => match number(scalar) {
            Some(number) => numbers(rules).map_or(Ok(()), |r| range(number, &r, number_of)),
            None => Ok(()),
        },
    }
}

/// Durations, and scalars in a message of their own.
fn wrapped(message: &DynamicMessage, rules: &DynamicMessage) -> Result<(), String> {
    let name = message.descriptor();
    match name.full_name() {
        "google.protobuf.Duration" => {
            sub(rules, "duration").map_or(Ok(()), |r| range(seconds(message), &r, duration_of))
        }
        full if full.starts_with("google.protobuf.") && full.ends_with("Value") => {
            let (Some(field), Some(inner)) =
                (name.get_field_by_name("value"), message.get_field_by_name("value"))
            else {
                return Ok(());
            };
            value(&inner, field.kind(), rules)
        }
        _ => Ok(()),
    }
}

fn repeated(items: &[Value], kind: &Kind, rules: &DynamicMessage) -> Result<(), String> {
    let Some(rules) = sub(rules, "repeated") else { return Ok(()) };
    if is(&rules, "ignore_empty") && items.is_empty() {
        return Ok(());
    }
    size(items.len(), &rules, "items")?;
    if is(&rules, "unique") {
        let twice = items.iter().enumerate().any(|(i, one)| items[..i].contains(one));
        if twice {
            return Err("no element may be there twice".to_owned());
        }
    }
    let Some(each) = sub(&rules, "items") else { return Ok(()) };
    for (index, item) in items.iter().enumerate() {
        value(item, kind.clone(), &each).map_err(|why| format!("[{index}]: {why}"))?;
    }
    Ok(())
}

fn map(
    entries: &std::collections::HashMap<ironsail_proto::reflect::MapKey, Value>,
    kind: Kind,
    rules: &DynamicMessage,
) -> Result<(), String> {
    let Some(rules) = sub(rules, "map") else { return Ok(()) };
    size(entries.len(), &rules, "pairs")?;
    let Kind::Message(entry) = kind else { return Ok(()) };
    let mut all: Vec<_> = entries.iter().collect();
    all.sort_by_cached_key(|(key, _)| format!("{key:?}"));
    for (key, one) in all {
        if let (Some(rules), Some(text)) = (sub(&rules, "keys"), key.as_str()) {
            let text = Value::String(text.to_owned());
            value(&text, entry.map_entry_key_field().kind(), &rules)?;
        }
        if let Some(rules) = sub(&rules, "values") {
            value(one, entry.map_entry_value_field().kind(), &rules)?;
        }
    }
    Ok(())
}

fn string(text: &str, rules: &DynamicMessage) -> Result<(), String> {
    if is(rules, "ignore_empty") && text.is_empty() {
        return Ok(());
    }
    let word = |name: &str| {
        let value = rules.has_field_by_name(name).then(|| rules.get_field_by_name(name))??;
        value.as_str().map(str::to_owned)
    };
    size(text.chars().count(), rules, "len")?;
    size(text.len(), rules, "bytes")?;
    let words = |name: &str| -> Vec<String> {
        let value = rules.get_field_by_name(name);
        let items = value.as_ref().and_then(|v| v.as_list()).unwrap_or_default();
        items.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect()
    };
    let allowed = words("in");
    if !allowed.is_empty() && !allowed.iter().any(|one| one == text) {
        return Err(format!("{text:?} is none of {}", allowed.join(", ")));
    }
    if words("not_in").iter().any(|one| one == text) {
        return Err(format!("it must not be {text:?}"));
    }
    if let Some(prefix) = word("prefix").filter(|prefix| !text.starts_with(prefix)) {
        return Err(format!("it must start with {prefix:?}"));
    }
    if let Some(suffix) = word("suffix").filter(|suffix| !text.ends_with(suffix)) {
        return Err(format!("it must end with {suffix:?}"));
    }
    if let Some(pattern) = word("pattern") {
        let built = regex::Regex::new(&pattern);
        if built.is_ok_and(|pattern| !pattern.is_match(text)) {
            return Err(format!("it must match {pattern:?}"));
        }
    }
    header(text, rules)
}

/// Names and values of HTTP headers.
fn header(text: &str, rules: &DynamicMessage) -> Result<(), String> {
    let known = rules.get_field_by_name("well_known_regex").and_then(|v| v.as_enum_number());
    // Strict unless it says that it is not.
    let strict = !rules.has_field_by_name("strict") || is(rules, "strict");
    let control = |c: char| matches!(c, '\0' | '\n' | '\r');
    let bad = match (known, strict) {
        (Some(1), true) => {
            let name = text.strip_prefix(':').unwrap_or(text);
            let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_|~`".contains(c);
            name.is_empty() || !name.chars().all(token)
        }
        (Some(2), true) => text.chars().any(|c| (c.is_ascii_control() && c != '\t') || c == '\x7f'),
        (Some(1 | 2), false) => text.chars().any(control),
        _ => false,
    };
    match bad {
        true => Err(format!("{text:?} cannot be in a header")),
        false => Ok(()),
    }
}

fn enumeration(number: i32, kind: &Kind, rules: &DynamicMessage) -> Result<(), String> {
    let known = match kind {
        Kind::Enum(of) => of.get_value(number).is_some(),
        _ => true,
    };
    if is(rules, "defined_only") && !known {
        return Err(format!("{number} is none of its values"));
    }
    let value = rules.get_field_by_name("not_in");
    let refused = value.as_ref().and_then(|v| v.as_list()).unwrap_or_default();
    match refused.iter().any(|one| one.as_i32() == Some(number)) {
        true => Err(format!("it must not be {number}")),
        false => Ok(()),
    }
}

/// `min_WHAT` and `max_WHAT`.
fn size(size: usize, rules: &DynamicMessage, what: &str) -> Result<(), String> {
    let limit = |name: String| {
        let value = rules.has_field_by_name(&name).then(|| rules.get_field_by_name(&name))??;
        value.as_u64().and_then(|limit| usize::try_from(limit).ok())
    };
    if let Some(least) = limit(format!("min_{what}")).filter(|least| size < *least) {
        return Err(match (what, least) {
            ("len" | "bytes", 1) => "it must not be empty".to_owned(),
            _ => format!("it has {size} {what}, and must have {least} at least"),
        });
    }
    match limit(format!("max_{what}")).filter(|most| size > *most) {
        Some(most) => Err(format!("it has {size} {what}, and may have {most} at most")),
        None => Ok(()),
    }
}

fn range(
    number: f64,
    rules: &DynamicMessage,
    read: impl Fn(&Value) -> Option<f64>,
) -> Result<(), String> {
    if is(rules, "ignore_empty") && number == 0.0 {
        return Ok(());
    }
    let bound = |name: &str| {
        let value = rules.has_field_by_name(name).then(|| rules.get_field_by_name(name))??;
        read(&value)
    };
    type Holds = fn(f64, f64) -> bool;
    let tests: [(&str, Holds, &str); 4] = [
        ("gt", |a, b| a > b, "more than"),
        ("gte", |a, b| a >= b, "at least"),
        ("lt", |a, b| a < b, "less than"),
        ("lte", |a, b| a <= b, "at most"),
    ];
    for (name, holds, words) in tests {
        if let Some(bound) = bound(name).filter(|bound| !holds(number, *bound)) {
            return Err(format!("it is {number}, and must be {words} {bound}"));
        }
    }
    Ok(())
}

fn number_of(value: &Value) -> Option<f64> {
    number(value)
}

fn duration_of(value: &Value) -> Option<f64> {
    value.as_message().map(seconds)
}

#[expect(clippy::cast_precision_loss, reason = "bounds are far below what a double holds exactly")]
fn number(value: &Value) -> Option<f64> {
    Some(match value {
        Value::I32(n) => f64::from(*n),
        Value::I64(n) => *n as f64,
        Value::U32(n) => f64::from(*n),
        Value::U64(n) => *n as f64,
        Value::F32(n) => f64::from(*n),
        Value::F64(n) => *n,
        _ => return None,
    })
}

#[expect(clippy::cast_precision_loss, reason = "durations in configuration are short")]
fn seconds(duration: &DynamicMessage) -> f64 {
    let part = |name: &str| duration.get_field_by_name(name);
    let whole = part("seconds").and_then(|v| v.as_i64()).unwrap_or_default() as f64;
    whole + f64::from(part("nanos").and_then(|v| v.as_i32()).unwrap_or_default()) / 1e9
}

/// The rules for numbers, whatever their type is called.
fn numbers(rules: &DynamicMessage) -> Option<DynamicMessage> {
    let names = ["uint32", "uint64", "int32", "int64", "double", "float", "sint32", "sint64"];
    names.into_iter().find_map(|name| sub(rules, name))
}

fn sub(rules: &DynamicMessage, name: &str) -> Option<DynamicMessage> {
    if !rules.has_field_by_name(name) {
        return None;
    }
    rules.get_field_by_name(name)?.as_message().cloned()
}

fn is(rules: &DynamicMessage, name: &str) -> bool {
    rules.get_field_by_name(name).is_some_and(|value| value.as_bool() == Some(true))
}
