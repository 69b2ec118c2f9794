//! Label selectors: does a selector match a set of labels. Pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

pub(crate) type Labels = BTreeMap<String, String>;

/// Whether `selector` matches; an empty one matches everything.
pub(crate) fn matches(selector: &LabelSelector, labels: Option<&Labels>) -> bool {
    let value = |key: &str| labels.and_then(|l| l.get(key)).map(String::as_str);
    let equal = selector
        .match_labels
        .iter()
        .flatten()
        .all(|(key, wanted)| value(key) == Some(wanted.as_str()));
    equal
        && selector.match_expressions.iter().flatten().all(|term| {
            let listed = |v: &str| term.values.iter().flatten().any(|w| w == v);
            match (term.operator.as_str(), value(&term.key)) {
                ("In", Some(v)) => listed(v),
                ("NotIn", Some(v)) => !listed(v),
                ("NotIn" | "DoesNotExist", None) | ("Exists", Some(_)) => true,
                _ => false,
            }
        })
}

/// Whether every pair of a Service's plain selector is among the labels.
pub(crate) fn contains(wanted: &Labels, labels: Option<&Labels>) -> bool {
    wanted.iter().all(|(key, value)| labels.and_then(|l| l.get(key)) == Some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operator_is_judged_as_kubernetes_does() {
        let labels: Labels = [("app".to_string(), "web".to_string())].into();
        let rows = [
            (r#"{}"#, true),
            (r#"{"matchLabels":{"app":"web"}}"#, true),
            (r#"{"matchLabels":{"app":"db"}}"#, false),
            (r#"{"matchExpressions":[{"key":"app","operator":"In","values":["web","db"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"app","operator":"NotIn","values":["web"]}]}"#, false),
            (r#"{"matchExpressions":[{"key":"tier","operator":"NotIn","values":["x"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"tier","operator":"In","values":["x"]}]}"#, false),
            (r#"{"matchExpressions":[{"key":"app","operator":"Exists"}]}"#, true),
            (r#"{"matchExpressions":[{"key":"app","operator":"DoesNotExist"}]}"#, false),
            (r#"{"matchExpressions":[{"key":"app","operator":"Resembles"}]}"#, false),
        ];
        for (text, expected) in rows {
            let selector: LabelSelector = serde_json::from_str(text).unwrap();
            assert_eq!(matches(&selector, Some(&labels)), expected, "{text}");
        }
    }
}
