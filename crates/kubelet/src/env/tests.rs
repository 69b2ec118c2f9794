//! What a container's environment is made of, as tables.

use super::*;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

#[derive(Default)]
struct Fixed {
    maps: BTreeMap<String, ConfigMap>,
    secrets: BTreeMap<String, Secret>,
}

impl Objects for Fixed {
    fn config_map(&self, name: &str) -> Option<Arc<ConfigMap>> {
        self.maps.get(name).cloned().map(Arc::new)
    }
    fn secret(&self, name: &str) -> Option<Arc<Secret>> {
        self.secrets.get(name).cloned().map(Arc::new)
    }
}

fn objects() -> Fixed {
    let map = serde_json::from_value(json!({"data": {"k": "map-k", "l": "map-l"}})).unwrap();
    let secret = serde_json::from_value(json!({"data": {"p": "c2VjcmV0"}})).unwrap();
    Fixed { maps: [("m".into(), map)].into(), secrets: [("s".into(), secret)].into() }
}

fn env_of(container: Value) -> Result<Vec<(String, String)>, Error> {
    let mut container = container;
    container["name"] = json!("c");
    let container: Container = serde_json::from_value(container).unwrap();
    let pod: Pod =
        serde_json::from_value(json!({"metadata": {"name": "p", "namespace": "ns"}})).unwrap();
    let ips = ["10.1.2.3".parse().unwrap()];
    let none = BTreeMap::new();
    let facts = Facts { pod: &pod, pod_ips: &ips, host_ips: &[], allocatable: &none };
    let services = [("SVC_HOST".to_owned(), "10.96.0.1".to_owned())].into();
    let vars = build(&container, &facts, &objects(), &services)?;
    Ok(vars.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn values_expand_what_was_set_before_them_and_service_variables() {
    let got = env_of(json!({"env": [
        {"name": "A", "value": "1"},
        {"name": "B", "value": "$(A)-$(SVC_HOST)-$(C)"},
        {"name": "C", "value": "3"},
        {"name": "E"}
    ]}));
    let want =
        [("A", "1"), ("B", "1-10.96.0.1-$(C)"), ("C", "3"), ("E", ""), ("SVC_HOST", "10.96.0.1")];
    assert_eq!(got.unwrap(), pairs(&want));
}

#[test]
fn env_from_takes_a_prefix_and_loses_to_env() {
    let got = env_of(json!({
        "envFrom": [{"prefix": "X_", "configMapRef": {"name": "m"}}, {"secretRef": {"name": "s"}},
                    {"secretRef": {"name": "none", "optional": true}}],
        "env": [{"name": "X_k", "value": "own"}]
    }));
    let want = [("X_k", "own"), ("X_l", "map-l"), ("p", "secret"), ("SVC_HOST", "10.96.0.1")];
    assert_eq!(got.unwrap(), pairs(&want));
}

#[test]
fn value_from_reads_fields_secrets_and_config_maps() {
    let got = env_of(json!({"env": [
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "P", "valueFrom": {"secretKeyRef": {"name": "s", "key": "p"}}},
        {"name": "K", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}},
        {"name": "N", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "x", "optional": true}}},
        {"name": "SVC_HOST", "value": "mine"}
    ]}));
    assert_eq!(
        got.unwrap(),
        pairs(&[("IP", "10.1.2.3"), ("P", "secret"), ("K", "map-k"), ("SVC_HOST", "mine")])
    );
}

#[test]
fn what_is_missing_is_named() {
    let table = [
        (json!({"envFrom": [{"configMapRef": {"name": "z"}}]}), "configmap \"z\" not found"),
        (json!({"envFrom": [{"secretRef": {"name": "z"}}]}), "secret \"z\" not found"),
        (
            json!({"env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "x"}}}]}),
            "couldn't find key x in ConfigMap ns/m",
        ),
        (
            json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "x"}}}]}),
            "couldn't find key x in Secret ns/s",
        ),
    ];
    for (container, want) in table {
        assert_eq!(env_of(container).unwrap_err().to_string(), want);
    }
}

#[test]
fn a_command_of_the_pod_silences_the_cmd_of_the_image() {
    let mut vars = Variables::default();
    vars.set("V", "x".into());
    let strings = |l: &[&str]| l.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    let table: [(Value, &[&str]); 4] = [
        (json!({"name": "c"}), &["ent", "cmd"]),
        (json!({"name": "c", "args": ["$(V)"]}), &["ent", "x"]),
        (json!({"name": "c", "command": ["sh"]}), &["sh"]),
        (json!({"name": "c", "command": ["sh"], "args": ["-c", "$$(V)"]}), &["sh", "-c", "$(V)"]),
    ];
    for (container, want) in table {
        let container = serde_json::from_value(container).unwrap();
        let got = command_line(&container, &strings(&["ent"]), &strings(&["cmd"]), &vars);
        assert_eq!(got, strings(want));
    }
}
