//! Label selectors in their text form: `a=b,c!=d,e in (x,y),!f,g>1`.

use std::collections::BTreeMap;

use crate::status::Status;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Need {
    Exists,
    Missing,
    In(Vec<String>),
    NotIn(Vec<String>),
    Greater(i64),
    Less(i64),
}

/// All requirements must hold; without any, everything is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<(String, Need)>);

impl LabelSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        let tokens = tokens(text);
        let mut parser = Parser { tokens: &tokens };
        let mut needs = Vec::new();
        while let Some(first) = parser.peek() {
            if !needs.is_empty() {
                if first != "," {
                    return Err(unexpected(first, "',' or 'end of string'"));
                }
                parser.next();
            }
            needs.push(parser.requirement()?);
        }
        Ok(Self(needs))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        self.0.iter().all(|(key, need)| {
            let value = labels.and_then(|labels| labels.get(key));
            let number = || value.and_then(|value| value.parse::<i64>().ok());
            match need {
                Need::Exists => value.is_some(),
                Need::Missing => value.is_none(),
                Need::In(values) => value.is_some_and(|value| values.contains(value)),
                Need::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Need::Greater(than) => number().is_some_and(|number| number > *than),
                Need::Less(than) => number().is_some_and(|number| number < *than),
            }
        })
    }
}

fn unexpected(found: &str, expected: &str) -> Status {
    Status::bad_request(format!(
        "unable to parse requirement: found '{found}', expected: {expected}"
    ))
}

fn is_label_value(text: &str) -> bool {
    let fine = |c: u8| c.is_ascii_alphanumeric() || b"-_.".contains(&c);
    let ends = |c: Option<&u8>| c.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes.iter().copied().all(fine)
        && ends(bytes.first())
        && ends(bytes.last())
}

/// Words and operators; white space only separates.
fn tokens(text: &str) -> Vec<&str> {
    let special = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '<' | '>');
    let mut out = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("==") || rest.starts_with("!=") {
            2
        } else if special(first) {
            1
        } else {
            rest.find(|c: char| special(c) || c.is_whitespace()).unwrap_or(rest.len())
        };
        let (token, behind) = rest.split_at(length);
        out.push(token);
        rest = behind.trim_start();
    }
    out
}

struct Parser<'a> {
    tokens: &'a [&'a str],
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.first().copied()
    }

    fn next(&mut self) -> &'a str {
        let token = self.peek().unwrap_or_default();
        self.tokens = self.tokens.get(1..).unwrap_or_default();
        token
    }

    fn requirement(&mut self) -> Result<(String, Need), Status> {
        if self.peek() == Some("!") {
            self.next();
            return Ok((self.key()?, Need::Missing));
        }
        let key = self.key()?;
        let need = match self.peek() {
            None | Some(",") => Need::Exists,
            Some(_) => match self.next() {
                "=" | "==" => Need::In(vec![self.value(&key)?]),
                "!=" => Need::NotIn(vec![self.value(&key)?]),
                "in" => Need::In(self.values()?),
                "notin" => Need::NotIn(self.values()?),
                ">" => Need::Greater(self.number(&key)?),
                "<" => Need::Less(self.number(&key)?),
                other => return Err(unexpected(other, "in, notin, =, ==, !=, gt, lt")),
            },
        };
        Ok((key, need))
    }

    fn key(&mut self) -> Result<String, Status> {
        let key = self.next();
        if key.is_empty() || key.chars().all(|c| "=!(),<>".contains(c)) {
            return Err(unexpected(key, "identifier"));
        }
        let name = key.rsplit('/').next().unwrap_or_default();
        if name.is_empty() || !is_label_value(name) {
            return Err(Status::bad_request(format!(
                "unable to parse requirement: <nil>: Invalid value: {key:?}: name part must \
                 consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                 an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex \
                 used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            )));
        }
        Ok(key.to_owned())
    }

    /// A single value may be empty: `a=` and `a=,b`.
    fn value(&mut self, key: &str) -> Result<String, Status> {
        match self.peek() {
            None | Some(",") => Ok(String::new()),
            Some(operator) if operator.chars().all(|c| "=!()<>".contains(c)) => {
                Err(unexpected(operator, "identifier"))
            }
            Some(value) if !is_label_value(value) => Err(Status::bad_request(format!(
                "unable to parse requirement: values[0][{key}]: Invalid value: {value:?}: a valid \
                 label must be an empty string or consist of alphanumeric characters, '-', '_' or \
                 '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or \
                 'my_value',  or '12345', regex used for validation is \
                 '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ))),
            Some(_) => Ok(self.next().to_owned()),
        }
    }

    fn number(&mut self, key: &str) -> Result<i64, Status> {
        let text = self.next();
        text.parse().map_err(|_| {
            Status::bad_request(format!(
                "unable to parse requirement: values[0][{key}]: Invalid value: {text:?}: for 'Gt', \
                 'Lt' operators, the value must be an integer"
            ))
        })
    }

    fn values(&mut self) -> Result<Vec<String>, Status> {
        let open = self.next();
        if open != "(" {
            return Err(unexpected(open, "'('"));
        }
        let mut values = vec![];
        let mut pending = String::new();
        loop {
            match self.next() {
                ")" => {
                    values.push(pending);
                    return Ok(values);
                }
                "," => values.push(std::mem::take(&mut pending)),
                "" => return Err(unexpected("", "',' or ')'")),
                word if pending.is_empty() => word.clone_into(&mut pending),
                other => return Err(unexpected(other, "',' or ')'")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
        let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        LabelSelector::parse(selector).unwrap().matches(Some(&labels))
    }

    #[test]
    fn requirements_select_as_documented() {
        let labels = [("app", "web"), ("tier", "1"), ("empty", "")];
        for (selector, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web,tier=1", true),
            ("app=web,tier=2", false),
            ("app!=db", true),
            ("other!=x", true),
            ("app", true),
            ("!app", false),
            ("!other", true),
            ("app in (db, web)", true),
            ("app notin (db,web)", false),
            ("other notin (db)", true),
            ("other in (db)", false),
            ("tier>0", true),
            ("tier<1", false),
            ("empty=", true),
            ("app=", false),
            ("empty in (,x)", true),
            ("example.com/a.b", false),
        ] {
            assert_eq!(selects(selector, &labels), expected, "{selector:?}");
        }
    }

    #[test]
    fn nonsense_is_refused_with_kubernetes_text() {
        let error = LabelSelector::parse("a b").unwrap_err();
        assert_eq!(
            error.message,
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"
        );
        for bad in ["=", "a in b", "a in (b", "a,,b", "a=b c", "-a=b", "a>x", "!", "a in (b c)"] {
            assert_eq!(LabelSelector::parse(bad).unwrap_err().code, 400, "{bad:?}");
        }
    }
}
