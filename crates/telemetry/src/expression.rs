//! Expressions for labels of the user's own: the part of CEL that such expressions use.
//!
//! In: text such as `request.method` or `has(request.host) ? request.host : 'none'`; out: a value, given
//! somebody who knows the attributes. What cannot be evaluated has no value; nothing here fails loudly
//! while requests pass. The control plane parses with the same code, so that a user hears of mistakes.

mod parse;

pub use parse::Error;

/// A parsed expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    Literal(Value),
    /// `request.headers['x']` is `["request", "headers", "x"]`.
    Attribute(Vec<String>),
    Not(Box<Self>),
    Binary(Operator, Box<Self>, Box<Self>),
    If(Box<Self>, Box<Self>, Box<Self>),
    Has(Vec<String>),
    Call(Function, Vec<Self>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Text(String),
    Number(f64),
    Bool(bool),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Plus,
    /// `'key' in request.headers`
    In,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    String,
    Int,
    Size,
    StartsWith,
    EndsWith,
    Contains,
}

/// Who knows the attributes of a request.
pub trait Attributes {
    fn get(&self, path: &[String]) -> Option<Value>;
}

impl Expression {
    pub fn parse(text: &str) -> Result<Self, Error> {
        parse::parse(text)
    }

    /// All attributes that are mentioned.
    pub fn attributes(&self) -> Vec<&[String]> {
        let mut found = Vec::new();
        self.visit(&mut found);
        found
    }

    fn visit<'a>(&'a self, found: &mut Vec<&'a [String]>) {
        match self {
            Self::Literal(_) => {}
            Self::Attribute(path) | Self::Has(path) => found.push(path),
            Self::Not(inner) => inner.visit(found),
            Self::Binary(_, left, right) => {
                left.visit(found);
                right.visit(found);
            }
            Self::If(condition, yes, no) => {
                condition.visit(found);
                yes.visit(found);
                no.visit(found);
            }
            Self::Call(_, arguments) => arguments.iter().for_each(|one| one.visit(found)),
        }
    }

    pub fn evaluate(&self, attributes: &impl Attributes) -> Option<Value> {
        match self {
            Self::Literal(value) => Some(value.clone()),
            Self::Attribute(path) => attributes.get(path),
            Self::Has(path) => Some(Value::Bool(attributes.get(path).is_some())),
            Self::Not(inner) => Some(Value::Bool(!inner.truth(attributes)?)),
            Self::If(condition, yes, no) => match condition.truth(attributes)? {
                true => yes.evaluate(attributes),
                false => no.evaluate(attributes),
            },
            Self::Binary(operator, left, right) => binary(*operator, left, right, attributes),
            Self::Call(function, arguments) => call(*function, arguments, attributes),
        }
    }

    fn truth(&self, attributes: &impl Attributes) -> Option<bool> {
        match self.evaluate(attributes)? {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }
}

fn binary(
    operator: Operator,
    left: &Expression,
    right: &Expression,
    attributes: &impl Attributes,
) -> Option<Value> {
    if let Operator::Or | Operator::And = operator {
        // One side may fail if the other decides, as in CEL.
        let decides = operator == Operator::Or;
        let (a, b) = (left.truth(attributes), right.truth(attributes));
        return match (a, b) {
            (Some(a), _) if a == decides => Some(Value::Bool(decides)),
            (_, Some(b)) if b == decides => Some(Value::Bool(decides)),
            (Some(_), Some(_)) => Some(Value::Bool(!decides)),
            _ => None,
        };
    }
    if operator == Operator::In {
        let (Value::Text(key), Expression::Attribute(path)) = (left.evaluate(attributes)?, right)
        else {
            return None;
        };
        let path = [path.as_slice(), &[key]].concat();
        return Some(Value::Bool(attributes.get(&path).is_some()));
    }
    let (left, right) = (left.evaluate(attributes)?, right.evaluate(attributes)?);
    let order = match (&left, &right) {
        (Value::Text(a), Value::Text(b)) => a.partial_cmp(b),
        (Value::Number(a), Value::Number(b)) => a.partial_cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.partial_cmp(b),
        _ => None,
    };
    Some(Value::Bool(match operator {
        Operator::Equal => left == right,
        Operator::Unequal => left != right,
        Operator::Less => order?.is_lt(),
        Operator::LessOrEqual => order?.is_le(),
        Operator::Greater => order?.is_gt(),
        Operator::GreaterOrEqual => order?.is_ge(),
        Operator::Plus => {
            return match (left, right) {
                (Value::Text(a), Value::Text(b)) => Some(Value::Text(a + &b)),
                (Value::Number(a), Value::Number(b)) => Some(Value::Number(a + b)),
                _ => None,
            };
        }
        Operator::Or | Operator::And | Operator::In => return None,
    }))
}

fn call(
    function: Function,
    arguments: &[Expression],
    attributes: &impl Attributes,
) -> Option<Value> {
    let first = arguments.first()?.evaluate(attributes)?;
    let text = || match &first {
        Value::Text(text) => Some(text.as_str()),
        _ => None,
    };
    let other = || match arguments.get(1)?.evaluate(attributes)? {
        Value::Text(text) => Some(text),
        _ => None,
    };
    Some(match function {
        Function::String => Value::Text(first.to_string()),
        Function::Int => match &first {
            Value::Number(number) => Value::Number(number.trunc()),
            Value::Text(text) => Value::Number(text.parse::<i64>().ok()? as f64),
            Value::Bool(_) => return None,
        },
        Function::Size => Value::Number(text()?.chars().count() as f64),
        Function::StartsWith => Value::Bool(text()?.starts_with(&other()?)),
        Function::EndsWith => Value::Bool(text()?.ends_with(&other()?)),
        Function::Contains => Value::Bool(text()?.contains(&other()?)),
    })
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
            Self::Bool(value) => write!(f, "{value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Known;

    impl Attributes for Known {
        fn get(&self, path: &[String]) -> Option<Value> {
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            Some(match path.as_slice() {
                ["request", "method"] => Value::Text("GET".into()),
                ["request", "headers", "x-user"] => Value::Text("jason".into()),
                ["destination", "port"] => Value::Number(8080.0),
                ["response", "code"] => Value::Number(404.0),
                ["connection", "mtls"] => Value::Bool(true),
                _ => return None,
            })
        }
    }

    fn value(text: &str) -> Option<String> {
        let parsed = Expression::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        parsed.evaluate(&Known).map(|value| value.to_string())
    }

    #[test]
    fn expressions_of_the_documentation_have_the_values_people_expect() {
        let cases = [
            ("request.method", Some("GET")),
            ("string(destination.port)", Some("8080")),
            ("request.headers['x-user']", Some("jason")),
            ("request.headers[\"nope\"]", None),
            ("has(request.host) ? request.host : 'none'", Some("none")),
            ("'x-user' in request.headers ? 'in' : 'out'", Some("in")),
            ("response.code >= 400 && response.code < 500 ? '4xx' : 'ok'", Some("4xx")),
            ("connection.mtls", Some("true")),
            ("!connection.mtls || request.nope == 'x'", None),
            ("connection.mtls || request.nope == 'x'", Some("true")),
            ("request.method + '-' + request.headers['x-user']", Some("GET-jason")),
            ("request.method.startsWith('G')", Some("true")),
            ("request.method == \"POST\"", Some("false")),
            ("size(request.method) == 3", Some("true")),
            ("(1 + 2) * 1", None),
        ];
        for (text, wanted) in cases {
            if text.contains('*') {
                assert!(Expression::parse(text).is_err());
            } else {
                assert_eq!(value(text).as_deref(), wanted, "{text}");
            }
        }
    }

    #[test]
    fn mistakes_are_said_with_their_place() {
        for bad in ["", "request.", "a b", "'open", "f(x)", "a ? b", "a.matches('x')", "[1]"] {
            assert!(Expression::parse(bad).is_err(), "{bad}");
        }
        let error = Expression::parse("request.method ==").unwrap_err();
        assert!(error.to_string().contains("17"), "{error}");
    }

    #[test]
    fn all_attributes_are_named() {
        let parsed = Expression::parse("has(a.b) ? c['d'] : string(e) + f.g").unwrap();
        let named: Vec<String> = parsed.attributes().iter().map(|path| path.join(".")).collect();
        assert_eq!(named, ["a.b", "c.d", "e", "f.g"]);
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_parser(text in ".{0,120}", odd in "[()a.'\\[\\]!&|?: ]{0,200}") {
            for text in [text, odd] {
                if let Ok(parsed) = Expression::parse(&text) {
                    let _ = parsed.evaluate(&Known);
                }
            }
        }
    }
}
