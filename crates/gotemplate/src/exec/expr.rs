//! Pipelines, commands and arguments to values.

use super::field::Given;
use super::{At, Frame, Operand, Stop};
use crate::error::Fault;
use crate::functions::{Function, Param};
use crate::literal::Number;
use crate::node::{Command, Expr, ExprKind, Pipe};
use crate::value::{Elem, Value};

impl<'t> Frame<'_, 't, '_> {
    /// The value of a pipeline. Its variables stay until the end of the block around it.
    pub(super) fn pipeline(&mut self, dot: &Operand, pipe: &'t Pipe) -> Result<Operand, Stop> {
        self.at = At::Pipe(pipe);
        let mut last: Option<Operand> = None;
        for command in &pipe.commands {
            let value = self.deeper(|frame| frame.command(dot, command, last.as_ref()))?;
            last = Some(value.opened());
        }
        let value = last.unwrap_or(Operand::Invalid);
        for name in &pipe.declared {
            if pipe.assigns {
                self.assign(name, value.clone())?;
            } else {
                self.variables.push((name, value.clone()));
            }
        }
        Ok(value)
    }

    fn command(
        &mut self,
        dot: &Operand,
        command: &'t Command,
        last: Option<&Operand>,
    ) -> Result<Operand, Stop> {
        self.spend(1)?;
        let Some((first, args)) = command.args.split_first() else { return Ok(Operand::Invalid) };
        let given = Given { args, last };
        match &first.kind {
            ExprKind::Field(names) => {
                self.at = At::Expr(first);
                self.fields(dot, dot.clone(), names, &given)
            }
            ExprKind::Chain(inner, names) => self.chain(dot, first, inner, names, &given),
            ExprKind::Function(name) => {
                self.at = At::Expr(first);
                self.function(dot, name, At::Command(command), &given)
            }
            ExprKind::Variable(name, names) => self.variable(dot, first, name, names, &given),
            ExprKind::Pipe(pipe) => {
                self.no_arguments(first, &given)?;
                self.pipeline(dot, pipe)
            }
            constant => {
                self.at = At::Expr(first);
                self.no_arguments(first, &given)?;
                match constant {
                    ExprKind::Nil => self.fail("nil is not a command"),
                    ExprKind::Dot => Ok(dot.clone()),
                    constant => Ok(Operand::from(ideal(constant))),
                }
            }
        }
    }

    fn no_arguments(&self, first: &Expr, given: &Given<'_, '_>) -> Result<(), Stop> {
        if given.args.is_empty() && given.last.is_none() {
            return Ok(());
        }
        self.fail(format!("can't give argument to non-function {first}"))
    }

    fn variable(
        &mut self,
        dot: &Operand,
        expr: &'t Expr,
        name: &str,
        names: &'t [String],
        given: &Given<'_, 't>,
    ) -> Result<Operand, Stop> {
        self.at = At::Expr(expr);
        let known = self.variables.iter().rev().find(|(known, _)| *known == name);
        let Some(value) = known.map(|(_, value)| value.clone()) else {
            return self.fail(format!("undefined variable: {name}"));
        };
        if names.is_empty() {
            self.no_arguments(expr, given)?;
        }
        self.fields(dot, value, names, given)
    }

    fn chain(
        &mut self,
        dot: &Operand,
        expr: &'t Expr,
        inner: &'t Expr,
        names: &'t [String],
        given: &Given<'_, 't>,
    ) -> Result<Operand, Stop> {
        self.at = At::Expr(expr);
        let receiver = self.operand(dot, inner)?;
        self.fields(dot, receiver, names, given)
    }

    /// An expression that is not a literal.
    fn operand(&mut self, dot: &Operand, expr: &'t Expr) -> Result<Operand, Stop> {
        self.at = At::Expr(expr);
        match &expr.kind {
            ExprKind::Field(names) => self.fields(dot, dot.clone(), names, &Given::NONE),
            ExprKind::Variable(name, names) => self.variable(dot, expr, name, names, &Given::NONE),
            ExprKind::Pipe(pipe) => self.deeper(|frame| frame.pipeline(dot, pipe)),
            ExprKind::Function(name) => self.function(dot, name, At::Expr(expr), &Given::NONE),
            ExprKind::Chain(inner, names) => self.chain(dot, expr, inner, names, &Given::NONE),
            ExprKind::Dot => Ok(dot.clone()),
            literal => Ok(Operand::from(ideal(literal))),
        }
    }

    pub(super) fn any_arg(&mut self, dot: &Operand, expr: &'t Expr) -> Result<Value, Stop> {
        self.arg(dot, Param::Any, expr)
    }

    /// An argument for a parameter of this type.
    fn arg(&mut self, dot: &Operand, param: Param, expr: &'t Expr) -> Result<Value, Stop> {
        self.at = At::Expr(expr);
        match &expr.kind {
            ExprKind::Nil if param.takes_nil() => Ok(Value::Nil),
            ExprKind::Nil => self.fail(format!("cannot assign nil to {}", param.name())),
            ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::Text { .. } => {
                match literal(&expr.kind, param) {
                    Some(value) => Ok(value),
                    None => self.fail(param.refusal(&expr.to_string())),
                }
            }
            _ => {
                let value = self.operand(dot, expr)?;
                self.fit(&value, param)
            }
        }
    }

    /// The operand as a value that the parameter takes.
    fn fit(&self, operand: &Operand, param: Param) -> Result<Value, Stop> {
        let value = match operand {
            Operand::Invalid if param.takes_nil() => return Ok(Value::Nil),
            Operand::Invalid => {
                return self.fail(format!("invalid value; expected {}", param.name()));
            }
            Operand::Held(value) | Operand::Bare(value) => value,
        };
        if param.accepts(value) {
            return Ok(value.clone());
        }
        let kind = if value.is_nil() { "interface {}" } else { value.type_name() };
        self.fail(format!("wrong type for value; expected {}; got {kind}", param.name()))
    }

    fn function(
        &mut self,
        dot: &Operand,
        name: &str,
        whole: At<'t>,
        given: &Given<'_, 't>,
    ) -> Result<Operand, Stop> {
        let templates = self.run.templates;
        let Some(function) = templates.functions().get(name) else {
            let name = crate::format::quote::double(name);
            return self.fail(format!("{name} is not a defined function"));
        };
        self.check_count(name, function, given)?;
        if let Some(stops_at) = function.short_circuit() {
            return self.short_circuit(dot, stops_at, given);
        }
        let mut args = Vec::with_capacity(given.args.len() + 1);
        for arg in given.args {
            let param = function.param(args.len());
            args.push(self.arg(dot, param, arg)?);
        }
        if let Some(last) = given.last {
            args.push(self.fit(last, function.param(args.len()))?);
        }
        match function.call(self.run, &args) {
            Ok(value) => Ok(Operand::result(value)),
            Err(fault) => {
                self.at = whole;
                let text = format!("error calling {name}: {}", fault.message());
                Err(self.stop(&match fault {
                    Fault::Problem(_) => Fault::Problem(text),
                    Fault::Bound(_) => Fault::Bound(text),
                }))
            }
        }
    }

    fn check_count(
        &self,
        name: &str,
        function: &Function,
        given: &Given<'_, 't>,
    ) -> Result<(), Stop> {
        let count = given.args.len() + usize::from(given.last.is_some());
        let fixed = function.fixed();
        if function.is_variadic() && count < fixed {
            let got = given.args.len();
            return self
                .fail(format!("wrong number of args for {name}: want at least {fixed} got {got}"));
        }
        if !function.is_variadic() && count != fixed {
            return self.fail(format!("wrong number of args for {name}: want {fixed} got {count}"));
        }
        Ok(())
    }

    /// `and` and `or`: the first argument whose truth is `stops_at`, else the last one.
    fn short_circuit(
        &mut self,
        dot: &Operand,
        stops_at: bool,
        given: &Given<'_, 't>,
    ) -> Result<Operand, Stop> {
        let mut value = Value::Nil;
        for arg in given.args {
            value = self.any_arg(dot, arg)?;
            if value.is_true() == stops_at {
                return Ok(Operand::result(value));
            }
        }
        if let Some(last) = given.last {
            value = last.value().cloned().unwrap_or_default();
        }
        Ok(Operand::result(value))
    }
}

/// A literal without a wanted type.
fn ideal(literal: &ExprKind) -> Value {
    match literal {
        ExprKind::Bool(b) => Value::Bool(*b),
        ExprKind::Text { value, .. } => Value::from(value.as_str()),
        ExprKind::Number(number) => ideal_number(number),
        _ => Value::Nil,
    }
}

fn ideal_number(number: &Number) -> Value {
    match (number.is_float, number.int, number.float) {
        (false, Some(int), _) => Value::Int(int),
        (_, _, Some(float)) => Value::Float(float),
        _ => Value::Nil,
    }
}

/// A literal for a parameter of known type.
fn literal(literal: &ExprKind, param: Param) -> Option<Value> {
    match (param, literal) {
        (Param::Any, literal) => Some(ideal(literal)),
        (Param::Str, ExprKind::Text { .. }) | (Param::Bool, ExprKind::Bool(_)) => {
            Some(ideal(literal))
        }
        (Param::Int, ExprKind::Number(number)) => number.int.map(Value::Int),
        (Param::Float, ExprKind::Number(number)) => number.float.map(Value::Float),
        _ => None,
    }
}

impl Param {
    fn takes_nil(self) -> bool {
        matches!(self, Self::Any | Self::Map | Self::AnyMap)
    }

    fn accepts(self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Str => matches!(value, Value::Str(_)),
            Self::Int => matches!(value, Value::Int(_)),
            Self::Float => matches!(value, Value::Float(_)),
            Self::Bool => matches!(value, Value::Bool(_)),
            Self::Map => value.as_map().is_some_and(|map| map.elem() == Elem::Any),
            Self::AnyMap => value.as_map().is_some(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Str => "string",
            Self::Int => "int",
            Self::Float => "float64",
            Self::Bool => "bool",
            Self::Map => "map[string]interface {}",
            Self::AnyMap => "map[string]string",
        }
    }

    /// Why a literal does not fit.
    fn refusal(self, literal: &str) -> String {
        match self {
            Self::Str => format!("expected string; found {literal}"),
            Self::Int => format!("expected integer; found {literal}"),
            Self::Float => format!("expected float; found {literal}"),
            Self::Bool => format!("expected bool; found {literal}"),
            other => format!("can't handle {literal} for arg of type {}", other.name()),
        }
    }
}
