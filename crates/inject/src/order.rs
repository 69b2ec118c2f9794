//! The order of containers, which is the order in which they start.

use serde_json::Value;

use crate::container::{
    CONTAINERS, CORE_DUMP, INIT, INIT_CONTAINERS, PROXY, VALIDATION, find, move_first, move_last,
};
use crate::object::annotations;

const BEFORE_PROXY: &str = "sidecar.istio.io/init-containers-before-proxy";

/// `hold`: the application waits for the proxy. `before`: init containers that must run without it.
pub(crate) fn arrange(pod: &mut Value, hold: bool, before: &[String]) {
    // Last, so that `kubectl exec` means the user's container.
    if hold {
        move_first(pod, CONTAINERS, PROXY);
    } else {
        move_last(pod, CONTAINERS, PROXY);
    }
    if find(pod, INIT_CONTAINERS, PROXY).is_some() {
        // Rules, then the proxy, then the user's own, which can use the mesh already.
        move_first(pod, INIT_CONTAINERS, CORE_DUMP);
        move_first(pod, INIT_CONTAINERS, PROXY);
        for name in wanted_before(pod, before).iter().rev() {
            move_first(pod, INIT_CONTAINERS, name);
        }
        move_first(pod, INIT_CONTAINERS, VALIDATION);
        move_first(pod, INIT_CONTAINERS, INIT);
    } else {
        // The check comes first, to stop a pod without rules. Rules come last: until the proxy runs
        // they would cut off the user's own.
        move_first(pod, INIT_CONTAINERS, VALIDATION);
        move_last(pod, INIT_CONTAINERS, INIT);
        move_last(pod, INIT_CONTAINERS, CORE_DUMP);
    }
}

fn wanted_before(pod: &Value, before: &[String]) -> Vec<String> {
    let own = annotations(pod).remove(BEFORE_PROXY).unwrap_or_default();
    let mut names: Vec<String> = Vec::new();
    for name in before.iter().map(String::as_str).chain(own.split(',')).map(str::trim) {
        if !name.is_empty() && name != PROXY && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::container::list;
    use crate::object::text;

    fn arranged(containers: &[&str], init: &[&str], hold: bool, own: &str) -> (String, String) {
        let named = |names: &[&str]| -> Value {
            names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>().into()
        };
        let mut pod = json!({
            "metadata": { "annotations": { BEFORE_PROXY: own } },
            "spec": { "containers": named(containers), "initContainers": named(init) },
        });
        arrange(&mut pod, hold, &["vault".to_owned()]);
        let names = |which| {
            let names: Vec<&str> = list(&pod, which).iter().map(|c| text(c, &["name"])).collect();
            names.join(" ")
        };
        (names(CONTAINERS), names(INIT_CONTAINERS))
    }

    #[test]
    fn native_sidecars_start_after_the_rules_and_before_the_users_containers() {
        let (containers, init) =
            arranged(&["app"], &["a", "vault", "b", INIT, PROXY], false, "b, b");
        assert_eq!(containers, "app");
        assert_eq!(init, "istio-init vault b istio-proxy a");
    }

    #[test]
    fn classic_sidecars_are_last_unless_the_application_waits() {
        let last = arranged(&[PROXY, "app"], &[INIT, "a"], false, "");
        assert_eq!(last, ("app istio-proxy".to_owned(), "a istio-init".to_owned()));
        let first = arranged(&["app", PROXY], &["a", VALIDATION], true, "");
        assert_eq!(first, ("istio-proxy app".to_owned(), "istio-validation a".to_owned()));
    }
}
