//! What each kind of name answers, against Kubernetes' DNS specification.

use serde_json::{Value, json};

use super::*;

fn names(objects: &[Value]) -> Names {
    let mut model = Model::default();
    for object in objects {
        let changed = if object["kind"] == "Service" {
            model.apply_service(&serde_json::from_value(object.clone()).unwrap())
        } else {
            model.apply_slice(&serde_json::from_value(object.clone()).unwrap())
        };
        assert!(changed);
    }
    let mut config = Config::of_instance("test");
    config.ttl = 30;
    config.outside_names = vec![(
        "API.example.com".to_owned(),
        vec!["203.0.113.10".parse().unwrap(), "2001:db8::10".parse().unwrap()],
    )];
    Names::new(Arc::new(RwLock::new(model)), &config).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "callers write the value in place")]
fn service(name: &str, spec: Value) -> Value {
    let metadata = json!({ "name": name, "namespace": "demo" });
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec })
}

#[expect(clippy::needless_pass_by_value, reason = "callers write the value in place")]
fn slice(name: &str, of: &str, kind: &str, endpoints: Value) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": name, "namespace": "demo", "labels": { "kubernetes.io/service-name": of } },
        "addressType": kind, "endpoints": endpoints,
        "ports": [{ "name": "http", "protocol": "TCP", "port": 8080 }],
    })
}

fn cluster() -> Names {
    names(&[
        service(
            "web",
            json!({
                "clusterIP": "10.96.0.50", "clusterIPs": ["10.96.0.50", "fd00:10:96::50"],
                "ports": [
                    { "name": "http", "port": 80, "protocol": "TCP" },
                    { "name": "dns", "port": 53, "protocol": "UDP" },
                ],
            }),
        ),
        service(
            "db",
            json!({ "clusterIP": "None", "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }] }),
        ),
        slice(
            "db-1",
            "db",
            "IPv4",
            json!([
                { "addresses": ["10.244.0.7"], "hostname": "db-0", "conditions": { "ready": true } },
                { "addresses": ["10.244.0.8"], "conditions": { "ready": true } },
                { "addresses": ["10.244.0.9"], "hostname": "db-2", "conditions": { "ready": false } },
            ]),
        ),
        slice(
            "db-2",
            "db",
            "IPv6",
            json!([{ "addresses": ["fd00:10:244::7"], "hostname": "db-0" }]),
        ),
        service("eager", json!({ "clusterIP": "None", "publishNotReadyAddresses": true })),
        slice(
            "eager-1",
            "eager",
            "IPv4",
            json!([{ "addresses": ["10.244.0.20"], "conditions": { "ready": false } }]),
        ),
        service("empty", json!({ "clusterIP": "None" })),
        service("ext", json!({ "type": "ExternalName", "externalName": "www.example.org" })),
        service(
            "alias",
            json!({ "type": "ExternalName", "externalName": "web.demo.svc.cluster.local" }),
        ),
    ])
}

/// The records as text, one a line, sorted; or the kind of absence.
fn ask(names: &Names, name: &str, kind: RecordType) -> Vec<String> {
    match names.lookup(&Name::from_ascii(name).unwrap(), kind) {
        Answer::Records { answers, .. } => {
            let mut lines: Vec<_> = answers.iter().map(|r| r.data.to_string()).collect();
            lines.sort();
            lines
        }
        other => vec![format!("{other:?}")],
    }
}

#[test]
fn a_service_has_its_cluster_addresses() {
    let names = cluster();
    assert_eq!(ask(&names, "web.demo.svc.cluster.local.", RecordType::A), ["10.96.0.50"]);
    assert_eq!(ask(&names, "web.demo.svc.cluster.local.", RecordType::AAAA), ["fd00:10:96::50"]);
    assert_eq!(ask(&names, "web.demo.svc.cluster.local.", RecordType::MX), ["NoData"]);
    assert_eq!(ask(&names, "web.other.svc.cluster.local.", RecordType::A), ["NxDomain"]);
    assert_eq!(ask(&names, "nope.demo.svc.cluster.local.", RecordType::A), ["NxDomain"]);
}

#[test]
fn records_carry_the_time_that_was_set() {
    let name = Name::from_ascii("web.demo.svc.cluster.local.").unwrap();
    let Answer::Records { answers, .. } = cluster().lookup(&name, RecordType::A) else { panic!() };
    assert_eq!(answers[0].ttl, 30);
}

#[test]
fn a_headless_service_has_the_addresses_of_its_ready_endpoints() {
    let names = cluster();
    let a = ask(&names, "db.demo.svc.cluster.local.", RecordType::A);
    assert_eq!(a, ["10.244.0.7", "10.244.0.8"]);
    assert_eq!(ask(&names, "db.demo.svc.cluster.local.", RecordType::AAAA), ["fd00:10:244::7"]);
    assert_eq!(ask(&names, "eager.demo.svc.cluster.local.", RecordType::A), ["10.244.0.20"]);
    assert_eq!(ask(&names, "eager.demo.svc.cluster.local.", RecordType::AAAA), ["NoData"]);
    assert_eq!(ask(&names, "empty.demo.svc.cluster.local.", RecordType::A), ["NxDomain"]);
}

#[test]
fn endpoints_have_names_of_their_own() {
    let names = cluster();
    assert_eq!(ask(&names, "db-0.db.demo.svc.cluster.local.", RecordType::A), ["10.244.0.7"]);
    assert_eq!(
        ask(&names, "db-0.db.demo.svc.cluster.local.", RecordType::AAAA),
        ["fd00:10:244::7"]
    );
    assert_eq!(ask(&names, "10-244-0-8.db.demo.svc.cluster.local.", RecordType::A), ["10.244.0.8"]);
    assert_eq!(ask(&names, "db-2.db.demo.svc.cluster.local.", RecordType::A), ["NxDomain"]);
}

#[test]
fn ports_are_found_by_name_and_protocol() {
    let names = cluster();
    assert_eq!(
        ask(&names, "_http._tcp.web.demo.svc.cluster.local.", RecordType::SRV),
        ["0 100 80 web.demo.svc.cluster.local."]
    );
    assert_eq!(
        ask(&names, "_http._tcp.db.demo.svc.cluster.local.", RecordType::SRV),
        [
            "0 33 8080 10-244-0-8.db.demo.svc.cluster.local.",
            "0 33 8080 db-0.db.demo.svc.cluster.local.",
        ]
    );
    assert_eq!(
        ask(&names, "web.demo.svc.cluster.local.", RecordType::SRV),
        ["0 50 53 web.demo.svc.cluster.local.", "0 50 80 web.demo.svc.cluster.local."]
    );
    for missing in ["_http._udp.web", "_nope._tcp.web", "http.tcp.web", "_http._tcp.nope"] {
        let name = format!("{missing}.demo.svc.cluster.local.");
        assert_eq!(ask(&names, &name, RecordType::SRV), ["NxDomain"], "{name}");
    }
    assert_eq!(ask(&names, "_http._tcp.web.demo.svc.cluster.local.", RecordType::A), ["NoData"]);
}

#[test]
fn targets_of_ports_come_with_their_addresses() {
    let name = Name::from_ascii("_http._tcp.db.demo.svc.cluster.local.").unwrap();
    let Answer::Records { additionals, .. } = cluster().lookup(&name, RecordType::SRV) else {
        panic!()
    };
    let mut shown: Vec<_> = additionals.iter().map(|r| r.data.to_string()).collect();
    shown.sort();
    assert_eq!(shown, ["10.244.0.7", "10.244.0.8", "fd00:10:244::7"]);
}

#[test]
fn an_external_name_is_an_alias() {
    let names = cluster();
    assert_eq!(ask(&names, "ext.demo.svc.cluster.local.", RecordType::A), ["www.example.org."]);
    assert_eq!(
        ask(&names, "alias.demo.svc.cluster.local.", RecordType::A),
        ["web.demo.svc.cluster.local."]
    );
}

#[test]
fn pods_are_named_after_their_addresses() {
    let names = cluster();
    assert_eq!(ask(&names, "10-244-0-5.demo.pod.cluster.local.", RecordType::A), ["10.244.0.5"]);
    assert_eq!(ask(&names, "fd00-10--5.demo.pod.cluster.local.", RecordType::AAAA), ["fd00:10::5"]);
    assert_eq!(ask(&names, "10-244-0-5.demo.pod.cluster.local.", RecordType::AAAA), ["NoData"]);
    assert_eq!(ask(&names, "nonsense.demo.pod.cluster.local.", RecordType::A), ["NxDomain"]);
}

#[test]
fn addresses_lead_back_to_names() {
    let names = cluster();
    assert_eq!(
        ask(&names, "50.0.96.10.in-addr.arpa.", RecordType::PTR),
        ["web.demo.svc.cluster.local."]
    );
    assert_eq!(
        ask(&names, "7.0.244.10.in-addr.arpa.", RecordType::PTR),
        ["db-0.db.demo.svc.cluster.local."]
    );
    let v6 = "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.4.4.2.0.0.1.0.0.0.0.d.f.ip6.arpa.";
    assert_eq!(ask(&names, v6, RecordType::PTR), ["db-0.db.demo.svc.cluster.local."]);
    assert_eq!(ask(&names, "9.9.244.10.in-addr.arpa.", RecordType::PTR), ["NxDomain"]);
    assert_eq!(ask(&names, "8.8.8.8.in-addr.arpa.", RecordType::PTR), ["NotMine"]);
}

#[test]
fn names_on_the_way_exist_without_records() {
    let names = cluster();
    for name in
        ["cluster.local.", "svc.cluster.local.", "demo.svc.cluster.local.", "pod.cluster.local."]
    {
        assert_eq!(ask(&names, name, RecordType::A), ["NoData"], "{name}");
    }
    assert_eq!(ask(&names, "nothing.svc.cluster.local.", RecordType::A), ["NxDomain"]);
    assert_eq!(ask(&names, "www.google.com.svc.cluster.local.", RecordType::A), ["NxDomain"]);
    assert_eq!(ask(&names, "dns-version.cluster.local.", RecordType::TXT), ["1.1.0"]);
    assert_eq!(ask(&names, "cluster.local.", RecordType::SOA).len(), 1);
}

#[test]
fn the_outside_world_has_names_and_the_rest_is_not_ours() {
    let names = cluster();
    assert_eq!(ask(&names, "api.example.com.", RecordType::A), ["203.0.113.10"]);
    assert_eq!(ask(&names, "api.example.com.", RecordType::AAAA), ["2001:db8::10"]);
    assert_eq!(ask(&names, "www.example.com.", RecordType::A), ["NotMine"]);
}

#[test]
fn a_slice_that_moves_to_another_service_leaves_the_first() {
    let mut model = Model::default();
    let read = |v: Value| serde_json::from_value(v).unwrap();
    model.apply_slice(&read(slice("s", "one", "IPv4", json!([{ "addresses": ["10.0.0.1"] }]))));
    model.apply_slice(&read(slice("s", "two", "IPv4", json!([{ "addresses": ["10.0.0.1"] }]))));
    let key = |name: &str| Key { namespace: "demo".to_owned(), name: name.to_owned() };
    assert_eq!(model.slices(&key("one")).count(), 0);
    assert_eq!(model.slices(&key("two")).count(), 1);
}
