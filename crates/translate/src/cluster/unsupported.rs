//! Diagnostics on DestinationRules.
//!
//! In: a rule and the part of it that counts here. Out: what it asks for that we do not do yet.

use ironsail_api::{Code, Diagnostic, Kind, Severity};
use ironsail_model::MergedRule;

use super::policy::Policy;
use crate::metadata;

/// Fields of `policy` without effect.
pub(crate) fn of(rule: Option<&MergedRule>, policy: &Policy<'_>) -> Vec<Diagnostic> {
    let Some(rule) = rule else { return Vec::new() };
    let old_errors = policy.outlier_detection.is_some_and(|o| o.consecutive_errors != 0);
    let fields = [(
        old_errors,
        Code::DOUBTFUL,
        "spec.trafficPolicy.outlierDetection.consecutiveErrors",
        "deprecated and without effect; use consecutiveGatewayErrors or consecutive5xxErrors",
    )];
    let found = fields.into_iter().filter(|(there, ..)| *there);
    found
        .map(|(_, code, field, message)| on(rule, code, Severity::Warning, field, message))
        .collect()
}

/// A finding about the first object of the rule.
pub(crate) fn on(
    rule: &MergedRule,
    code: Code,
    severity: Severity,
    field: &str,
    message: &str,
) -> Diagnostic {
    Diagnostic {
        code,
        severity,
        kind: Kind::DestinationRule,
        namespace: rule.namespace.to_string(),
        name: name(rule).to_owned(),
        field: Some(field.to_owned()),
        message: message.to_owned(),
    }
}

/// The rule as metadata names it.
pub(crate) fn path(rule: &MergedRule) -> String {
    let namespace = rule.namespace.as_str();
    metadata::config_path("networking.istio.io", "v1", "DestinationRule", namespace, name(rule))
}

fn name(rule: &MergedRule) -> &str {
    rule.from.first().map_or("", |key| &key.name)
}
