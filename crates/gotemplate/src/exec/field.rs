//! Fields: `.a.b`, `$x.a`, `(…).a`, and methods that the caller of the crate provides.

use super::{Frame, Operand, Stop};
use crate::node::Expr;
use crate::templates::MissingKey;
use crate::value::{Elem, Value};

/// What follows a field: arguments for a method.
pub(super) struct Given<'a, 't> {
    pub(super) args: &'t [Expr],
    pub(super) last: Option<&'a Operand>,
}

impl Given<'_, '_> {
    pub(super) const NONE: Given<'static, 'static> = Given { args: &[], last: None };

    fn is_empty(&self) -> bool {
        self.args.is_empty() && self.last.is_none()
    }
}

impl<'t> Frame<'_, 't, '_> {
    /// `names` one after the other, starting at `receiver`; only the last may take arguments.
    pub(super) fn fields(
        &mut self,
        dot: &Operand,
        mut receiver: Operand,
        names: &'t [String],
        given: &Given<'_, 't>,
    ) -> Result<Operand, Stop> {
        let Some((last, first)) = names.split_last() else { return Ok(receiver) };
        for name in first {
            receiver = self.field(dot, &receiver, name, &Given::NONE)?;
        }
        self.field(dot, &receiver, last, given)
    }

    fn field(
        &mut self,
        dot: &Operand,
        receiver: &Operand,
        name: &str,
        given: &Given<'_, 't>,
    ) -> Result<Operand, Stop> {
        self.spend(1)?;
        if let Operand::Invalid = receiver {
            if self.run.templates.missing() == MissingKey::Error {
                let name = crate::format::quote::double(name);
                return self.fail(format!("nil data; no entry for key {name}"));
            }
            return Ok(Operand::Invalid);
        }
        let found = receiver.value().and_then(Value::as_map).and_then(|map| map.get(name));
        if (found.is_none() || !given.is_empty()) && self.run.templates.functions().has_methods() {
            let called = self.method(dot, receiver, name, given)?;
            if let Some(value) = called {
                return Ok(Operand::result(value));
            }
        }
        let Some(value) = receiver.value() else {
            return self.fail(format!("nil pointer evaluating interface {{}}.{name}"));
        };
        let Value::Map(map) = value else {
            let kind = receiver.type_name();
            return self.fail(format!("can't evaluate field {name} in type {kind}"));
        };
        if !given.is_empty() {
            return self.fail(format!("{name} is not a method but has arguments"));
        }
        match (found, self.run.templates.missing()) {
            (Some(value), _) => Ok(Operand::element(value, map.elem() == Elem::Any)),
            (None, MissingKey::Default) => Ok(Operand::Invalid),
            (None, MissingKey::Zero) => Ok(zero(map.elem())),
            (None, MissingKey::Error) => {
                let name = crate::format::quote::double(name);
                self.fail(format!("map has no entry for key {name}"))
            }
        }
    }

    /// The caller's method of this name, if it has one for the receiver.
    fn method(
        &mut self,
        dot: &Operand,
        receiver: &Operand,
        name: &str,
        given: &Given<'_, 't>,
    ) -> Result<Option<Value>, Stop> {
        let mut args = Vec::new();
        for arg in given.args {
            args.push(self.any_arg(dot, arg)?);
        }
        if let Some(last) = given.last {
            args.push(last.value().cloned().unwrap_or_default());
        }
        let receiver = receiver.value().cloned().unwrap_or_default();
        match self.run.templates.functions().method(&receiver, name, &args) {
            None => Ok(None),
            Some(Ok(value)) => Ok(Some(value)),
            Some(Err(fault)) => {
                let text = format!("error calling {name}: {}", fault.message());
                self.fail(text)
            }
        }
    }
}

fn zero(elem: Elem) -> Operand {
    match elem {
        Elem::Any => Operand::Held(Value::Nil),
        Elem::Str => Operand::Bare(Value::from("")),
        Elem::Int => Operand::Bare(Value::Int(0)),
    }
}
