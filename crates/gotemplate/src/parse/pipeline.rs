//! What stands between delimiters: declarations, commands and their operands.

use super::{Parsed, Parser};
use crate::format::quote;
use crate::lex::Kind;
use crate::literal::{number, unquote};
use crate::node::{Command, Expr, ExprKind, Pipe};

impl Parser<'_> {
    /// Up to and with `end`.
    pub(super) fn pipeline(&mut self, context: &str, end: Kind) -> Parsed<Pipe> {
        let pos = self.peek_word().pos;
        let mut pipe = Pipe { pos, declared: vec![], assigns: false, commands: vec![] };
        self.declarations(context, &mut pipe)?;
        loop {
            let token = self.take_word();
            match token.kind {
                kind if kind == end => break,
                Kind::Bool
                | Kind::Character
                | Kind::Dot
                | Kind::Field
                | Kind::Identifier
                | Kind::Number
                | Kind::Nil
                | Kind::RawQuoted
                | Kind::Quoted
                | Kind::Variable
                | Kind::LeftParen => {
                    self.back();
                    let command = self.command()?;
                    pipe.commands.push(command);
                }
                _ => return Err(self.unexpected(&token, context)),
            }
        }
        check(&pipe, context)?;
        Ok(pipe)
    }

    /// `$x :=`, `$x =`, and for `range` also `$i, $x :=`; nothing is read when there is none.
    fn declarations(&mut self, context: &str, pipe: &mut Pipe) -> Parsed<()> {
        loop {
            self.skip_space();
            let before = self.next;
            let variable = self.take();
            if variable.kind != Kind::Variable {
                self.next = before;
                return Ok(());
            }
            let follows = self.take_word();
            let comma = follows.kind == Kind::Other && follows.text == ",";
            let declares = matches!(follows.kind, Kind::Assign | Kind::Declare);
            if !comma && !declares {
                self.next = before;
                return Ok(());
            }
            pipe.declared.push(variable.text.to_string());
            self.scope.variables.push(variable.text.into_owned());
            if declares {
                pipe.assigns = follows.kind == Kind::Assign;
                return Ok(());
            }
            if context != "range" || pipe.declared.len() > 1 {
                return Err(format!("too many declarations in {context}"));
            }
            let next = self.peek_word().kind;
            if !matches!(next, Kind::Variable | Kind::RightDelim | Kind::RightParen) {
                return Err("range can only initialize variables".to_owned());
            }
        }
    }

    fn command(&mut self) -> Parsed<Command> {
        let mut command = Command { pos: self.peek_word().pos, args: vec![] };
        loop {
            self.skip_space();
            if let Some(operand) = self.operand()? {
                command.args.push(operand);
            }
            let token = self.take();
            match token.kind {
                Kind::Space => continue,
                Kind::RightDelim | Kind::RightParen => self.back(),
                Kind::Pipe => {}
                _ => return Err(self.unexpected(&token, "operand")),
            }
            break;
        }
        if command.args.is_empty() {
            return Err("empty command".to_owned());
        }
        Ok(command)
    }

    /// A term with the fields that follow it; nothing when no term is next.
    fn operand(&mut self) -> Parsed<Option<Expr>> {
        let Some(term) = self.term()? else { return Ok(None) };
        if self.peek().kind != Kind::Field {
            return Ok(Some(term));
        }
        // Errors point at the first field that follows.
        let pos = self.peek().pos;
        let mut names = Vec::new();
        while self.peek().kind == Kind::Field {
            names.push(self.take().text[1..].to_owned());
        }
        let kind = match term.kind {
            ExprKind::Field(mut first) => {
                first.append(&mut names);
                ExprKind::Field(first)
            }
            ExprKind::Variable(name, mut first) => {
                first.append(&mut names);
                ExprKind::Variable(name, first)
            }
            ExprKind::Function(_) | ExprKind::Pipe(_) | ExprKind::Chain(..) => {
                ExprKind::Chain(Box::new(term), names)
            }
            _ => {
                let term = quote::double(&term.to_string());
                return Err(format!("unexpected . after term {term}"));
            }
        };
        Ok(Some(Expr { pos, kind }))
    }

    fn term(&mut self) -> Parsed<Option<Expr>> {
        let token = self.take_word();
        let kind = match token.kind {
            Kind::Identifier => {
                if !(self.knows)(&token.text) {
                    return Err(format!("function {} not defined", quote::double(&token.text)));
                }
                ExprKind::Function(token.text.into_owned())
            }
            Kind::Dot => ExprKind::Dot,
            Kind::Nil => ExprKind::Nil,
            Kind::Variable => {
                if !self.scope.variables.iter().any(|name| *name == token.text) {
                    return Err(format!("undefined variable {}", quote::double(&token.text)));
                }
                ExprKind::Variable(token.text.into_owned(), vec![])
            }
            Kind::Field => ExprKind::Field(vec![token.text[1..].to_owned()]),
            Kind::Bool => ExprKind::Bool(token.text == "true"),
            Kind::Character | Kind::Number => ExprKind::Number(number(&token.text)?),
            Kind::LeftParen => {
                let pipe = self
                    .deeper(|parser| parser.pipeline("parenthesized pipeline", Kind::RightParen))?;
                return Ok(Some(Expr { pos: pipe.pos, kind: ExprKind::Pipe(Box::new(pipe)) }));
            }
            Kind::Quoted | Kind::RawQuoted => {
                let value = unquote(&token.text).ok_or("invalid syntax")?;
                ExprKind::Text { value, quoted: token.text.into_owned() }
            }
            _ => {
                self.back();
                return Ok(None);
            }
        };
        Ok(Some(Expr { pos: token.pos, kind }))
    }
}

fn check(pipe: &Pipe, context: &str) -> Parsed<()> {
    if pipe.commands.is_empty() {
        return Err(format!("missing value for {context}"));
    }
    for (i, command) in pipe.commands.iter().enumerate().skip(1) {
        let fixed = matches!(
            command.args.first().map(|arg| &arg.kind),
            Some(
                ExprKind::Bool(_)
                    | ExprKind::Dot
                    | ExprKind::Nil
                    | ExprKind::Number(_)
                    | ExprKind::Text { .. }
            )
        );
        if fixed {
            return Err(format!("non executable command in pipeline stage {}", i + 1));
        }
    }
    Ok(())
}
