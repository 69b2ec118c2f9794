//! Services: what an update keeps and what the table shows.

use std::time::UNIX_EPOCH;

use serde_json::json;

use crate::kinds::by_kind;

#[test]
fn an_update_keeps_what_was_allocated() {
    let kind = by_kind("", "v1", "Service").unwrap();
    let old = json!({"metadata": {"name": "a"}, "spec": {
        "type": "NodePort", "clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"],
        "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}],
    }});
    let mut new = json!({"metadata": {"name": "a"}, "spec": {
        "type": "NodePort", "ports": [{"name": "web", "port": 80, "protocol": "TCP"}],
    }});
    kind.prepare_update(&mut new, &old, None);
    assert_eq!(new["spec"]["clusterIPs"], json!(["10.96.0.7"]));
    assert_eq!(new["spec"]["ports"][0]["nodePort"], 30080);
    let mut inside = old.clone();
    inside["spec"]["type"] = json!("ClusterIP");
    kind.prepare_update(&mut inside, &old, None);
    assert_eq!(inside["spec"]["ports"][0].get("nodePort"), None);
    let mut moved = old.clone();
    moved["spec"]["clusterIP"] = json!("10.96.0.8");
    kind.prepare_update(&mut moved, &old, None);
    let errors = kind.validate_update(&moved, &old);
    assert!(
        errors.iter().any(|e| e.to_string()
            == "spec.clusterIPs[0]: Invalid value: [\"10.96.0.8\"]: may not change once set"),
        "{errors:?}"
    );
}

#[test]
fn the_external_address_depends_on_the_type() {
    let kind = by_kind("", "v1", "Service").unwrap();
    let cell = |spec, status| {
        let service = json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
        kind.cells(&service, UNIX_EPOCH)[3].as_str().unwrap().to_owned()
    };
    assert_eq!(cell(json!({"type": "ClusterIP"}), json!({})), "<none>");
    assert_eq!(cell(json!({"type": "LoadBalancer"}), json!({})), "<pending>");
    let ready = json!({"loadBalancer": {"ingress": [{"ip": "127.1.2.3"}]}});
    assert_eq!(cell(json!({"type": "LoadBalancer"}), ready), "127.1.2.3");
    let name = json!({"type": "ExternalName", "externalName": "example.com"});
    assert_eq!(cell(name, json!({})), "example.com");
}
