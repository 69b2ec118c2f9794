//! A file as documents: in comes its text, out come objects as JSON, each with its line.
//!
//! Every document is read by itself, so a broken one costs only itself. A `List` is its items.

use serde_json::Value;

/// One object of a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    /// Where its document begins, from 1.
    pub(super) line: usize,
    pub(super) value: Value,
}

/// A document that is no YAML; the message names line and column of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) line: usize,
    pub(super) why: String,
}

/// The objects of a file, and what is broken in it.
pub(super) fn read(text: &str) -> (Vec<Found>, Vec<Broken>) {
    let (mut found, mut broken) = (Vec::new(), Vec::new());
    for (line, document) in split(text) {
        // Empty lines instead of what stood before make the parser count lines of the file.
        let padded = format!("{}{document}", "\n".repeat(line - 1));
        let first = document.lines().position(is_content).unwrap_or(0) + line;
        match ironsail_yaml::documents(&padded) {
            Ok(values) => {
                for value in values {
                    expand(value, first, &mut found);
                }
            }
            Err(error) => broken.push(Broken { line: first, why: error.to_string() }),
        }
    }
    (found, broken)
}

fn is_content(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty() && !line.starts_with('#')
}

/// Documents with the line that each begins at.
fn split(text: &str) -> Vec<(usize, String)> {
    let mut documents = Vec::new();
    let (mut start, mut current) = (1, String::new());
    for (index, line) in text.lines().enumerate() {
        let rest = line.strip_prefix("---");
        if let Some(rest) = rest
            && (rest.is_empty() || rest.starts_with([' ', '\t']))
        {
            documents.push((start, std::mem::take(&mut current)));
            start = index + 1;
            // What stands beside the marker belongs to the document.
            current.push_str("   ");
            current.push_str(rest);
        } else {
            current.push_str(line);
        }
        current.push('\n');
    }
    documents.push((start, current));
    documents.retain(|(_, text)| text.lines().any(is_content));
    documents
}

fn expand(value: Value, line: usize, found: &mut Vec<Found>) {
    let is_list = value.get("kind").and_then(Value::as_str) == Some("List");
    match value {
        Value::Object(mut map) if is_list => {
            if let Some(Value::Array(items)) = map.remove("items") {
                found.extend(items.into_iter().map(|value| Found { line, value }));
            }
        }
        value => found.push(Found { line, value }),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_broken_document_costs_only_itself_and_is_named_by_line() {
        let text = "# note\na: 1\n---\nb: [1,\n---\n# c\nc: 3\n--- {d: 4}\n---\n";
        let (found, broken) = read(text);
        let expect = |line, value| Found { line, value };
        assert_eq!(
            found,
            [expect(2, json!({"a": 1})), expect(7, json!({"c": 3})), expect(8, json!({"d": 4})),]
        );
        assert_eq!(broken.len(), 1);
        assert_eq!(broken[0].line, 4);
        assert!(broken[0].why.contains("line 5") || broken[0].why.contains("line 4"), "{broken:?}");
    }

    #[test]
    fn a_list_is_its_items_and_json_is_yaml() {
        let (found, _) = read(r#"{"kind": "List", "items": [{"a": 1}, {"b": 2}]}"#);
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn a_marker_inside_a_text_is_no_end() {
        let (found, broken) = read("a: |\n  ---\n  text\nb: '---x'\n");
        assert_eq!(broken, []);
        assert_eq!(found[0].value["a"], "---\ntext\n");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[-a-c:\\[ \\n#]{0,80}") {
            let _ = read(&text);
        }
    }
}
