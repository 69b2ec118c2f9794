//! One rule of `x-kubernetes-validations`, compiled.

use kube_cel::cel::Program;
use serde_json::Value;

use super::guard;
use crate::{FieldError, Reason};

#[derive(Debug)]
pub(crate) struct Rule {
    pub(super) text: String,
    pub(super) program: Program,
    pub(super) message: Option<String>,
    pub(super) message_program: Option<Program>,
    pub(super) reason: Reason,
    /// As in `.a.b`, below the value that the rule stands at.
    pub(super) field_path: Option<String>,
    pub(super) optional_old: bool,
    pub(super) uses_old: bool,
    /// How deep evaluating it nests.
    pub(super) depth: usize,
}

impl Rule {
    /// Reads a rule that stands at `path` of a CRD.
    pub(crate) fn parse(rule: &Value, path: &str) -> Result<Self, Vec<FieldError>> {
        let mut errors = Vec::new();
        let text = |name: &str| {
            rule.get(name)
                .and_then(Value::as_str)
                .map(str::trim)
                .filter(|t| !t.is_empty())
                .map(str::to_owned)
        };
        let at = |name: &str| format!("{path}.{name}");
        let source = text("rule");
        let mut depth = 0;
        let program = match &source {
            None => {
                errors.push(FieldError::required(at("rule"), "rule is not specified"));
                None
            }
            Some(source) => compile(source, &at("rule"), &mut depth, &mut errors),
        };
        let message = text("message");
        if message.as_ref().is_some_and(|m| m.contains('\n')) {
            errors.push(FieldError::invalid(
                at("message"),
                message.clone(),
                "message must not contain line breaks",
            ));
        }
        let message_source = text("messageExpression");
        let message_program = message_source
            .and_then(|source| compile(&source, &at("messageExpression"), &mut depth, &mut errors));
        let reason = match text("reason").as_deref() {
            None | Some("FieldValueInvalid") => Reason::Invalid,
            Some("FieldValueForbidden") => Reason::Forbidden,
            Some("FieldValueRequired") => Reason::Required,
            Some("FieldValueDuplicate") => Reason::Duplicate,
            Some(other) => {
                let known = [
                    "FieldValueRequired",
                    "FieldValueInvalid",
                    "FieldValueForbidden",
                    "FieldValueDuplicate",
                ];
                errors.push(FieldError::not_supported(at("reason"), other, &known));
                Reason::Invalid
            }
        };
        let field_path = text("fieldPath").map(|path| normal_path(&path));
        let optional_old = rule.get("optionalOldSelf").and_then(Value::as_bool).unwrap_or(false);
        let uses_old =
            program.as_ref().is_some_and(|program| program.references().has_variable("oldSelf"));
        if optional_old && !uses_old && program.is_some() {
            errors.push(FieldError::invalid(
                at("optionalOldSelf"),
                true,
                "may not be set if oldSelf is not used in rule",
            ));
        }
        match (program, source) {
            (Some(program), Some(text)) if errors.is_empty() => Ok(Self {
                text,
                program,
                message,
                message_program,
                reason,
                field_path,
                optional_old,
                uses_old,
                depth,
            }),
            _ => Err(errors),
        }
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// What errors call the rule.
    pub(super) fn name(&self) -> &str {
        self.message.as_deref().unwrap_or(&self.text)
    }

    pub(super) fn message_or_default(&self) -> String {
        self.message.clone().unwrap_or_else(|| format!("failed rule: {}", self.text))
    }
}

fn compile(
    source: &str,
    path: &str,
    depth: &mut usize,
    errors: &mut Vec<FieldError>,
) -> Option<Program> {
    match try_compile(source) {
        Ok((program, deep)) => {
            *depth = deep.max(*depth);
            Some(program)
        }
        Err(detail) => {
            errors.push(FieldError::invalid(path, source, detail));
            None
        }
    }
}

pub(super) fn is_expression(source: &str) -> Result<(), String> {
    try_compile(source).map(|_| ())
}

fn try_compile(source: &str) -> Result<(Program, usize), String> {
    guard::check_text(source)?;
    let program = match std::panic::catch_unwind(|| Program::compile(source)) {
        Ok(Ok(program)) => program,
        Ok(Err(error)) => return Err(format!("compilation failed: {error}")),
        Err(_) => return Err("compilation failed: the expression is not understood".to_owned()),
    };
    let depth = guard::depth(program.expression())?;
    Ok((program, depth))
}

/// `.a['b']` and `['a']` as `.a.b` and `.a`.
fn normal_path(path: &str) -> String {
    let mut out = String::new();
    for part in path.split(['.', '[', ']']).filter(|part| !part.is_empty()) {
        out.push('.');
        out.push_str(part.trim_matches('\''));
    }
    out
}
