//! Values to JSON as Go's `encoding/json` writes it, and JSON text to values.

use crate::buffer::Buffer;
use crate::error::Fault;
use crate::format::float;
use crate::limit::DEEPEST_VALUE;
use crate::value::{Numbers, Value};

/// How the output looks.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    /// `<`, `>` and `&` as escapes, so that the text is safe inside HTML.
    pub(crate) html: bool,
    /// One entry a line.
    pub(crate) pretty: bool,
}

pub(crate) fn write(out: &mut Buffer, value: &Value, style: Style) -> Result<(), Fault> {
    Writer { out, style }.value(value, 0)
}

pub(crate) fn parse(text: &str) -> Result<Value, String> {
    let json: serde_json::Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    Value::from_json(&json, Numbers::Float).map_err(|e| e.to_string())
}

struct Writer<'b> {
    out: &'b mut Buffer,
    style: Style,
}

impl Writer<'_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Fault> {
        if depth > DEEPEST_VALUE {
            return Err(Fault::Bound("the value is nested too deep for JSON".to_owned()));
        }
        self.out.check()?;
        match value {
            Value::Nil => self.out.push("null"),
            Value::Bool(b) => self.out.push(if *b { "true" } else { "false" }),
            Value::Int(n) | Value::Int64(n) => self.out.push(&n.to_string()),
            Value::Byte(n) => self.out.push(&n.to_string()),
            Value::Float(f) if !f.is_finite() => {
                let shown = float::format(*f, 'g', None);
                return Err(Fault::Problem(format!("json: unsupported value: {shown}")));
            }
            Value::Float(f) => self.out.push(&float::json(*f)),
            Value::Str(text) => string(self.out, text, self.style.html),
            Value::List(list) if list.is_nil() => self.out.push("null"),
            Value::List(list) => {
                self.out.push("[");
                for (i, item) in list.items().iter().enumerate() {
                    self.next_line(i > 0, depth + 1);
                    self.value(item, depth + 1)?;
                }
                self.close(list.items().is_empty(), depth, "]");
            }
            Value::Map(map) => {
                self.out.push("{");
                for (i, (key, item)) in map.entries().iter().enumerate() {
                    self.next_line(i > 0, depth + 1);
                    string(self.out, key, self.style.html);
                    self.out.push(if self.style.pretty { ": " } else { ":" });
                    self.value(item, depth + 1)?;
                }
                self.close(map.is_empty(), depth, "}");
            }
        }
        Ok(())
    }

    fn next_line(&mut self, comma: bool, depth: usize) {
        self.out.push(if comma { "," } else { "" });
        if self.style.pretty {
            self.out.push("\n");
            self.out.pad(' ', depth * 2);
        }
    }

    fn close(&mut self, empty: bool, depth: usize, bracket: &str) {
        if !empty {
            self.next_line(false, depth);
        }
        self.out.push(bracket);
    }
}

fn string(out: &mut Buffer, text: &str, html: bool) {
    out.push("\"");
    for c in text.chars() {
        match c {
            '"' => out.push("\\\""),
            '\\' => out.push("\\\\"),
            '\n' => out.push("\\n"),
            '\r' => out.push("\\r"),
            '\t' => out.push("\\t"),
            '\u{8}' => out.push("\\b"),
            '\u{c}' => out.push("\\f"),
            '<' | '>' | '&' if html => out.push(&format!("\\u{:04x}", u32::from(c))),
            '\0'..='\u{1f}' | '\u{2028}' | '\u{2029}' => {
                out.push(&format!("\\u{:04x}", u32::from(c)));
            }
            _ => out.push_char(c),
        }
    }
    out.push("\"");
}
