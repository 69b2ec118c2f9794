//! Which names are allowed where, with the texts Kubernetes refuses the others with.
//!
//! Every check takes a text and returns what is wrong with it, nothing if all is well.

/// The rule for the names of a kind's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// RFC 1123 subdomain: up to 253 characters in labels joined by dots.
    Subdomain,
    /// RFC 1123 label: up to 63 characters.
    Label,
    /// RFC 1035 label: a label that starts with a letter.
    Label1035,
    /// Anything that can be one segment of a path.
    PathSegment,
}

impl NameRule {
    /// What is wrong with the name; a prefix (of `generateName`) may end in a dash.
    pub fn check(self, name: &str, prefix: bool) -> Vec<String> {
        let masked;
        let name = match name.strip_suffix('-') {
            Some(rest) if prefix => {
                masked = format!("{rest}a");
                masked.as_str()
            }
            _ => name,
        };
        match self {
            Self::Subdomain => subdomain(name),
            Self::Label => label(name),
            Self::Label1035 => label1035(name),
            Self::PathSegment => path_segment(name),
        }
    }
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
     characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
     'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
     or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
     regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_1035: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or \
     '-', start with an alphabetic character, and end with an alphanumeric character (e.g. \
     'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
     and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
     used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric \
     characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. \
     'MyValue',  or 'my_value',  or '12345', regex used for validation is \
     '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
const WILDCARD: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS \
     subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with \
     an alphanumeric character (e.g. '*.example.com', regex used for validation is \
     '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

pub(super) fn subdomain(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, 253, "characters");
    if !text.split('.').all(is_label) {
        wrong.push(SUBDOMAIN.to_owned());
    }
    wrong
}

pub(super) fn wildcard_subdomain(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, 253, "characters");
    if !text.strip_prefix("*.").is_some_and(|rest| rest.split('.').all(is_label)) {
        wrong.push(WILDCARD.to_owned());
    }
    wrong
}

/// A subdomain whose labels may have underscores, as search domains may.
pub(super) fn search_domain(text: &str) -> Vec<String> {
    const TEXT: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
         characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. \
         'example.com', regex used for validation is \
         '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";
    let mut wrong = too_long(text, 253, "characters");
    let fits = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part);
        !part.starts_with('_') && !part.ends_with('_') && is_label(&part.replace('_', "-"))
    };
    if !text.split('.').all(fits) {
        wrong.push(TEXT.to_owned());
    }
    wrong
}

pub(super) fn label(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, 63, "characters");
    if is_label(text) {
        return wrong;
    }
    // A name that would do as a subdomain only has one thing wrong with it.
    let dots_only = text.contains('.') && text.split('.').all(is_label);
    wrong.push(if dots_only { "must not contain dots".to_owned() } else { LABEL.to_owned() });
    wrong
}

pub(super) fn label1035(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, 63, "characters");
    if !(is_label(text) && text.starts_with(|c: char| c.is_ascii_lowercase())) {
        wrong.push(LABEL_1035.to_owned());
    }
    wrong
}

fn path_segment(text: &str) -> Vec<String> {
    if matches!(text, "." | "..") {
        return vec![format!("may not be '{text}'")];
    }
    ['/', '%']
        .iter()
        .filter(|c| text.contains(**c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

/// `[prefix/]name`, as keys of labels and annotations and names of resources and conditions are.
pub(super) fn qualified(text: &str) -> Vec<String> {
    qualified_as(text, "a qualified name")
}

pub(super) fn label_key(text: &str) -> Vec<String> {
    qualified_as(text, "a valid label key")
}

fn qualified_as(text: &str, subject: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let parts: Vec<_> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                wrong.extend(subdomain(prefix).into_iter().map(|w| format!("prefix part {w}")));
            }
            name
        }
        _ => {
            return vec![format!(
                "{subject} {QUALIFIED} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    }
    wrong.extend(too_long(name, 63, "bytes").into_iter().map(|w| format!("name part {w}")));
    if !is_qualified_part(name) {
        wrong.push(format!("name part {QUALIFIED}"));
    }
    wrong
}

pub(super) fn label_value(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, 63, "bytes");
    if !(text.is_empty() || is_qualified_part(text)) {
        wrong.push(LABEL_VALUE.to_owned());
    }
    wrong
}

/// Names of ports: at most 15 characters, at least one letter.
pub(super) fn port_name(text: &str) -> Vec<String> {
    let mut wrong = too_long(text, 15, "characters");
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if !text.bytes().all(allowed) || text.is_empty() {
        wrong.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !text.bytes().any(|b| b.is_ascii_lowercase()) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// Names of environment variables: anything printable but `=`.
pub(super) fn env_name(text: &str) -> Vec<String> {
    const TEXT: &str = "a valid environment variable name must consist only of printable ASCII \
                        characters other than '='";
    if text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=') {
        Vec::new()
    } else {
        vec![TEXT.to_owned()]
    }
}

/// Keys of config maps and secrets.
pub(super) fn config_key(text: &str) -> Vec<String> {
    const TEXT: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' \
         (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is \
         '[-._a-zA-Z0-9]+')";
    let mut wrong = too_long(text, 253, "characters");
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if text.is_empty() || !text.bytes().all(allowed) {
        wrong.push(TEXT.to_owned());
    } else if text == "." {
        wrong.push("must not be '.'".to_owned());
    } else if text == ".." {
        wrong.push("must not be '..'".to_owned());
    } else if text.starts_with("..") {
        wrong.push("must not start with '..'".to_owned());
    }
    wrong
}

pub(super) fn port(number: i64) -> Option<&'static str> {
    (!(1..=65535).contains(&number)).then_some("must be between 1 and 65535, inclusive")
}

fn too_long(text: &str, max: usize, unit: &str) -> Vec<String> {
    if text.len() > max { vec![format!("must be no more than {max} {unit}")] } else { Vec::new() }
}

fn is_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(&first), Some(&last)) => {
            inner(first) && inner(last) && bytes.iter().all(|&b| inner(b) || b == b'-')
        }
        _ => false,
    }
}

fn is_qualified_part(text: &str) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            first.is_ascii_alphanumeric()
                && last.is_ascii_alphanumeric()
                && bytes
                    .iter()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_refused_with_the_known_texts() {
        assert_eq!(NameRule::Subdomain.check("A_b", false), [SUBDOMAIN]);
        assert_eq!(NameRule::Label.check("a.b", false), ["must not contain dots"]);
        assert_eq!(NameRule::Label1035.check("1a", false), [LABEL_1035]);
        assert_eq!(
            NameRule::PathSegment.check("a/b%", false),
            ["may not contain '/'", "may not contain '%'"]
        );
        assert_eq!(NameRule::Subdomain.check("web-", true), [""; 0]);
        assert_eq!(NameRule::Subdomain.check("web-", false), [SUBDOMAIN]);
        assert_eq!(label(&"a".repeat(64)), ["must be no more than 63 characters"]);
    }

    #[test]
    fn keys_and_values_of_labels() {
        assert_eq!(label_key("app.kubernetes.io/name"), [""; 0]);
        assert_eq!(label_key("/a"), ["prefix part must be non-empty"]);
        assert_eq!(
            label_key(""),
            ["name part must be non-empty".to_owned(), format!("name part {QUALIFIED}")]
        );
        assert_eq!(label_value(""), [""; 0]);
        assert_eq!(label_value("-x"), [LABEL_VALUE]);
        assert_eq!(label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
    }
}
