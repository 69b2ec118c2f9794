//! What Helm adds to sprig: templates inside templates, YAML, and required values.

use std::sync::Arc;

use super::Param::{Any, Str};
use super::{Functions, Outcome, Row, any_at, encode, str_at};
use crate::error::Fault;
use crate::exec::Run;
use crate::value::{Map, Numbers, Value};
use crate::yaml;

pub(super) const TABLE: &[Row] = &[
    ("fromJson", &[Str], None, from_json),
    ("fromJsonArray", &[Str], None, from_json_array),
    ("include", &[Str, Any], None, include),
    ("lookup", &[Str, Str, Str, Str], None, lookup),
    ("mustToYaml", &[Any], None, must_to_yaml),
    ("required", &[Str, Any], None, required),
    ("toYaml", &[Any], None, to_yaml),
    ("tpl", &[Str, Any], None, tpl),
];

fn include(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(run.include(str_at(args, 0), any_at(args, 1))?.into())
}

fn tpl(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(run.tpl(str_at(args, 0), any_at(args, 1))?.into())
}

/// There is no cluster to look into, so nothing is found.
fn lookup(_: &mut Run<'_>, _: &[Value]) -> Outcome {
    Ok(Map::new().into())
}

fn required(_: &mut Run<'_>, args: &[Value]) -> Outcome {
    let value = any_at(args, 1);
    if value.is_nil() || value.as_str() == Some("") {
        return Err(str_at(args, 0).into());
    }
    Ok(value)
}

pub(super) fn yaml_text(run: &mut Run<'_>, value: &Value) -> Result<String, Fault> {
    let mut out = run.buffer();
    yaml::write(&mut out, value)?;
    let text = out.finish()?;
    run.spend(text.len() as u64)?;
    Ok(text)
}

fn without_newline(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

fn to_yaml(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    encode::or_empty(yaml_text(run, &args[0]).map(without_newline), "")
}

fn must_to_yaml(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    Ok(without_newline(yaml_text(run, &args[0])?).into())
}

/// A mistake in the text becomes the entry `Error` of the map, as in Helm.
fn from_json(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    object(encode::parsed(run, str_at(args, 0)))
}

fn from_json_array(run: &mut Run<'_>, args: &[Value]) -> Outcome {
    array(encode::parsed(run, str_at(args, 0)))
}

fn object(parsed: Outcome) -> Outcome {
    let problem = match parsed {
        Ok(value @ Value::Map(_)) => return Ok(value),
        Ok(Value::Nil) => return Ok(Map::new().into()),
        Ok(other) => format!("a map is wanted, not {}", other.kind_name()),
        Err(Fault::Problem(problem)) => problem,
        Err(bound) => return Err(bound),
    };
    let map = Map::new();
    map.insert("Error", problem.into());
    Ok(map.into())
}

fn array(parsed: Outcome) -> Outcome {
    let problem = match parsed {
        Ok(value @ Value::List(_)) => return Ok(value),
        Ok(Value::Nil) => return Ok(Vec::new().into()),
        Ok(other) => format!("a list is wanted, not {}", other.kind_name()),
        Err(Fault::Problem(problem)) => problem,
        Err(bound) => return Err(bound),
    };
    Ok(vec![Value::from(problem)].into())
}

type ReadYaml = dyn Fn(&str) -> Result<serde_json::Value, String> + Send + Sync;

pub(super) fn add_yaml(functions: &mut Functions, read: Arc<ReadYaml>) {
    let value = move |args: &[Value]| -> Outcome {
        let json = read(str_at(args, 0))?;
        Value::from_json(&json, Numbers::Float).map_err(|e| Fault::Bound(e.to_string()))
    };
    let (one, many) = (value.clone(), value);
    functions.add("fromYaml", &[Str], None, move |args| object(one(args)));
    functions.add("fromYamlArray", &[Str], None, move |args| array(many(args)));
}
