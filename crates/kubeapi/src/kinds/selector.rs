//! Label selectors in objects: their syntax, and whether labels match.

use serde_json::Value;

use super::at::{At, Errors};
use super::name;

/// The syntax of a `LabelSelector`.
pub(super) fn validate(selector: &At<'_>, errors: &mut Errors) {
    super::meta::labels(&selector.get("matchLabels"), errors);
    for item in selector.get("matchExpressions").items() {
        let values = item.get("values");
        match item.get("operator").str() {
            "In" | "NotIn" => {
                if values.is_empty() {
                    errors.push(
                        values.required("must be specified when `operator` is 'In' or 'NotIn'"),
                    );
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    let detail =
                        "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                    errors.push(values.forbidden(detail));
                }
            }
            _ => errors.push(item.get("operator").invalid("not a valid selector operator")),
        }
        let key = item.get("key");
        errors.extend(name::label_key(key.str()).into_iter().map(|w| key.invalid(w)));
        for value in values.items() {
            errors.extend(name::label_value(value.str()).into_iter().map(|w| value.invalid(w)));
        }
    }
}

/// Whether the operators and their values make sense at all.
pub(super) fn is_valid(selector: &At<'_>) -> bool {
    selector.get("matchExpressions").items().all(|item| match item.get("operator").str() {
        "In" | "NotIn" => !item.get("values").is_empty(),
        "Exists" | "DoesNotExist" => item.get("values").is_empty(),
        _ => false,
    })
}

/// Whether a `LabelSelector` selects something with these labels; an empty one selects everything.
pub(super) fn matches(selector: &Value, labels: &Value) -> bool {
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let at = At::root(selector);
    at.get("matchLabels").entries().all(|(key, value)| label(key) == Some(value.str()))
        && at.get("matchExpressions").items().all(|item| {
            let value = label(item.get("key").str());
            let listed = || item.get("values").items().any(|v| Some(v.str()) == value);
            match item.get("operator").str() {
                "In" => value.is_some() && listed(),
                "NotIn" => !listed(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

/// The selector as text, as the columns of `kubectl get` show it.
pub(super) fn text(selector: &Value) -> String {
    let at = At::root(selector);
    let mut parts: Vec<String> =
        at.get("matchLabels").entries().map(|(k, v)| format!("{k}={}", v.str())).collect();
    for item in at.get("matchExpressions").items() {
        let key = item.get("key").str();
        let values: Vec<_> = item.get("values").value.as_array().into_iter().flatten().collect();
        let mut values: Vec<_> = values.into_iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        parts.push(match item.get("operator").str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    if parts.is_empty() { "<none>".to_owned() } else { parts.join(",") }
}

/// A plain map of labels as text.
pub(super) fn labels_text(labels: &Value) -> String {
    let parts: Vec<_> = labels
        .as_object()
        .into_iter()
        .flatten()
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
        .collect();
    if parts.is_empty() { "<none>".to_owned() } else { parts.join(",") }
}
