//! Nodes as agents write them, and nodes as nobody should.

use proptest::prelude::*;
use serde_json::json;

use super::{Error, Interception, Proxy, ProxyKind, Version};
use crate::testing::{apply, cluster, node, store, web};

fn parse(id: &str, metadata: serde_json::Value) -> Result<Proxy, Error> {
    Proxy::parse(&node(id, metadata), &cluster())
}

#[test]
fn a_sidecar_tells_all_about_itself() {
    let proxy = parse(
        "sidecar~10.0.0.1~web-1.a~a.svc.cluster.local",
        json!({
            "NAME": "web-1", "NAMESPACE": "a", "SERVICE_ACCOUNT": "web", "CLUSTER_ID": "east", "NETWORK": "n1",
            "LABELS": {"app": "web", "istio-locality": "r.z"}, "INSTANCE_IPS": "10.0.0.1, fd00::1,nonsense",
            "INTERCEPTION_MODE": "TPROXY", "ISTIO_VERSION": "1.27.3", "DNS_CAPTURE": "true", "DNS_AUTO_ALLOCATE": true,
            "POD_PORTS": "[{\"name\":\"http\",\"containerPort\":8080,\"protocol\":\"TCP\"},{\"containerPort\":0}]",
            "PROXY_CONFIG": {"concurrency": 2}, "WORKLOAD_NAME": "web", "MESH_ID": "m", "HTTP10": "1",
        }),
    )
    .unwrap();
    assert_eq!((proxy.kind, proxy.pod_name()), (ProxyKind::Sidecar, Some("web-1")));
    assert_eq!(
        proxy.ips.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.0.0.1", "fd00::1"]
    );
    assert!(proxy.supports_ipv4() && proxy.supports_ipv6());
    assert_eq!(
        (proxy.namespace.as_str(), proxy.cluster.as_str(), &*proxy.network),
        ("a", "east", "n1")
    );
    assert_eq!(proxy.service_account.unwrap().as_str(), "web");
    assert_eq!(proxy.locality.to_string(), "r/z");
    assert_eq!(proxy.version, Version { major: 1, minor: 27, patch: 3 });
    let metadata = &proxy.metadata;
    assert_eq!(metadata.interception, Interception::Tproxy);
    assert!(metadata.dns_capture && metadata.dns_auto_allocate && metadata.http10);
    assert_eq!(metadata.pod_ports.len(), 1);
    assert_eq!(metadata.proxy_config.as_ref().unwrap()["concurrency"], 2);
    assert_eq!(&*proxy.domain, "a.svc.cluster.local");
}

#[test]
fn kinds_and_bad_ids() {
    for (id, metadata, kind) in [
        ("router~10.0.0.1~gw.a~a.svc.cluster.local", json!({}), ProxyKind::Router),
        ("router~~gw.a~a.svc.cluster.local", json!({}), ProxyKind::Router),
        ("waypoint~10.0.0.1~w.a~a.svc.cluster.local", json!({}), ProxyKind::Waypoint),
        ("ztunnel~10.0.0.1~z.a~a.svc.cluster.local", json!({}), ProxyKind::Ztunnel),
        (
            "sidecar~10.0.0.1~c.a~a.svc.cluster.local",
            json!({"GENERATOR": "grpc"}),
            ProxyKind::GrpcClient,
        ),
    ] {
        let proxy = parse(id, metadata).unwrap();
        assert_eq!((proxy.kind, proxy.namespace.as_str()), (kind, "a"), "{id}");
    }
    for bad in ["", "sidecar", "sidecar~1~2", "other~10.0.0.1~a.b~c", "sidecar~10.0.0.1~a.b~c~d"] {
        assert!(matches!(parse(bad, json!({})), Err(Error::Id { .. })), "{bad}");
    }
    assert!(matches!(parse("sidecar~x~a.b~c", json!({})), Err(Error::Ip { .. })));
    assert!(matches!(parse("sidecar~1.1.1.1~a.b~", json!({})), Err(Error::Namespace { .. })));
    assert!(matches!(
        parse(&"x".repeat(5000), json!({})),
        Err(Error::TooLarge { field: "id", .. })
    ));
    let many: serde_json::Map<_, _> = (0..1001).map(|n| (n.to_string(), json!(""))).collect();
    let labels = parse("sidecar~1.1.1.1~a.b~b.c", json!({"LABELS": many}));
    assert!(matches!(labels, Err(Error::TooLarge { field: "LABELS", .. })));
}

#[test]
fn versions_are_read_or_newest() {
    for (text, version) in [
        ("1.27.1", (1, 27, 1)),
        ("1.27", (1, 27, 0)),
        ("1.27-alpha.3", (1, 27, 0)),
        ("1.27.1-rc.0", (1, 27, 1)),
        ("unknown", (u32::MAX, u32::MAX, u32::MAX)),
        ("", (u32::MAX, u32::MAX, u32::MAX)),
    ] {
        let found = Version::parse(text);
        assert_eq!((found.major, found.minor, found.patch), version, "{text}");
    }
    assert!(Version::NEWEST.at_least(1, 27) && !Version::parse("1.26.9").at_least(1, 27));
}

#[test]
fn pods_of_one_deployment_are_of_one_class() {
    let mut store = store(&web("web", "a", "10.0.0.1"));
    apply(
        &mut store,
        &web("web", "a", "10.0.0.1").replace("web-1", "web-2").replace("10.0.0.1", "10.0.0.2"),
    );
    let snapshot = store.take().unwrap().snapshot;
    let class = |n: u8| {
        let metadata = json!({
            "NAME": format!("web-{n}"), "NAMESPACE": "a", "INSTANCE_IPS": format!("10.0.0.{n}"),
            "LABELS": {"app": "web", "statefulset.kubernetes.io/pod-name": format!("web-{n}")},
        });
        let id = format!("sidecar~10.0.0.{n}~web-{n}.a~a.svc.cluster.local");
        snapshot.class_of(&parse(&id, metadata).unwrap())
    };
    assert_eq!(class(1), class(2));
    assert_eq!(class(1).key(), class(2).key());
    assert_eq!(class(1).instances, class(7).instances, "a pod not known yet is as its labels say");
    let instances = &class(1).instances;
    assert_eq!((instances.len(), instances[0].port, instances[0].target), (1, 80, 8080));
}

#[test]
fn a_label_of_one_pod_counts_if_something_selects_by_it() {
    let label = "statefulset.kubernetes.io/pod-name";
    let class = |more: &str| {
        let snapshot =
            crate::testing::snapshot(&format!("{}\n---\n{more}", web("web", "b", "10.0.0.1")));
        crate::testing::class(&snapshot, "a", &[("app", "x"), (label, "x-0")])
    };
    let policy = format!(
        "
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {{name: p, namespace: a}}
spec: {{selector: {{matchLabels: {{{label}: x-0}}}}}}
"
    );
    assert!(class(&policy).labels.contains_key(label));
    assert!(!class(&policy.replace(label, "app")).labels.contains_key(label));
}

#[test]
fn named_ports_are_found_in_the_pod_or_in_the_metadata() {
    let service = web("web", "a", "10.0.0.1").replace("targetPort: 8080", "targetPort: web");
    let snapshot = crate::testing::snapshot(&service);
    let target = |id: &str, ports: serde_json::Value| {
        let metadata = json!({"NAMESPACE": "a", "LABELS": {"app": "web"}, "POD_PORTS": ports});
        let class = snapshot.class_of(
            &parse(&format!("sidecar~10.0.0.1~{id}.a~a.svc.cluster.local"), metadata).unwrap(),
        );
        class.instances.iter().map(|instance| instance.target).collect::<Vec<_>>()
    };
    assert_eq!(target("web-1", json!([])), [8080]);
    assert_eq!(target("web-9", json!([])), [8080], "found by its address");
}

#[test]
fn services_without_selector_are_served_by_address() {
    let snapshot = crate::testing::snapshot(
        "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: e, namespace: a}
spec:
  hosts: [x.example.com]
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.9.9.9, ports: {http: 8081}}]
",
    );
    let class = crate::testing::class(&snapshot, "a", &[]);
    assert_eq!(
        (class.instances.len(), class.instances[0].port, class.instances[0].target),
        (1, 80, 8081)
    );
}

fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        "[a-z0-9.,:{}\\[\\]\"~]{0,20}".prop_map(Into::into),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map("[a-zA-Z_]{0,8}", inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_node_is_read_or_refused(
        id in "(sidecar|router|ztunnel|x)?~?[0-9a-f.:]{0,12}~[a-z0-9.-]{0,12}~[a-z.]{0,12}(~x)?",
        fields in prop::collection::btree_map(
            prop::sample::select(vec![
                "NAMESPACE", "LABELS", "ANNOTATIONS", "INSTANCE_IPS", "POD_PORTS", "PROXY_CONFIG", "ISTIO_VERSION",
                "CLUSTER_ID", "NETWORK", "DNS_CAPTURE", "GENERATOR", "REQUESTED_NETWORK_VIEW", "SERVICE_ACCOUNT",
            ]),
            value(),
            0..8,
        ),
    ) {
        let metadata = fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        if let Ok(proxy) = parse(&id, serde_json::Value::Object(metadata)) {
            let snapshot = crate::testing::snapshot("");
            prop_assert_eq!(snapshot.class_of(&proxy).key(), snapshot.class_of(&proxy).key());
        }
    }
}
