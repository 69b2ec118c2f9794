//! Template text to tokens: text, delimiters with their trim marks, and the words between them.
//!
//! The first thing that cannot be read becomes an `Error` token, and nothing follows it.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Error,
    End,
    Text,
    LeftDelim,
    RightDelim,
    LeftParen,
    RightParen,
    Space,
    Pipe,
    Assign,
    Declare,
    /// Any other single character, such as the comma of `$i, $x`.
    Other,
    Bool,
    Number,
    Character,
    Quoted,
    RawQuoted,
    Dot,
    Nil,
    Field,
    Variable,
    Identifier,
    Word(Word),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Range,
    Template,
    With,
}

#[derive(Clone, Debug)]
pub(crate) struct Token<'t> {
    pub(crate) kind: Kind,
    pub(crate) pos: usize,
    pub(crate) line: usize,
    pub(crate) text: std::borrow::Cow<'t, str>,
}

/// As error messages show a token.
impl fmt::Display for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::End => f.write_str("EOF"),
            Kind::Error => f.write_str(&self.text),
            Kind::Word(_) | Kind::Dot | Kind::Nil => write!(f, "<{}>", self.text),
            _ if self.text.chars().count() > 10 => {
                let start: String = self.text.chars().take(10).collect();
                write!(f, "{}...", crate::format::quote::double(&start))
            }
            _ => f.write_str(&crate::format::quote::double(&self.text)),
        }
    }
}

/// The tokens of `text`; the last one is `End` or `Error`.
pub(crate) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer { input: text, pos: 0, start: 0, counted: 0, line: 1, tokens: vec![] };
    let last = lexer.outside();
    if let Err(problem) = last {
        let (pos, line) = (lexer.start, lexer.line_of_start());
        lexer.tokens.push(Token { kind: Kind::Error, pos, line, text: problem.into() });
    } else {
        lexer.start = lexer.pos;
        lexer.emit(Kind::End);
    }
    lexer.tokens
}

struct Lexer<'t> {
    input: &'t str,
    pos: usize,
    start: usize,
    /// Newlines are counted up to here: `line` is the line of this place.
    counted: usize,
    line: usize,
    tokens: Vec<Token<'t>>,
}

const LEFT: &str = "{{";
const RIGHT: &str = "}}";

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        &self.input[self.pos..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.pos += c.len_utf8();
        Some(c)
    }

    fn line_of_start(&mut self) -> usize {
        self.line += self.input[self.counted..self.start].matches('\n').count();
        self.counted = self.start;
        self.line
    }

    fn emit(&mut self, kind: Kind) {
        let line = self.line_of_start();
        let text = self.input[self.start..self.pos].into();
        self.tokens.push(Token { kind, pos: self.start, line, text });
        self.start = self.pos;
    }

    fn skip(&mut self, bytes: usize) {
        self.pos += bytes;
        self.start = self.pos;
    }

    /// Text up to the end, with the actions in it.
    fn outside(&mut self) -> Result<(), String> {
        while let Some(found) = self.rest().find(LEFT) {
            let after = &self.rest()[found + LEFT.len()..];
            let trims = trims_left(after);
            let text = &self.rest()[..found];
            let kept = if trims { text.trim_end_matches(is_space).len() } else { found };
            self.pos += kept;
            if kept > 0 {
                self.emit(Kind::Text);
            }
            self.skip(found - kept);
            let mark = if trims { 2 } else { 0 };
            if after[mark..].starts_with("/*") {
                self.skip(LEFT.len() + mark);
                self.comment()?;
            } else {
                self.pos += LEFT.len();
                self.emit(Kind::LeftDelim);
                self.skip(mark);
                self.action()?;
            }
        }
        self.pos = self.input.len();
        if self.pos > self.start {
            self.emit(Kind::Text);
        }
        Ok(())
    }

    fn comment(&mut self) -> Result<(), String> {
        let end = self.rest()[2..].find("*/").ok_or("unclosed comment")?;
        self.pos += 2 + end + 2;
        let mark = self.right_delim().ok_or("comment ends before closing delimiter")?;
        self.skip(mark + RIGHT.len());
        self.trim_after(mark);
        Ok(())
    }

    /// The length of the trim mark when a right delimiter is here.
    fn right_delim(&self) -> Option<usize> {
        let rest = self.rest();
        let marked = rest.starts_with(is_space) && rest[1..].starts_with("-}}");
        if marked {
            return Some(2);
        }
        rest.starts_with(RIGHT).then_some(0)
    }

    fn trim_after(&mut self, mark: usize) {
        if mark > 0 {
            let rest = self.rest();
            self.skip(rest.len() - rest.trim_start_matches(is_space).len());
        }
    }

    fn action(&mut self) -> Result<(), String> {
        let mut parens = 0_usize;
        loop {
            if let Some(mark) = self.right_delim() {
                if parens > 0 {
                    return Err("unclosed left paren".to_owned());
                }
                self.skip(mark);
                self.pos += RIGHT.len();
                self.emit(Kind::RightDelim);
                self.trim_after(mark);
                return Ok(());
            }
            let c = self.bump().ok_or("unclosed action")?;
            match c {
                '(' => parens += 1,
                ')' => parens = parens.checked_sub(1).ok_or("unexpected right paren")?,
                _ => {}
            }
            let kind = self.word(c)?;
            self.emit(kind);
        }
    }

    /// The rest of the token that starts with `c`, which is consumed.
    fn word(&mut self, c: char) -> Result<Kind, String> {
        Ok(match c {
            _ if is_space(c) => self.space(),
            '=' => Kind::Assign,
            ':' => {
                if self.bump() != Some('=') {
                    return Err("expected :=".to_owned());
                }
                Kind::Declare
            }
            '|' => Kind::Pipe,
            '(' => Kind::LeftParen,
            ')' => Kind::RightParen,
            '"' => self.quoted('"', "quoted string", Kind::Quoted)?,
            '\'' => self.quoted('\'', "character constant", Kind::Character)?,
            '`' => {
                let end = self.rest().find('`').ok_or("unterminated raw quoted string")?;
                self.pos += end + 1;
                Kind::RawQuoted
            }
            '$' => self.name(Kind::Variable, Kind::Variable)?,
            '.' if !self.rest().starts_with(|c: char| c.is_ascii_digit()) => {
                self.name(Kind::Field, Kind::Dot)?
            }
            '.' | '+' | '-' | '0'..='9' => self.number()?,
            _ if is_alphanumeric(c) => self.identifier()?,
            ' '..='~' => Kind::Other,
            _ => return Err(format!("unrecognized character in action: {}", code_point(c))),
        })
    }

    fn space(&mut self) -> Kind {
        while self.peek().is_some_and(is_space) {
            self.pos += 1;
        }
        // The last space may belong to a trim mark.
        if self.rest().starts_with("-}}") && self.pos - self.start > 1 {
            self.pos -= 1;
        }
        Kind::Space
    }

    fn quoted(&mut self, end: char, what: &str, kind: Kind) -> Result<Kind, String> {
        loop {
            let c = match self.bump() {
                Some('\\') => self.bump().filter(|c| *c != '\n').map(|_| '\\'),
                other => other.filter(|c| *c != '\n'),
            };
            match c {
                Some(c) if c == end => return Ok(kind),
                Some(_) => {}
                None => return Err(format!("unterminated {what}")),
            }
        }
    }

    /// A field or variable whose first character is consumed; `bare` when no name follows it.
    fn name(&mut self, named: Kind, bare: Kind) -> Result<Kind, String> {
        if self.at_terminator() {
            return Ok(bare);
        }
        self.alphanumerics();
        self.expect_terminator()?;
        Ok(named)
    }

    fn identifier(&mut self) -> Result<Kind, String> {
        self.alphanumerics();
        self.expect_terminator()?;
        Ok(match &self.input[self.start..self.pos] {
            "true" | "false" => Kind::Bool,
            "nil" => Kind::Nil,
            "block" => Kind::Word(Word::Block),
            "break" => Kind::Word(Word::Break),
            "continue" => Kind::Word(Word::Continue),
            "define" => Kind::Word(Word::Define),
            "else" => Kind::Word(Word::Else),
            "end" => Kind::Word(Word::End),
            "if" => Kind::Word(Word::If),
            "range" => Kind::Word(Word::Range),
            "template" => Kind::Word(Word::Template),
            "with" => Kind::Word(Word::With),
            _ => Kind::Identifier,
        })
    }

    fn alphanumerics(&mut self) {
        while self.peek().is_some_and(is_alphanumeric) {
            self.bump();
        }
    }

    fn at_terminator(&self) -> bool {
        match self.peek() {
            None | Some('.' | ',' | '|' | ':' | ')' | '(') => true,
            Some(c) => is_space(c) || self.rest().starts_with(RIGHT),
        }
    }

    fn expect_terminator(&self) -> Result<(), String> {
        match self.peek() {
            Some(c) if !self.at_terminator() => Err(format!("bad character {}", code_point(c))),
            _ => Ok(()),
        }
    }

    fn number(&mut self) -> Result<Kind, String> {
        self.pos = self.start;
        let good = self.scan_number();
        // What follows decides between a number and a complex one, which no template needs.
        if good && !matches!(self.peek(), Some('+' | '-' | 'i')) {
            return Ok(Kind::Number);
        }
        let text = crate::format::quote::double(&self.input[self.start..self.pos]);
        Err(format!("bad number syntax: {text}"))
    }

    fn scan_number(&mut self) -> bool {
        self.accept("+-");
        let mut digits = "0123456789_";
        if self.accept("0") {
            if self.accept("xX") {
                digits = "0123456789abcdefABCDEF_";
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        let exponent = if digits.len() == 11 { "eE" } else { "pP" };
        if matches!(digits.len(), 11 | 23) && self.accept(exponent) {
            self.accept("+-");
            self.accept_run("0123456789_");
        }
        if self.peek().is_some_and(is_alphanumeric) {
            self.bump();
            return false;
        }
        true
    }

    fn accept(&mut self, set: &str) -> bool {
        let yes = self.peek().is_some_and(|c| set.contains(c));
        if yes {
            self.pos += 1;
        }
        yes
    }

    fn accept_run(&mut self, set: &str) {
        while self.accept(set) {}
    }
}

fn trims_left(after: &str) -> bool {
    after.strip_prefix('-').is_some_and(|rest| rest.starts_with(is_space))
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

pub(crate) fn is_alphanumeric(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn code_point(c: char) -> String {
    format!("U+{:04X} '{c}'", u32::from(c))
}
