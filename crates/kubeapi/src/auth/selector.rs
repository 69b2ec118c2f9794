//! `metav1.LabelSelector` against a map of labels.

use serde_json::Value;

/// Whether `labels` (a JSON map, or null) meet `selector`. A missing or empty selector meets
/// everything. What is malformed (an unknown operator) is an error, as it is for Kubernetes.
pub(crate) fn matches(selector: &Value, labels: &Value) -> Result<bool, String> {
    if let Some(wanted) = selector["matchLabels"].as_object()
        && wanted.iter().any(|(key, value)| labels.get(key) != Some(value))
    {
        return Ok(false);
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        if !meets(expression, labels)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn meets(expression: &Value, labels: &Value) -> Result<bool, String> {
    let key = expression["key"].as_str().unwrap_or_default();
    let label = labels.get(key);
    let listed = || {
        let values = expression["values"].as_array();
        label.is_some_and(|label| values.is_some_and(|values| values.contains(label)))
    };
    match expression["operator"].as_str().unwrap_or_default() {
        "In" => Ok(listed()),
        "NotIn" => Ok(!listed()),
        "Exists" => Ok(label.is_some()),
        "DoesNotExist" => Ok(label.is_none()),
        other => Err(format!("{other:?} is not a valid label selector operator")),
    }
}

#[cfg(test)]
mod tests {
    use super::matches;
    use serde_json::json;

    #[test]
    fn labels_and_expressions_must_all_be_met() {
        let labels = json!({ "app": "web", "istio-injection": "enabled" });
        for (selector, expected) in [
            (json!(null), true),
            (json!({}), true),
            (json!({ "matchLabels": { "app": "web" } }), true),
            (json!({ "matchLabels": { "app": "db" } }), false),
            (
                json!({ "matchExpressions": [
                { "key": "app", "operator": "In", "values": ["db", "web"] },
                { "key": "istio-injection", "operator": "NotIn", "values": ["disabled"] },
                { "key": "x", "operator": "NotIn", "values": ["y"] },
                { "key": "x", "operator": "DoesNotExist" } ] }),
                true,
            ),
            (json!({ "matchExpressions": [{ "key": "x", "operator": "Exists" }] }), false),
        ] {
            assert_eq!(matches(&selector, &labels), Ok(expected), "{selector}");
        }
        assert!(
            matches(&json!({ "matchExpressions": [{ "key": "x", "operator": "Like" }] }), &labels)
                .is_err()
        );
    }
}
