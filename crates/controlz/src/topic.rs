//! Each topic as JSON.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use ironsail_daemon::metrics::Usage;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Program;

type Known = State<Arc<Program>>;

/// A log scope as Istio's tools know it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Scope {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) output_level: String,
    #[serde(default)]
    pub(crate) stack_trace_level: String,
    #[serde(default)]
    pub(crate) log_callers: bool,
}

impl Scope {
    fn new(name: String, level: &str) -> Self {
        Self {
            description: format!("what {name} does"),
            name,
            output_level: level.to_owned(),
            stack_trace_level: "none".to_owned(),
            log_callers: false,
        }
    }
}

pub(crate) fn list(program: &Program) -> Vec<Scope> {
    program.levels.list().into_iter().map(|(name, level)| Scope::new(name, level)).collect()
}

pub(crate) async fn scopes(State(program): Known) -> Json<Vec<Scope>> {
    Json(list(&program))
}

pub(crate) async fn scope(
    State(program): Known,
    Path(name): Path<String>,
) -> Result<Json<Scope>, (StatusCode, String)> {
    match program.levels.get(&name) {
        Some(level) => Ok(Json(Scope::new(name, level))),
        None => Err((StatusCode::BAD_REQUEST, format!("unknown scope name: {name}\n"))),
    }
}

type Done = Result<StatusCode, (StatusCode, String)>;

pub(crate) async fn set_scope(
    State(program): Known,
    Path(name): Path<String>,
    Json(wanted): Json<Scope>,
) -> Done {
    set(&program, &name, &wanted).map(|()| StatusCode::ACCEPTED)
}

pub(crate) async fn set_scopes(State(program): Known, Json(wanted): Json<Vec<Scope>>) -> Done {
    for scope in &wanted {
        set(&program, &scope.name, scope)?;
    }
    Ok(StatusCode::ACCEPTED)
}

fn set(program: &Program, name: &str, wanted: &Scope) -> Result<(), (StatusCode, String)> {
    let refuse = |text: String| Err((StatusCode::BAD_REQUEST, format!("{text}\n")));
    if !matches!(wanted.stack_trace_level.as_str(), "" | "none") {
        return refuse("stack traces in the log are not supported".to_owned());
    }
    if wanted.log_callers {
        return refuse("callers in the log are not supported".to_owned());
    }
    match program.levels.set(name, &wanted.output_level) {
        Ok(()) => Ok(()),
        Err(error) => refuse(error.to_string()),
    }
}

pub(crate) async fn memory() -> Json<Value> {
    let usage = Usage::read().unwrap_or_default();
    Json(json!({
        "residentBytes": usage.resident,
        "virtualBytes": usage.virtual_size,
        "threads": usage.threads,
        "openFiles": usage.descriptors,
    }))
}

/// Values of variables that may be secret are not shown.
pub(crate) fn shown(name: &str, value: &str) -> String {
    let secret = ["TOKEN", "PASSWORD", "SECRET", "PRIVATE", "CREDENTIAL"];
    match secret.iter().any(|word| name.to_uppercase().contains(word)) {
        true => "(not shown)".to_owned(),
        false => value.to_owned(),
    }
}

pub(crate) async fn environment(State(program): Known) -> Json<Vec<Value>> {
    let one = |(name, value): &(String, String)| json!({"name": name, "value": shown(name, value)});
    Json(program.environment.iter().map(one).collect())
}

pub(crate) async fn process(State(program): Known) -> Json<Value> {
    let usage = Usage::read().unwrap_or_default();
    Json(json!({
        "name": program.name,
        "pid": std::process::id(),
        "cpuSeconds": usage.cpu_seconds,
        "threads": usage.threads,
    }))
}

pub(crate) async fn arguments(State(program): Known) -> Json<Vec<String>> {
    Json(program.arguments.clone())
}

pub(crate) async fn version(State(program): Known) -> Json<Value> {
    Json(json!({"name": program.name, "version": program.version}))
}

pub(crate) async fn end(State(program): Known) -> StatusCode {
    program.stop.cancel();
    StatusCode::ACCEPTED
}
