//! `matchConditions`: CEL expressions about a request, compiled once.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, ExecutionError, Program, Value as Cel};
use kube_cel::{KubeCelExt as _, cel};
use serde_json::Value;

/// The parser is recursive: what is nested deeper than anybody writes is refused unread.
const MAX_DEPTH: usize = 64;
const MAX_LENGTH: usize = 10 << 10;

pub(super) struct Condition {
    expression: String,
    program: Result<Program, String>,
}

impl std::fmt::Debug for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Condition").field(&self.expression).finish()
    }
}

/// What an expression can speak of.
pub(super) struct Variables {
    pub(super) object: Value,
    pub(super) old_object: Value,
    pub(super) request: Value,
}

impl Condition {
    /// Compiles one of a webhook's `matchConditions`.
    pub(super) fn compile(value: &Value) -> Self {
        let expression = value["expression"].as_str().unwrap_or_default().to_owned();
        let program = compile(&expression);
        Self { expression, program }
    }

    fn met(&self, context: &Context<'_>) -> Result<bool, String> {
        let wrap = |why: &dyn std::fmt::Display| {
            format!("expression '{}' resulted in error: {why}", self.expression)
        };
        let program = self.program.as_ref().map_err(|e| wrap(e))?;
        // The evaluator is young; a panic in it must not end more than this request.
        let outcome = catch_unwind(AssertUnwindSafe(|| program.execute(context)))
            .map_err(|_| wrap(&"it cannot be evaluated"))?;
        match outcome {
            Ok(Cel::Bool(met)) => Ok(met),
            Ok(other) => Err(wrap(&format!("it gives {}, not bool", other.type_of()))),
            Err(ExecutionError::NoSuchKey(key)) => Err(wrap(&format!("no such key: {key}"))),
            Err(error) => Err(wrap(&error)),
        }
    }
}

/// Whether all are met. One that is not decides, even where another fails.
pub(super) fn all_met(conditions: &[Condition], variables: &Variables) -> Result<bool, String> {
    let mut context = Context::default().with_all();
    context.add_variable_from_value("object", to_cel(&variables.object));
    context.add_variable_from_value("oldObject", to_cel(&variables.old_object));
    context.add_variable_from_value("request", to_cel(&variables.request));
    let mut errors = Vec::new();
    for condition in conditions {
        match condition.met(&context) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => errors.push(why),
        }
    }
    match errors.as_slice() {
        [] => Ok(true),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

fn compile(expression: &str) -> Result<Program, String> {
    if expression.len() > MAX_LENGTH {
        return Err(format!("the expression is longer than {MAX_LENGTH} bytes"));
    }
    let mut depth = 0_usize;
    for byte in expression.bytes() {
        match byte {
            b'(' | b'[' | b'{' | b'?' | b'!' | b'-' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(format!("the expression is nested deeper than {MAX_DEPTH}"));
        }
    }
    let program = catch_unwind(|| cel::Program::compile(expression))
        .map_err(|_| "the expression cannot be parsed".to_owned())?
        .map_err(|e| format!("compilation failed: {e}"))?;
    let uses_authorizer =
        program.references().variables().iter().any(|v| v.starts_with("authorizer"));
    if uses_authorizer {
        return Err("the variable 'authorizer' is not supported".to_owned());
    }
    Ok(program)
}

/// JSON as CEL sees it: whole numbers are `int`.
fn to_cel(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(b) => Cel::Bool(*b),
        Value::Number(n) => n
            .as_i64()
            .map(Cel::Int)
            .or_else(|| n.as_u64().map(Cel::UInt))
            .unwrap_or_else(|| Cel::Float(n.as_f64().unwrap_or(f64::NAN))),
        Value::String(s) => Cel::String(Arc::new(s.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(to_cel).collect())),
        Value::Object(map) => {
            let map: HashMap<Key, Cel> =
                map.iter().map(|(k, v)| (Key::String(Arc::new(k.clone())), to_cel(v))).collect();
            Cel::Map(Map { map: Arc::new(map) })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(expressions: &[&str]) -> Result<bool, String> {
        let conditions: Vec<_> =
            expressions.iter().map(|e| Condition::compile(&json!({ "expression": e }))).collect();
        let variables = Variables {
            object: json!({ "metadata": { "name": "a", "labels": { "x/y": "z" } }, "spec": { "replicas": 3 } }),
            old_object: Value::Null,
            request: json!({ "operation": "CREATE", "userInfo": { "groups": ["g"] }, "dryRun": false }),
        };
        all_met(&conditions, &variables)
    }

    #[test]
    fn expressions_speak_of_object_old_object_and_request() {
        for (expression, expected) in [
            ("object.metadata.name == 'a'", true),
            ("object.spec.replicas > 2 && object.spec.replicas <= 3", true),
            ("object.metadata.labels['x/y'] == 'z'", true),
            ("has(object.metadata.annotations)", false),
            ("oldObject == null", true),
            ("request.operation == 'CREATE' && 'g' in request.userInfo.groups", true),
            ("request.dryRun", false),
            ("object.metadata.name.startsWith('b')", false),
        ] {
            assert_eq!(check(&[expression]), Ok(expected), "{expression}");
        }
    }

    #[test]
    fn a_condition_that_is_not_met_decides_before_errors_do() {
        assert_eq!(check(&["object.nope == 'x'", "false"]), Ok(false));
        assert_eq!(
            check(&["true", "object.metadata.foo == 'x'"]),
            Err("expression 'object.metadata.foo == 'x'' resulted in error: no such key: foo"
                .into())
        );
    }

    #[test]
    fn what_is_not_supported_says_so() {
        let deep = format!("{}true{}", "(".repeat(100), ")".repeat(100));
        for (expression, part) in [
            ("authorizer.group('').resource('pods').check('get').allowed()", "not supported"),
            (deep.as_str(), "nested deeper"),
            ("object..x", "compilation failed"),
            ("1 + 1", "not bool"),
        ] {
            let why = check(&[expression]).expect_err("it is refused");
            assert!(why.contains(part), "{why}");
        }
    }
}
