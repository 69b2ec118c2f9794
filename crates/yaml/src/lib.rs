//! YAML read as kubectl reads it: `yes` and `on` are true, `0755` is octal, the last of two equal
//! keys wins, an empty document counts for nothing.
//!
//! Text comes in, JSON values or typed settings go out. The only place that names the YAML library.

mod colon;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// More text than this is refused unread: no manifest is that long.
pub const LONGEST: usize = 32 << 20;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("YAML of {0} bytes is longer than {LONGEST}")]
    TooLong(usize),
    #[error("{0}")]
    Syntax(String),
}

/// Every document of `text` that is not empty.
pub fn documents(text: &str) -> Result<Vec<Value>, Error> {
    check_length(text)?;
    // JSON is YAML but for keys of more than 1024 characters, and is read much faster as JSON.
    if text.trim_start().starts_with('{')
        && let Ok(value) = serde_json::from_str(text)
    {
        return Ok(vec![whole_numbers(value)]);
    }
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(&colon::quoted(text), options())
            .map_err(|e| syntax(&e))?;
    Ok(documents.into_iter().filter(|d| !d.is_null()).map(whole_numbers).collect())
}

/// The one document of `text`, as `T`. Empty text is an empty document.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    check_length(text)?;
    serde_saphyr::from_str_with_options(&colon::quoted(text), options()).map_err(|e| syntax(&e))
}

fn check_length(text: &str) -> Result<(), Error> {
    if text.len() > LONGEST { Err(Error::TooLong(text.len())) } else { Ok(()) }
}

fn syntax(error: &serde_saphyr::Error) -> Error {
    Error::Syntax(error.to_string())
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        with_snippet: false,
    }
}

/// `1.0` and `1e3` as the whole numbers they are: Go's reader makes integers of them.
fn whole_numbers(value: Value) -> Value {
    match value {
        Value::Number(n) => match n.as_f64() {
            // Up to 2^53 a float holds every integer exactly.
            Some(f) if !n.is_i64() && !n.is_u64() && f.fract() == 0.0 && f.abs() < 9.0e15 => {
                #[expect(clippy::cast_possible_truncation, reason = "checked just above")]
                let whole = f as i64;
                Value::from(whole)
            }
            _ => Value::Number(n),
        },
        Value::Array(items) => items.into_iter().map(whole_numbers).collect(),
        Value::Object(map) => map.into_iter().map(|(k, v)| (k, whole_numbers(v))).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_are_read_as_kubectl_reads_them() {
        let text = "a: yes\nb: 0755\nc: 1.0\nd: 1e3\ne: '1'\nf: 1.5\ng: ~\nh: 1\nh: 2\n";
        assert_eq!(
            documents(text).unwrap(),
            [
                json!({"a": true, "b": 493, "c": 1, "d": 1000, "e": "1", "f": 1.5, "g": null, "h": 2})
            ]
        );
    }

    #[test]
    fn what_is_quoted_is_text() {
        let text = "a: 'false'\nb: \"true\"\nc: {d/e: 'false'}\nf: ['yes', 'null', '1']\n";
        let want =
            json!({"a": "false", "b": "true", "c": {"d/e": "false"}, "f": ["yes", "null", "1"]});
        assert_eq!(documents(text).unwrap(), [want]);
    }

    #[test]
    fn a_colon_before_a_bracket_belongs_to_the_word() {
        let text = "a: [1.2.3.4, 001:db8::]\nb: {c:}\nd: [x:, w]\ne: [\"k\":]\nf: |\n  [z:]\ng: '[w:]'\nh: [i: 1, j: ]\n# [k:]\n";
        assert_eq!(
            documents(text).unwrap(),
            [json!({
                "a": ["1.2.3.4", "001:db8::"], "b": {"c:": null}, "d": ["x:", "w"], "e": [{"k": null}],
                "f": "[z:]\n", "g": "[w:]", "h": [{"i": 1}, {"j": null}]
            })]
        );
    }

    #[test]
    fn empty_documents_count_for_nothing() {
        assert_eq!(documents("---\n# nothing\n---\na: 1\n---\n").unwrap(), [json!({"a": 1})]);
        assert!(documents("").unwrap().is_empty());
    }

    #[test]
    fn json_has_keys_of_any_length_and_numbers_as_in_yaml() {
        let value = json!({"k".repeat(2000): 1.0});
        assert_eq!(documents(&value.to_string()).unwrap(), [json!({"k".repeat(2000): 1})]);
        assert_eq!(documents("{\"a\": 1} # one\n---\n{b: 2}").unwrap().len(), 2);
    }

    #[test]
    fn a_broken_document_names_its_place() {
        let error = documents("a: 1\nb: [1,\n").unwrap_err().to_string();
        assert!(error.contains("line"), "{error}");
    }

    #[test]
    fn anchors_cannot_blow_up() {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x]\n");
        for i in 1..12 {
            let refs = vec![format!("*a{}", i - 1); 9].join(", ");
            text.push_str(&format!("a{i}: &a{i} [{refs}]\n"));
        }
        assert!(documents(&text).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
            let _ = documents(&text);
        }

        #[test]
        fn json_is_yaml(key in "[a-z]{1,8}", number in any::<i32>(), text in "[a-zA-Z0-9 ]{0,20}") {
            let value = json!({key: {"n": number, "t": text}});
            prop_assert_eq!(documents(&value.to_string()).unwrap(), vec![value]);
        }
    }
}
