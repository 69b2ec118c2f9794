//! The parser: by descent, bounded in length and depth.

use super::{Expression, Function, Operator, Value};

/// Longer expressions are refused.
const MOST_BYTES: usize = 4096;
/// Deeper ones too.
const MOST_DEPTH: usize = 32;

/// Where and why a text is no expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// In bytes.
    pub at: usize,
    pub reason: String,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "at {}: {}", self.at, self.reason)
    }
}

impl std::error::Error for Error {}

pub(super) fn parse(text: &str) -> Result<Expression, Error> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    if text.len() > MOST_BYTES {
        return Err(parser.error(format!("longer than {MOST_BYTES} bytes")));
    }
    let parsed = parser.ternary()?;
    parser.space();
    match parser.at == text.len() {
        true => Ok(parsed),
        false => Err(parser.error("not supported here, or not part of the expression")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

/// By strength, weakest first.
const LEVELS: [&[(&str, Operator)]; 4] = [
    &[("||", Operator::Or)],
    &[("&&", Operator::And)],
    &[
        ("==", Operator::Equal),
        ("!=", Operator::Unequal),
        ("<=", Operator::LessOrEqual),
        (">=", Operator::GreaterOrEqual),
        ("<", Operator::Less),
        (">", Operator::Greater),
        ("in ", Operator::In),
    ],
    &[("+", Operator::Plus)],
];

impl<'a> Parser<'a> {
    fn error(&self, reason: impl Into<String>) -> Error {
        Error { at: self.at, reason: reason.into() }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn take(&mut self, token: &str) -> bool {
        self.space();
        let there = self.rest().starts_with(token);
        if there {
            self.at += token.len();
        }
        there
    }

    fn want(&mut self, token: &str) -> Result<(), Error> {
        match self.take(token) {
            true => Ok(()),
            false => Err(self.error(format!("{token:?} is missing"))),
        }
    }

    fn ternary(&mut self) -> Result<Expression, Error> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err(self.error(format!("nested deeper than {MOST_DEPTH}")));
        }
        let condition = self.level(0)?;
        let parsed = if self.take("?") {
            let yes = self.ternary()?;
            self.want(":")?;
            let no = self.ternary()?;
            Expression::If(Box::new(condition), Box::new(yes), Box::new(no))
        } else {
            condition
        };
        self.depth -= 1;
        Ok(parsed)
    }

    fn level(&mut self, level: usize) -> Result<Expression, Error> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.level(level + 1)?;
        let mut chained = 0;
        while let Some((_, operator)) = operators.iter().find(|(token, _)| self.take(token)) {
            chained += 1;
            if chained > MOST_DEPTH {
                return Err(self.error("too many operators in a row"));
            }
            let right = self.level(level + 1)?;
            left = Expression::Binary(*operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expression, Error> {
        let mut negations = 0;
        while self.take("!") {
            negations += 1;
        }
        let mut parsed = self.postfix()?;
        if negations % 2 == 1 {
            parsed = Expression::Not(Box::new(parsed));
        }
        Ok(parsed)
    }

    fn postfix(&mut self) -> Result<Expression, Error> {
        let mut parsed = self.primary()?;
        loop {
            if self.take(".") {
                let name = self.name()?;
                if self.take("(") {
                    let function = match name {
                        "startsWith" => Function::StartsWith,
                        "endsWith" => Function::EndsWith,
                        "contains" => Function::Contains,
                        "size" => Function::Size,
                        _ => return Err(self.error(format!("{name}() is not supported yet"))),
                    };
                    let mut arguments = vec![parsed];
                    arguments.extend(self.arguments()?);
                    let wanted = if function == Function::Size { 1 } else { 2 };
                    if arguments.len() != wanted {
                        return Err(self.error(format!("{name}() has the wrong arguments")));
                    }
                    parsed = Expression::Call(function, arguments);
                    continue;
                }
                parsed = self.under(parsed, name.to_owned())?;
            } else if self.take("[") {
                self.space();
                let Expression::Literal(Value::Text(key)) = self.primary()? else {
                    return Err(self.error("only a text can stand in brackets"));
                };
                self.want("]")?;
                parsed = self.under(parsed, key)?;
            } else {
                return Ok(parsed);
            }
        }
    }

    fn under(&self, parsed: Expression, key: String) -> Result<Expression, Error> {
        match parsed {
            Expression::Attribute(mut path) if path.len() < 16 => {
                path.push(key);
                Ok(Expression::Attribute(path))
            }
            _ => Err(self.error("only attributes have fields")),
        }
    }

    fn arguments(&mut self) -> Result<Vec<Expression>, Error> {
        let mut found = Vec::new();
        if self.take(")") {
            return Ok(found);
        }
        loop {
            found.push(self.ternary()?);
            if self.take(")") {
                return Ok(found);
            }
            self.want(",")?;
            if found.len() > 8 {
                return Err(self.error("too many arguments"));
            }
        }
    }

    fn primary(&mut self) -> Result<Expression, Error> {
        self.space();
        let Some(first) = self.rest().chars().next() else {
            return Err(self.error("a value is missing"));
        };
        match first {
            '(' => {
                self.at += 1;
                let inner = self.ternary()?;
                self.want(")")?;
                Ok(inner)
            }
            '\'' | '"' => self.text_literal(first),
            '0'..='9' | '-' => self.number(),
            _ => self.word(),
        }
    }

    fn text_literal(&mut self, quote: char) -> Result<Expression, Error> {
        self.at += 1;
        let mut text = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((i, c)) = chars.next() {
            if c == quote {
                self.at += i + 1;
                return Ok(Expression::Literal(Value::Text(text)));
            }
            match c {
                '\\' => match chars.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, c @ ('\\' | '\'' | '"'))) => text.push(c),
                    _ => return Err(self.error("an escape that is not known")),
                },
                c => text.push(c),
            }
        }
        Err(self.error("the text has no end"))
    }

    fn number(&mut self) -> Result<Expression, Error> {
        let rest = self.rest();
        let end = rest
            .char_indices()
            .find(|(i, c)| !(c.is_ascii_digit() || *c == '.' || (*i == 0 && *c == '-')))
            .map_or(rest.len(), |(i, _)| i);
        let number = rest[..end].parse().map_err(|_| self.error("not a number"))?;
        self.at += end;
        Ok(Expression::Literal(Value::Number(number)))
    }

    fn name(&mut self) -> Result<&'a str, Error> {
        self.space();
        let rest = self.rest();
        let end = rest
            .char_indices()
            .find(|(i, c)| {
                !(c.is_ascii_alphabetic() || *c == '_' || (*i > 0 && c.is_ascii_digit()))
            })
            .map_or(rest.len(), |(i, _)| i);
        if end == 0 {
            return Err(self.error("a name is missing"));
        }
        self.at += end;
        Ok(&rest[..end])
    }

    fn word(&mut self) -> Result<Expression, Error> {
        let name = self.name()?;
        match name {
            "true" | "false" => return Ok(Expression::Literal(Value::Bool(name == "true"))),
            _ => {}
        }
        if !self.take("(") {
            return Ok(Expression::Attribute(vec![name.to_owned()]));
        }
        let mut arguments = self.arguments()?;
        if arguments.len() != 1 {
            return Err(self.error(format!("{name}() takes one argument")));
        }
        if name == "has" {
            return match arguments.remove(0) {
                Expression::Attribute(path) => Ok(Expression::Has(path)),
                _ => Err(self.error("has() takes an attribute")),
            };
        }
        let function = match name {
            "string" => Function::String,
            "int" => Function::Int,
            "size" => Function::Size,
            _ => return Err(self.error(format!("{name}() is not supported yet"))),
        };
        Ok(Expression::Call(function, arguments))
    }
}
