//! Services get what they ask for, keep it, and leave nothing behind.

use serde_json::json;

use super::*;

fn names() -> Names {
    Names {
        group: "".into(),
        version: "v1".into(),
        kind: "Service".into(),
        list_kind: "ServiceList".into(),
        plural: "services".into(),
        singular: "service".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
    }
}

fn addresses(ranges: &[&str]) -> Addresses {
    Addresses::new(&ranges.iter().map(|range| range.parse().unwrap()).collect::<Vec<_>>())
}

fn create(addresses: &Addresses, spec: &Value) -> Result<Value, String> {
    let mut service = json!({"metadata": {"name": "a"}, "spec": spec});
    match addresses.reserve(&names(), &mut service, None) {
        Ok(reserved) => {
            reserved.keep();
            Ok(service)
        }
        Err(status) => Err(status.message),
    }
}

fn update(addresses: &Addresses, old: &Value, spec: &Value) -> Result<Value, String> {
    let mut service = json!({"metadata": {"name": "a"}, "spec": spec});
    match addresses.reserve(&names(), &mut service, Some(old)) {
        Ok(reserved) => {
            reserved.keep();
            Ok(service)
        }
        Err(status) => Err(status.message),
    }
}

#[test]
fn every_service_gets_an_address_of_its_own_until_none_is_left() {
    let pool = addresses(&["10.0.0.0/29"]);
    let mut seen = BTreeSet::new();
    for _ in 0..6 {
        let service = create(&pool, &json!({})).unwrap();
        assert_eq!(service["spec"]["ipFamilies"], json!(["IPv4"]));
        assert!(seen.insert(service["spec"]["clusterIP"].as_str().unwrap().to_owned()));
    }
    assert!(create(&pool, &json!({})).unwrap_err().contains("range is full"));
}

#[test]
fn wanted_addresses_are_given_or_refused_with_a_reason() {
    let pool = addresses(&["10.96.0.0/16"]);
    create(&pool, &json!({"clusterIP": "10.96.0.1"})).unwrap();
    assert_eq!(
        create(&pool, &json!({"clusterIP": "10.96.0.1"})).unwrap_err(),
        "Service \"a\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.0.1\"]: failed to \
         allocate IP 10.96.0.1: provided IP is already allocated"
    );
    let outside = create(&pool, &json!({"clusterIP": "1.2.3.4"})).unwrap_err();
    assert!(outside.contains("does not match the current range"), "{outside}");
    let headless = create(&pool, &json!({"clusterIP": "None"})).unwrap();
    assert_eq!(headless["spec"]["clusterIPs"], json!(["None"]));
    assert_eq!(headless["spec"]["ipFamilyPolicy"], "RequireDualStack");
    let external = create(&pool, &json!({"type": "ExternalName"})).unwrap();
    assert!(external["spec"]["clusterIP"].is_null());
}

#[test]
fn a_refused_write_gives_everything_back() {
    let pool = addresses(&["10.0.0.0/30"]);
    for _ in 0..10 {
        let mut service = json!({"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 1}]}});
        drop(pool.reserve(&names(), &mut service, None).unwrap());
    }
    assert!(pool.0.lock().ports.is_empty());
    create(&pool, &json!({"clusterIP": "10.0.0.1"})).unwrap();
    let failed =
        create(&pool, &json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 80}]}));
    assert!(failed.unwrap_err().contains("The range of valid ports is 30000-32767"));
    create(&pool, &json!({"clusterIP": "10.0.0.2"})).unwrap();
}

#[test]
fn released_services_can_be_made_again() {
    let pool = addresses(&["10.96.0.0/16"]);
    let spec = json!({"clusterIP": "10.96.0.9", "type": "NodePort", "ports": [{"port": 1, "nodePort": 30001}]});
    let service = create(&pool, &spec).unwrap();
    assert!(
        create(&pool, &json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30001}]}))
            .unwrap_err()
            .contains("provided port is already allocated")
    );
    pool.release(&names(), &service);
    create(&pool, &spec).unwrap();
}

#[test]
fn an_update_keeps_what_it_does_not_name_and_frees_what_it_drops() {
    let pool = addresses(&["10.96.0.0/16"]);
    let ports = json!([{"port": 80, "protocol": "TCP"}]);
    let old = create(&pool, &json!({"type": "NodePort", "ports": ports})).unwrap();
    let kept = update(&pool, &old, &json!({"type": "NodePort", "ports": ports})).unwrap();
    assert_eq!(kept["spec"]["clusterIP"], old["spec"]["clusterIP"]);
    assert_eq!(kept["spec"]["ports"], old["spec"]["ports"]);
    let mut spec = kept["spec"].clone();
    spec["type"] = "ClusterIP".into();
    let plain = update(&pool, &kept, &spec).unwrap();
    assert!(plain["spec"]["ports"][0]["nodePort"].is_null());
    assert!(pool.0.lock().ports.is_empty());
    let external =
        update(&pool, &plain, &json!({"type": "ExternalName", "externalName": "x"})).unwrap();
    assert!(external["spec"]["clusterIP"].is_null());
    assert!(
        pool.0.lock().pools[0]
            .take(plain["spec"]["clusterIP"].as_str().unwrap().parse().unwrap())
            .is_ok()
    );
}

#[test]
fn an_address_never_changes() {
    let pool = addresses(&["10.96.0.0/16"]);
    let old = create(&pool, &json!({"clusterIP": "10.96.0.7"})).unwrap();
    let mut spec = old["spec"].clone();
    spec["clusterIP"] = "10.96.0.8".into();
    assert_eq!(
        update(&pool, &old, &spec).unwrap_err(),
        "Service \"a\" is invalid: spec.clusterIPs[0]: Invalid value: [\"10.96.0.8\"]: may not \
         change once set"
    );
}

#[test]
fn one_node_port_serves_several_protocols_of_a_service() {
    let pool = addresses(&["10.96.0.0/16"]);
    let ports = json!([
        {"port": 53, "protocol": "TCP", "nodePort": 30053},
        {"port": 53, "protocol": "UDP", "nodePort": 30053},
    ]);
    create(&pool, &json!({"type": "NodePort", "ports": ports})).unwrap();
}

#[test]
fn families_follow_the_policy_and_the_cluster() {
    let single = addresses(&["10.96.0.0/16"]);
    let refused = create(&single, &json!({"ipFamilyPolicy": "RequireDualStack"})).unwrap_err();
    assert!(refused.contains("this cluster is not configured for dual-stack services"));
    let preferred = create(&single, &json!({"ipFamilyPolicy": "PreferDualStack"})).unwrap();
    assert_eq!(preferred["spec"]["ipFamilies"], json!(["IPv4"]));
    let dual = addresses(&["10.96.0.0/16", "fd00:96::/112"]);
    let service = create(&dual, &json!({"ipFamilyPolicy": "PreferDualStack"})).unwrap();
    assert_eq!(service["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert_eq!(service["spec"]["clusterIPs"].as_array().unwrap().len(), 2);
    assert_eq!(service["spec"]["clusterIP"], service["spec"]["clusterIPs"][0]);
    let six = create(&dual, &json!({"ipFamilies": ["IPv6"]})).unwrap();
    assert!(six["spec"]["clusterIP"].as_str().unwrap().contains(':'));
}
