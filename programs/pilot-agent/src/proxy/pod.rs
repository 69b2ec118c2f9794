//! What the pod says about itself, in the files of the downward API.

use std::collections::BTreeMap;
use std::path::Path;

/// Labels or annotations: `key="value"` a line, the value quoted as in Go. A file that is not there is
/// an empty one; a line that is wrong is left out.
pub(crate) fn read(path: &Path) -> BTreeMap<String, String> {
    std::fs::read_to_string(path).map(|text| parse(&text)).unwrap_or_default()
}

fn parse(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .filter_map(|(key, value)| Some((key.trim().to_owned(), unquote(value.trim())?)))
        .collect()
}

/// Go's quoted string; JSON reads all of it but a few escapes that no label has.
fn unquote(text: &str) -> Option<String> {
    match serde_json::from_str(text) {
        Ok(value) => Some(value),
        Err(_) => {
            let inner = text.strip_prefix('"')?.strip_suffix('"')?;
            Some(inner.replace("\\\"", "\"").replace("\\\\", "\\"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_line_is_a_key_and_a_quoted_value() {
        let read = parse("app=\"httpbin\"\nnote=\"a \\\"b\\\"\\nc=d\"\nbroken\n");
        assert_eq!(read["app"], "httpbin");
        assert_eq!(read["note"], "a \"b\"\nc=d");
        assert_eq!(read.len(), 2);
    }
}
