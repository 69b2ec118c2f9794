//! CEL rules of a schema (`x-kubernetes-validations`): reading them, and judging objects by them.

use std::sync::Arc;

use kube_cel::{
    KubeCelExt,
    cel::{Context, ExecutionError, Program, Value as CelValue, objects::OptionalValue},
};
use serde_json::Value;

use crate::{
    FieldError, Reason,
    node::{Additional, Schema},
};

mod cost;
mod guard;
mod rule;
mod value;

pub(crate) use rule::Rule;

/// Whether `text` is a CEL expression, or why not. What it names is not looked at.
pub fn is_expression(text: &str) -> Result<(), String> {
    rule::is_expression(text)
}

/// What all rules may cost for one object, in steps of evaluation; that of Kubernetes.
const BUDGET: u64 = 10_000_000;
/// What a message made by a rule may have in bytes.
const MAX_MESSAGE: usize = 5 * 1024;
const OUT_OF_BUDGET: &str = "validation failed due to running out of cost budget, \
                             no further validation rules will be run";

/// Rules that nest no deeper are evaluated on the stack of the caller.
const SHALLOW: usize = 24;
/// Only what is used of it takes memory.
const DEEP_STACK: usize = 64 * 1024 * 1024;

thread_local! {
    /// All functions that Kubernetes has, registered once for each thread.
    static FUNCTIONS: Context<'static> = functions();
}

fn functions() -> Context<'static> {
    let mut context = Context::default().with_all();
    // Rules about int-or-string fields ask for the type; here a type is its name.
    context.add_function("type", |value: CelValue| type_name(&value).to_owned());
    let types = ["int", "uint", "double", "string", "bytes", "bool", "list", "map", "null_type"];
    for name in types {
        context.add_variable_from_value(name, CelValue::String(Arc::new(name.to_owned())));
    }
    context
}

fn type_name(value: &CelValue) -> &'static str {
    match value {
        CelValue::Int(_) => "int",
        CelValue::UInt(_) => "uint",
        CelValue::Float(_) => "double",
        CelValue::String(_) => "string",
        CelValue::Bytes(_) => "bytes",
        CelValue::Bool(_) => "bool",
        CelValue::List(_) => "list",
        CelValue::Map(_) => "map",
        CelValue::Null => "null_type",
        CelValue::Timestamp(_) => "google.protobuf.Timestamp",
        CelValue::Duration(_) => "google.protobuf.Duration",
        _ => "unknown",
    }
}

/// Runs something on a thread of its own whose stack is large enough for the recursion of the CEL
/// parser and interpreter, within the bounds that [`guard`] sets.
pub(crate) fn with_deep_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let spawned = std::thread::Builder::new()
            .name("cel".to_owned())
            .stack_size(DEEP_STACK)
            .spawn_scoped(scope, work);
        match spawned.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(done)) => done,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => panic!("cannot start a thread: {error}"),
        }
    })
}

/// Judges an object by all rules of its schema. `old` is what it replaces.
pub(crate) fn evaluate(schema: &Schema, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    if schema.rule_depth > SHALLOW {
        return with_deep_stack(|| evaluate_here(schema, object, old));
    }
    evaluate_here(schema, object, old)
}

fn evaluate_here(schema: &Schema, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    FUNCTIONS.with(|functions| {
        let mut judge = Judge { functions, budget: BUDGET, errors: Vec::new() };
        // Running out of budget ends the walk; the error is noted already.
        let _ = judge.visit(schema, object, old, "", true);
        judge.errors
    })
}

struct OutOfBudget;

struct Judge<'a> {
    functions: &'a Context<'static>,
    budget: u64,
    errors: Vec<FieldError>,
}

impl Judge<'_> {
    fn visit(
        &mut self,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        path: &str,
        root: bool,
    ) -> Result<(), OutOfBudget> {
        if schema.rule_depth == 0 || value.is_null() {
            return Ok(());
        }
        self.rules(schema, value, old, path, root)?;
        match value {
            Value::Object(map) => {
                for (name, member) in map {
                    let (below, at) = match (schema.properties.get(name), &schema.additional) {
                        (Some(property), _) => (property, join(path, name)),
                        (None, Additional::Schema(below)) => (&**below, format!("{path}[{name}]")),
                        _ => continue,
                    };
                    let old = old.and_then(|old| old.get(name)).filter(|old| !old.is_null());
                    self.visit(below, member, old, &at, false)?;
                }
            }
            Value::Array(items) => {
                let Some(below) = &schema.items else { return Ok(()) };
                for (at, item) in items.iter().enumerate() {
                    let old = schema.old_item(item, old);
                    self.visit(below, item, old, &format!("{path}[{at}]"), false)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn rules(
        &mut self,
        schema: &Schema,
        value: &Value,
        old: Option<&Value>,
        path: &str,
        root: bool,
    ) -> Result<(), OutOfBudget> {
        if schema.rules.is_empty() {
            return Ok(());
        }
        let unchanged = old == Some(value);
        let sizes = cost::Sizes::of(value, old);
        let this = value::convert(schema, value, root);
        let aligned = old.map(|old| value::align(schema, old, value));
        let before = aligned.as_ref().map(|old| value::convert(schema, old, root));
        for rule in &schema.rules {
            // What did not change is not judged again, except for how it changed.
            if (unchanged && !rule.uses_old)
                || (rule.uses_old && before.is_none() && !rule.optional_old)
            {
                continue;
            }
            let mut scope = self.functions.new_inner_scope();
            scope.add_variable_from_value("self", this.clone());
            if rule.optional_old {
                let optional = before.clone().map_or_else(OptionalValue::none, OptionalValue::of);
                scope.add_variable_from_value("oldSelf", CelValue::Opaque(Arc::new(optional)));
            } else if let Some(before) = &before {
                scope.add_variable_from_value("oldSelf", before.clone());
            }
            self.pay(schema, path, cost::of(rule.program.expression(), &sizes))?;
            match run(&rule.program, &scope) {
                Ok(CelValue::Bool(true)) => {}
                Ok(CelValue::Bool(false)) => {
                    let error = self.failed(schema, rule, value, path, &scope);
                    self.errors.push(error);
                }
                Ok(_) => {
                    self.wrong(
                        schema,
                        path,
                        format!("rule {:?} did not give a boolean", rule.text),
                    );
                }
                Err(error) => {
                    self.wrong(schema, path, format!("{error} evaluating rule: {}", rule.name()));
                }
            }
        }
        Ok(())
    }

    fn pay(&mut self, schema: &Schema, path: &str, cost: u64) -> Result<(), OutOfBudget> {
        match self.budget.checked_sub(cost) {
            Some(left) => {
                self.budget = left;
                Ok(())
            }
            None => {
                self.wrong(schema, path, OUT_OF_BUDGET.to_owned());
                Err(OutOfBudget)
            }
        }
    }

    fn wrong(&mut self, schema: &Schema, path: &str, detail: String) {
        let kind = schema.kind.map_or("", crate::Type::as_str);
        self.errors.push(FieldError::invalid(path, kind, detail));
    }

    fn failed(
        &self,
        schema: &Schema,
        rule: &Rule,
        value: &Value,
        path: &str,
        scope: &Context<'_>,
    ) -> FieldError {
        let made = rule.message_program.as_ref().and_then(|program| message(program, scope));
        let detail = made.unwrap_or_else(|| rule.message_or_default());
        let path = match rule.field_path.as_deref() {
            Some(below) => format!("{path}{below}").trim_start_matches('.').to_owned(),
            None => path.to_owned(),
        };
        let compound = matches!(schema.kind, Some(crate::Type::Object | crate::Type::Array));
        match rule.reason {
            Reason::Forbidden => FieldError::forbidden(path, detail),
            Reason::Required => FieldError::required(path, detail),
            Reason::Duplicate => FieldError::duplicate(path, value.clone()),
            _ if compound => FieldError::new(path, Reason::RuleInvalid, Value::Null, detail),
            _ => FieldError::invalid(path, value.clone(), detail),
        }
    }
}

/// Runs a program. A panic inside the interpreter is an error like any other: the rules come from
/// outside.
fn run(program: &Program, scope: &Context<'_>) -> Result<CelValue, String> {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| program.execute(scope)));
    match outcome {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(told(&error)),
        Err(_) => Err("internal error".to_owned()),
    }
}

/// Errors of evaluation in the words of Kubernetes.
fn told(error: &ExecutionError) -> String {
    let conversion = |kind: &str| format!("type conversion error from 'string' to '{kind}'");
    match error {
        ExecutionError::FunctionError { function, .. } => match function.as_str() {
            "int" | "uint" | "double" | "bool" => conversion(function),
            "duration" => conversion("google.protobuf.Duration"),
            "timestamp" => conversion("google.protobuf.Timestamp"),
            _ => lower_first(&error.to_string()),
        },
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(CelValue::Int(at)) => format!("index out of bounds: {at}"),
        other => lower_first(&other.to_string()),
    }
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

fn message(program: &Program, scope: &Context<'_>) -> Option<String> {
    let Ok(CelValue::String(text)) = run(program, scope) else { return None };
    let text = text.trim();
    let good = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
    good.then(|| text.to_owned())
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests;
