//! What a template consists of, with the place of each part and the text errors show for it.

use std::fmt;
use std::sync::Arc;

use crate::literal::Number;

/// One named template.
#[derive(Debug)]
pub(crate) struct Tree {
    pub(crate) name: String,
    /// The name and text of what was parsed, for places in errors.
    pub(crate) file: Arc<str>,
    pub(crate) text: Arc<str>,
    pub(crate) nodes: Vec<Node>,
}

#[derive(Debug)]
pub(crate) enum Node {
    Text(String),
    Action(Pipe),
    If(Branch),
    With(Branch),
    Range(Branch),
    Template(Call),
    Break,
    Continue,
}

#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) pipe: Pipe,
    pub(crate) body: Vec<Node>,
    pub(crate) otherwise: Vec<Node>,
}

/// `{{template "name" pipe}}`.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) pos: usize,
    pub(crate) name: String,
    pub(crate) pipe: Option<Pipe>,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) pos: usize,
    pub(crate) declared: Vec<String>,
    /// `=` instead of `:=`.
    pub(crate) assigns: bool,
    pub(crate) commands: Vec<Command>,
}

/// A value, or a function or method with its arguments. There is always a first one.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) pos: usize,
    pub(crate) args: Vec<Expr>,
}

#[derive(Debug)]
pub(crate) struct Expr {
    pub(crate) pos: usize,
    pub(crate) kind: ExprKind,
}

#[derive(Debug)]
pub(crate) enum ExprKind {
    Dot,
    Nil,
    Bool(bool),
    Number(Number),
    Text {
        value: String,
        quoted: String,
    },
    /// `.a.b`
    Field(Vec<String>),
    /// `$x.a.b`
    Variable(String, Vec<String>),
    Function(String),
    /// `(…)`
    Pipe(Box<Pipe>),
    /// `(…).a.b`
    Chain(Box<Expr>, Vec<String>),
}

impl Tree {
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.iter().all(|node| matches!(node, Node::Text(t) if t.trim().is_empty()))
    }

    /// Line from 1 and column from 0 of a place in the text.
    pub(crate) fn place(&self, pos: usize) -> (usize, usize) {
        let before = &self.text[..pos];
        let column = pos - before.rfind('\n').map_or(0, |newline| newline + 1);
        (1 + before.matches('\n').count(), column)
    }
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.declared.is_empty() {
            let sign = if self.assigns { "=" } else { ":=" };
            write!(f, "{} {sign} ", self.declared.join(", "))?;
        }
        for (i, command) in self.commands.iter().enumerate() {
            write!(f, "{}{command}", if i > 0 { " | " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, arg) in self.args.iter().enumerate() {
            write!(f, "{}{arg}", if i > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = |f: &mut fmt::Formatter<'_>, names: &[String]| {
            names.iter().try_for_each(|name| write!(f, ".{name}"))
        };
        match &self.kind {
            ExprKind::Dot => f.write_str("."),
            ExprKind::Nil => f.write_str("nil"),
            ExprKind::Bool(b) => write!(f, "{b}"),
            ExprKind::Number(number) => f.write_str(&number.text),
            ExprKind::Text { quoted, .. } => f.write_str(quoted),
            ExprKind::Field(names) => fields(f, names),
            ExprKind::Variable(name, names) => {
                f.write_str(name)?;
                fields(f, names)
            }
            ExprKind::Function(name) => f.write_str(name),
            ExprKind::Pipe(pipe) => write!(f, "({pipe})"),
            ExprKind::Chain(inner, names) => {
                write!(f, "{inner}")?;
                fields(f, names)
            }
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{{template {}", crate::format::quote::double(&self.name))?;
        if let Some(pipe) = &self.pipe {
            write!(f, " {pipe}")?;
        }
        f.write_str("}}")
    }
}
