//! The text form of protobuf messages, as much of it as the data uses, to the JSON of the same message.

use anyhow::{Context, bail, ensure};
use regex::Regex;
use serde_json::{Map, Value};

/// How deep messages may lie in each other.
const MAX_DEPTH: usize = 16;

pub(super) fn parse(text: &str) -> anyhow::Result<Value> {
    let tokens = Regex::new(r##"#[^\n]*|"((?:[^"\\]|\\.)*)"|[\w.+-]+|[{}\[\]:,;<>]"##)
        .expect("the pattern is right");
    let tokens: Vec<&str> =
        tokens.find_iter(text).map(|m| m.as_str()).filter(|t| !t.starts_with('#')).collect();
    let mut reader = Reader { tokens: &tokens };
    let message = reader.message(None, 0)?;
    Ok(Value::Object(message))
}

struct Reader<'a> {
    tokens: &'a [&'a str],
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first)
    }

    fn skip(&mut self, token: &str) -> bool {
        let found = self.tokens.first() == Some(&token);
        if found {
            self.tokens = &self.tokens[1..];
        }
        found
    }

    /// Fields until `end`, or until nothing is left.
    fn message(&mut self, end: Option<&str>, depth: usize) -> anyhow::Result<Map<String, Value>> {
        ensure!(depth < MAX_DEPTH, "messages lie too deep in each other");
        let mut fields = Map::new();
        loop {
            let name = match (self.next(), end) {
                (None, None) => return Ok(fields),
                (None, Some(end)) => bail!("{end} is missing"),
                (Some("," | ";"), _) => continue,
                (Some(token), Some(end)) if token == end => return Ok(fields),
                (Some(name), _) => name,
            };
            self.skip(":");
            let value = self.value(depth)?;
            fields.insert(camel(name), value);
        }
    }

    fn value(&mut self, depth: usize) -> anyhow::Result<Value> {
        let token = self.next().context("a value is missing")?;
        Ok(match token {
            "{" => known(self.message(Some("}"), depth + 1)?),
            "<" => known(self.message(Some(">"), depth + 1)?),
            "[" => {
                ensure!(depth < MAX_DEPTH, "lists lie too deep in each other");
                let mut items = Vec::new();
                while !self.skip("]") {
                    if !self.skip(",") {
                        items.push(self.value(depth + 1)?);
                    }
                }
                entries(&items).unwrap_or(Value::Array(items))
            }
            "true" => true.into(),
            "false" => false.into(),
            text if text.starts_with('"') => serde_json::from_str(text)?,
            text => match text.parse::<i64>() {
                Ok(number) => number.into(),
                Err(_) => text.into(),
            },
        })
    }
}

/// Durations and wrappers have a form of their own in JSON.
fn known(fields: Map<String, Value>) -> Value {
    match (fields.len(), fields.get("seconds"), fields.get("value")) {
        (1, Some(seconds), _) => format!("{seconds}s").into(),
        (1, _, Some(value)) => value.clone(),
        _ => Value::Object(fields),
    }
}

/// A map is written as a list of its entries.
fn entries(items: &[Value]) -> Option<Value> {
    let entry = |item: &Value| {
        let fields = item.as_object().filter(|fields| fields.len() == 2)?;
        Some((fields.get("key")?.as_str()?.to_owned(), fields.get("value")?.clone()))
    };
    if items.is_empty() {
        return None;
    }
    items.iter().map(entry).collect::<Option<Map<_, _>>>().map(Value::Object)
}

fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |mut name, word| {
        let mut letters = word.chars();
        name.extend(letters.next().map(|letter| letter.to_ascii_uppercase()));
        name + letters.as_str()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn messages_become_json() {
        let text = r#"
            # a comment
            config_path: "/etc/x"   drain_duration: {seconds: 2}
            stats_compression: {value: false}
            runtime_values: [{ key: "a.b" value: "true" }]
            tracing: { zipkin: { address: "h:1" }, tls_settings: { mode: SIMPLE } }
        "#;
        let want = json!({
            "configPath": "/etc/x", "drainDuration": "2s", "statsCompression": false,
            "runtimeValues": {"a.b": "true"},
            "tracing": {"zipkin": {"address": "h:1"}, "tlsSettings": {"mode": "SIMPLE"}},
        });
        assert_eq!(super::parse(text).unwrap(), want);
        for wrong in ["a: {", "a:", "a: [1"] {
            assert!(super::parse(wrong).is_err(), "{wrong}");
        }
    }
}
