//! Field selectors in their text form: `metadata.name=a,status.phase!=Running`.

use crate::status::Status;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) field: String,
    pub(crate) value: String,
    /// `!=`
    pub(crate) negated: bool,
}

/// All terms must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(pub(crate) Vec<Term>);

impl FieldSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        let mut terms = Vec::new();
        for term in split(text).filter(|term| !term.is_empty()) {
            let (field, operator, value) = ["!=", "==", "="]
                .into_iter()
                .filter_map(|operator| term.find(operator).map(|at| (at, operator)))
                .min_by_key(|(at, operator)| (*at, usize::MAX - operator.len()))
                .map(|(at, operator)| (&term[..at], operator, &term[at + operator.len()..]))
                .ok_or_else(|| {
                    Status::bad_request(format!(
                        "invalid selector: '{text}'; can't understand '{term}'"
                    ))
                })?;
            terms.push(Term {
                field: field.to_owned(),
                value: unescape(value)?,
                negated: operator == "!=",
            });
        }
        Ok(Self(terms))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// `field` tells a field's value.
    pub(crate) fn matches(&self, field: impl Fn(&str) -> Option<String>) -> bool {
        self.0.iter().all(|term| {
            let value = field(&term.field).unwrap_or_default();
            (value == term.value) != term.negated
        })
    }
}

/// Splits at commas that are not escaped.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut escaped = false;
    text.split(move |c: char| {
        let here = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        here
    })
}

fn unescape(text: &str) -> Result<String, Status> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(Status::bad_request(format!(
                        "invalid field selector: invalid escape sequence: {sequence}"
                    )));
                }
            },
            '=' => {
                return Err(Status::bad_request(format!(
                    "invalid field selector: unescaped character in value: {text}"
                )));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_taken_apart_and_unescaped() {
        let selector = FieldSelector::parse(r"a.b=c,d!=e,f==g\,h\=i").unwrap();
        let shown: Vec<_> =
            selector.0.iter().map(|t| (t.field.as_str(), t.negated, t.value.as_str())).collect();
        assert_eq!(shown, [("a.b", false, "c"), ("d", true, "e"), ("f", false, "g,h=i")]);
        assert!(FieldSelector::parse("").unwrap().is_empty());
        for bad in ["foo", r"a=b\c", "a=b=c"] {
            assert_eq!(FieldSelector::parse(bad).unwrap_err().code, 400, "{bad:?}");
        }
    }

    #[test]
    fn an_absent_field_is_the_empty_text() {
        let selector = FieldSelector::parse("spec.nodeName=").unwrap();
        assert!(selector.matches(|_| None));
        assert!(!selector.matches(|_| Some("n".to_owned())));
    }
}
