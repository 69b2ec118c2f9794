//! The quality-of-service class of a pod, for API servers that do not set it.

use k8s_openapi::api::core::v1::Pod;

use crate::field::containers;
use crate::quantity::Amount;

/// `Guaranteed`, `Burstable` or `BestEffort`, by Kubernetes' rules over cpu and memory.
pub fn class(pod: &Pod) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    for container in containers(pod) {
        let resources = container.resources.as_ref();
        for name in ["cpu", "memory"] {
            let of = |map: Option<&std::collections::BTreeMap<String, _>>| {
                map.and_then(|m| m.get(name)).and_then(Amount::of).filter(|a| !a.is_zero())
            };
            let limit = of(resources.and_then(|r| r.limits.as_ref()));
            let request = of(resources.and_then(|r| r.requests.as_ref()));
            any |= limit.is_some() || request.is_some();
            guaranteed &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::class;
    use serde_json::json;

    #[test]
    fn classes_follow_requests_and_limits() {
        let full = json!({"cpu": "1", "memory": "1Gi"});
        let table = [
            (json!({}), "BestEffort"),
            (json!({"requests": {"cpu": "1"}}), "Burstable"),
            (json!({"limits": full}), "Guaranteed"),
            (json!({"limits": full, "requests": full}), "Guaranteed"),
            (json!({"limits": full, "requests": {"cpu": "500m", "memory": "1Gi"}}), "Burstable"),
        ];
        for (resources, want) in table {
            let pod = serde_json::from_value(
                json!({"spec": {"containers": [{"name": "c", "resources": resources}]}}),
            );
            assert_eq!(class(&pod.unwrap()), want);
        }
    }
}
