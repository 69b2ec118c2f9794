//! Values to YAML as Go's Kubernetes YAML library prints them: block style, sorted keys, two spaces.
//!
//! Lists stand at the column of their key. A line past 80 columns is folded at its next space.

mod order;
mod scalar;

use crate::buffer::Buffer;
use crate::error::{Error, Fault};
use crate::format::float;
use crate::limit::DEEPEST_VALUE;
use crate::value::{List, Map, Numbers, Value};

/// The document, with the line end that Go's `Marshal` leaves.
pub(crate) fn write(out: &mut Buffer, value: &Value) -> Result<(), Fault> {
    let mut writer = Writer { out };
    match value {
        Value::Map(map) if !map.is_empty() => writer.map(map, 0, false, 0),
        Value::List(list) if !list.items().is_empty() => writer.list(list, 0, false, 0),
        scalar => {
            writer.scalar(scalar, 0)?;
            Ok(())
        }
    }
}

/// A document of at most `longest` bytes, for programs that write manifests as Go's do.
pub fn to_yaml(json: &serde_json::Value, longest: usize) -> Result<String, Error> {
    let value = Value::from_json(json, Numbers::Int)?;
    let mut out = Buffer::new(longest);
    let written = write(&mut out, &value).and_then(|()| out.finish());
    written.map_err(|_| Error::TooLong {
        template: "YAML".to_owned(),
        size: longest,
        limit: longest,
    })
}

struct Writer<'b> {
    out: &'b mut Buffer,
}

impl Writer<'_> {
    /// `inline`: the first entry follows a dash on its line.
    fn map(&mut self, map: &Map, indent: usize, inline: bool, depth: usize) -> Result<(), Fault> {
        check_depth(depth)?;
        let entries = order::sorted(map.entries());
        for (i, (key, value)) in entries.iter().enumerate() {
            if i > 0 || !inline {
                self.out.pad(' ', indent);
            }
            self.out.check()?;
            if scalar::is_simple_key(key) {
                self.out.push(&scalar::one_line(key, None));
                self.out.push(":");
                self.entry(value, indent, depth)?;
            } else {
                self.explicit(key, value, indent, depth)?;
            }
        }
        Ok(())
    }

    /// What follows `key:`.
    fn entry(&mut self, value: &Value, indent: usize, depth: usize) -> Result<(), Fault> {
        match value {
            Value::Map(map) if !map.is_empty() => {
                self.out.push("\n");
                self.map(map, indent + 2, false, depth + 1)
            }
            Value::List(list) if !list.items().is_empty() => {
                self.out.push("\n");
                self.list(list, indent, false, depth + 1)
            }
            scalar => {
                self.out.push(" ");
                self.scalar(scalar, indent)
            }
        }
    }

    /// A key too long for one line with its value: `? key` and `: value`.
    fn explicit(
        &mut self,
        key: &str,
        value: &Value,
        indent: usize,
        depth: usize,
    ) -> Result<(), Fault> {
        self.out.push("? ");
        self.scalar(&Value::from(key), indent)?;
        self.out.pad(' ', indent);
        self.out.push(": ");
        self.item(value, indent, depth)
    }

    fn list(
        &mut self,
        list: &List,
        indent: usize,
        inline: bool,
        depth: usize,
    ) -> Result<(), Fault> {
        check_depth(depth)?;
        for (i, item) in list.items().iter().enumerate() {
            if i > 0 || !inline {
                self.out.pad(' ', indent);
            }
            self.out.check()?;
            self.out.push("- ");
            self.item(item, indent, depth)?;
        }
        Ok(())
    }

    /// What follows a dash.
    fn item(&mut self, value: &Value, indent: usize, depth: usize) -> Result<(), Fault> {
        match value {
            Value::Map(map) if !map.is_empty() => self.map(map, indent + 2, true, depth + 1),
            Value::List(list) if !list.items().is_empty() => {
                self.list(list, indent + 2, true, depth + 1)
            }
            scalar => self.scalar(scalar, indent),
        }
    }

    /// A scalar or an empty container, to the end of its line.
    fn scalar(&mut self, value: &Value, indent: usize) -> Result<(), Fault> {
        match value {
            Value::Str(text) => match scalar::literal(text, indent + 2) {
                Some(block) => {
                    self.out.push(&block);
                    return Ok(());
                }
                None => {
                    let fold = scalar::Fold { column: self.column(), indent: indent + 2 };
                    self.out.push(&scalar::one_line(text, Some(fold)));
                }
            },
            Value::Nil => self.out.push("null"),
            Value::Bool(b) => self.out.push(if *b { "true" } else { "false" }),
            Value::Int(n) | Value::Int64(n) => self.out.push(&n.to_string()),
            Value::Byte(n) => self.out.push(&n.to_string()),
            Value::Float(f) => self.out.push(&number(*f)?),
            Value::List(list) if list.is_nil() => self.out.push("null"),
            Value::List(_) => self.out.push("[]"),
            Value::Map(_) => self.out.push("{}"),
        }
        self.out.push("\n");
        self.out.check()
    }
}

impl Writer<'_> {
    /// Characters on the line so far.
    fn column(&self) -> usize {
        let text = self.out.as_str();
        text[text.rfind('\n').map_or(0, |newline| newline + 1)..].chars().count()
    }
}

fn check_depth(depth: usize) -> Result<(), Fault> {
    if depth > DEEPEST_VALUE {
        return Err(Fault::Bound("the value is nested too deep for YAML".to_owned()));
    }
    Ok(())
}

/// The number goes through JSON first, so whole ones below 1e21 lose their exponent.
fn number(value: f64) -> Result<String, Fault> {
    if !value.is_finite() {
        let shown = float::format(value, 'g', None);
        return Err(Fault::Problem(format!("json: unsupported value: {shown}")));
    }
    let json = float::json(value);
    if value == 0.0 {
        return Ok("0".to_owned());
    }
    let fits = json.parse::<i64>().is_ok() || json.parse::<u64>().is_ok();
    Ok(if fits { json } else { float::format(value, 'g', None) })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::value::Numbers;

    fn yaml(json: &serde_json::Value) -> String {
        let mut out = Buffer::new(1 << 20);
        write(&mut out, &Value::from_json(json, Numbers::Float).unwrap()).unwrap();
        out.finish().unwrap()
    }

    #[test]
    fn blocks_look_as_kubectl_prints_them() {
        let value = json!({
            "b": [1, {"x": "y", "z": []}, [true, null]],
            "a": {"k": "v", "e": {}},
            "text": "one\ntwo\n",
            "n10": 1, "n9": 2.5, "big": 1_234_567,
        });
        let expected = "a:\n  e: {}\n  k: v\nb:\n- 1\n- x: \"y\"\n  z: []\n- - true\n  - null\n\
            big: 1234567\nn9: 2.5\nn10: 1\ntext: |\n  one\n  two\n";
        assert_eq!(yaml(&value), expected);
    }

    #[test]
    fn texts_that_look_like_something_else_are_quoted() {
        for (text, expected) in [
            ("", "\"\""),
            ("true", "\"true\""),
            ("12", "\"12\""),
            ("0755", "\"0755\""),
            ("1e3", "\"1e3\""),
            ("2001-01-01", "\"2001-01-01\""),
            ("1:30", "\"1:30\""),
            ("~", "\"~\""),
            ("<<", "\"<<\""),
            ("- a", "'- a'"),
            ("a: b", "'a: b'"),
            ("a #b", "'a #b'"),
            ("*", "'*'"),
            ("it's", "it's"),
            ("'", "''''"),
            (" a", "' a'"),
            ("a\tb", "\"a\\tb\""),
            ("é", "é"),
            ("a:b", "a:b"),
            ("{{x}}", "'{{x}}'"),
        ] {
            assert_eq!(yaml(&json!(text)), format!("{expected}\n"), "{text:?}");
        }
    }

    fn tree() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(|b| json!(b)),
            any::<i32>().prop_map(|n| json!(n)),
            "[ -~\\n\\t]{0,12}".prop_map(|s| json!(s)),
            "[0-9a-z.:+_ -]{0,6}".prop_map(|s| json!(s)),
            "\\PC{0,5}".prop_map(|s| json!(s)),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
                prop::collection::btree_map("[ -~\\n]{0,6}", inner, 0..4)
                    .prop_map(|m| m.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(value in tree()) {
            let text = yaml(&value);
            let back: serde_json::Value = ironsail_yaml::parse(&text)
                .map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
            prop_assert_eq!(back, value, "{}", text);
        }
    }
}
