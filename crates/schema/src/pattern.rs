//! `pattern` of a schema: a Go (RE2) regular expression, matched anywhere in the text.
//!
//! The two dialects differ in a few places; the text is translated so that it means the same here.

use std::fmt;

use regex::{Regex, RegexBuilder};

/// What one compiled expression may take.
const MAX_BYTES: usize = 4 * 1024 * 1024;

#[derive(Clone)]
pub(crate) struct Pattern {
    text: String,
    regex: Regex,
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, regex::Error> {
        let regex = RegexBuilder::new(&translate(text)).size_limit(MAX_BYTES).build()?;
        Ok(Self { text: text.to_owned(), regex })
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// As it stands in the schema.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", self.text)
    }
}

/// In Go, `\d \w \s \b` are ASCII, braces that repeat nothing are themselves, and inside a class
/// `[ & ~` have no other meaning.
fn translate(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut class = false;
    let mut class_start = false;
    let chars: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < chars.len() {
        let c = chars[at];
        let first_in_class = class_start;
        class_start = false;
        match c {
            '\\' => {
                at += 1;
                match chars.get(at) {
                    Some(escaped) => out.push_str(&escape(*escaped, class)),
                    None => out.push('\\'),
                }
            }
            '[' if class => {
                if chars.get(at + 1) == Some(&':') {
                    out.push('[');
                } else {
                    out.push_str("\\[");
                }
            }
            '[' => {
                class = true;
                class_start = true;
                out.push('[');
                if chars.get(at + 1) == Some(&'^') {
                    at += 1;
                    out.push('^');
                }
            }
            ']' if class && first_in_class => out.push_str("\\]"),
            ']' if class => {
                // The end of a named class like [:alpha:] is not the end of the class around it.
                let named =
                    at > 0 && chars[at - 1] == ':' && out.contains("[:") && ends_named(&out);
                class = named;
                out.push(']');
            }
            '&' | '~' if class => {
                out.push('\\');
                out.push(c);
            }
            '-' if class && chars.get(at + 1) == Some(&'-') => out.push_str("\\-"),
            '{' if !class && !repeats(&chars[at..]) => out.push_str("\\{"),
            _ => out.push(c),
        }
        at += 1;
    }
    out
}

fn ends_named(out: &str) -> bool {
    out.rfind("[:").is_some_and(|start| !out[start..].contains(']'))
}

fn escape(c: char, class: bool) -> String {
    match (c, class) {
        ('d', false) => "[0-9]".to_owned(),
        ('d', true) => "0-9".to_owned(),
        ('D', _) => "[^0-9]".to_owned(),
        ('w', false) => "[0-9A-Za-z_]".to_owned(),
        ('w', true) => "0-9A-Za-z_".to_owned(),
        ('W', _) => "[^0-9A-Za-z_]".to_owned(),
        ('s', false) => "[\\t\\n\\f\\r ]".to_owned(),
        ('s', true) => "\\t\\n\\f\\r ".to_owned(),
        ('S', _) => "[^\\t\\n\\f\\r ]".to_owned(),
        ('b', false) => "(?-u:\\b)".to_owned(),
        // Go takes any escaped punctuation as itself; here some of it would be refused.
        (c, _) if c.is_ascii_punctuation() => regex::escape(&c.to_string()),
        (c, _) => format!("\\{c}"),
    }
}

/// Does `{…` at the start say how often to repeat?
fn repeats(chars: &[char]) -> bool {
    let Some(end) = chars.iter().position(|c| *c == '}') else { return false };
    let inner: String = chars[1..end].iter().collect();
    let (low, high) = inner.split_once(',').unwrap_or((&inner, ""));
    let digits = |text: &str| text.chars().all(|c| c.is_ascii_digit());
    !low.is_empty() && digits(low) && digits(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        Pattern::parse(pattern).expect("a good pattern").is_match(text)
    }

    #[test]
    fn go_expressions_mean_the_same() {
        assert!(matches(r"^\d+$", "12"));
        assert!(!matches(r"^\d+$", "١٢"));
        assert!(matches(r"^[\w.-]+$", "a_b-c.d"));
        assert!(!matches(r"^\w+$", "é"));
        assert!(matches(r"^{}$", "{}"));
        assert!(matches(r"^a{2,3}$", "aaa"));
        assert!(matches(r"^[[a]$", "["));
        assert!(matches(r"^[a&&b]+$", "a&b"));
        assert!(matches(r"^[[:alpha:]-]+$", "ab-"));
        assert!(matches(r"^[]a]+$", "]a"));
        assert!(matches(r"^\/a\-b\_c$", "/a-b_c"));
        assert!(matches(r"^(?:[a-z]+\.)*[a-z]+$", "a.b.c"));
        assert!(matches(r"^[^\s]+$", "ab"));
        assert!(Pattern::parse("(").is_err());
    }
}
