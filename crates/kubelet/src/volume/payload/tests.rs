//! Which files a volume has, from its source and the objects.

use super::*;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use std::sync::Arc;

struct Fixed;

impl Objects for Fixed {
    fn config_map(&self, name: &str) -> Option<Arc<ConfigMap>> {
        let value = json!({"data": {"a": "A", "b": "B"}, "binaryData": {"bin": "AAE="}});
        (name == "m").then(|| Arc::new(serde_json::from_value(value).unwrap()))
    }
    fn secret(&self, name: &str) -> Option<Arc<Secret>> {
        (name == "s")
            .then(|| Arc::new(serde_json::from_value(json!({"data": {"k": "aGk="}})).unwrap()))
    }
}

fn files(source: &Source, owner: TokenOwner) -> Result<Vec<(String, String, u32)>, Error> {
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p", "labels": {"x": "y"}},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"memory": "2Mi"}}}]}}))
    .unwrap();
    let none = BTreeMap::new();
    let facts = Facts { pod: &pod, pod_ips: &[], host_ips: &[], allocatable: &none };
    let tokens =
        |p: &ServiceAccountTokenProjection| p.audience.clone().map(|a| format!("token-{a}"));
    let payload = build(source, &facts, &Fixed, &tokens, owner)?;
    let show =
        |(path, f): (String, File)| (path, String::from_utf8_lossy(&f.bytes).into_owned(), f.mode);
    Ok(payload.into_iter().map(show).collect())
}

fn list(items: &[(&str, &str, u32)]) -> Vec<(String, String, u32)> {
    items.iter().map(|(p, t, m)| ((*p).to_owned(), (*t).to_owned(), *m)).collect()
}

fn config(value: Value) -> Source {
    Source::ConfigMap(serde_json::from_value(value).unwrap())
}

#[test]
fn a_config_map_gives_all_keys_or_the_items() {
    let all = files(&config(json!({"name": "m", "defaultMode": 0o600})), TokenOwner::default());
    assert_eq!(
        all.unwrap(),
        list(&[("a", "A", 0o600), ("b", "B", 0o600), ("bin", "\0\u{1}", 0o600)])
    );
    let some =
        config(json!({"name": "m", "items": [{"key": "a", "path": "dir/x", "mode": 0o400}]}));
    assert_eq!(files(&some, TokenOwner::default()).unwrap(), list(&[("dir/x", "A", 0o400)]));
}

#[test]
fn what_is_missing_is_named_unless_it_is_optional() {
    let table = [
        (json!({"name": "z"}), Err("configmap \"z\" not found")),
        (json!({"name": "z", "optional": true}), Ok(0)),
        (
            json!({"name": "m", "items": [{"key": "q", "path": "q"}]}),
            Err("configmap references non-existent config key: q"),
        ),
        (json!({"name": "m", "optional": true, "items": [{"key": "q", "path": "q"}]}), Ok(0)),
        (
            json!({"name": "m", "items": [{"key": "a", "path": "../a"}]}),
            Err("invalid path \"../a\": must be relative and must not contain \"..\""),
        ),
    ];
    for (source, want) in table {
        let got = files(&config(source), TokenOwner::default())
            .map(|f| f.len())
            .map_err(|e| e.to_string());
        assert_eq!(got, want.map_err(str::to_owned));
    }
}

#[test]
fn a_projected_volume_joins_its_sources() {
    let source = Source::Projected(
        serde_json::from_value(json!({"sources": [
            {"serviceAccountToken": {"audience": "istio-ca", "path": "token"}},
            {"configMap": {"name": "m", "items": [{"key": "a", "path": "ca.crt"}]}},
            {"secret": {"name": "s"}},
            {"downwardAPI": {"items": [
                {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                {"path": "mem", "resourceFieldRef": {"containerName": "c", "resource": "limits.memory", "divisor": "1Mi"}}]}}
        ]}))
        .unwrap(),
    );
    let want = [
        ("ca.crt", "A", 0o644),
        ("k", "hi", 0o644),
        ("labels", "x=\"y\"", 0o644),
        ("mem", "2", 0o644),
        ("token", "token-istio-ca", 0o644),
    ];
    assert_eq!(files(&source, TokenOwner::default()).unwrap(), list(&want));
    let owned = files(&source, TokenOwner { user: Some(1337), group: None }).unwrap();
    assert_eq!(owned.last().unwrap().2, 0o600);
}

#[test]
fn trust_bundles_are_refused() {
    let source = json!({"sources": [{"clusterTrustBundle": {"path": "x"}}]});
    let source = Source::Projected(serde_json::from_value(source).unwrap());
    assert_eq!(
        files(&source, TokenOwner::default()),
        Err(Error::Unsupported("clusterTrustBundle"))
    );
}
