//! ServiceEntries and WorkloadEntries.

use crate::testing::{apply, delete, key, pod, snapshot, store, web};
use crate::{Protocol, Resolution, Snapshot};

fn entry(name: &str, rest: &str) -> String {
    format!(
        "
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: a, creationTimestamp: '2026-01-01T00:00:00Z'}}
spec:
{rest}
"
    )
}

fn at(snapshot: &Snapshot, host: &str, port: &str) -> Vec<String> {
    let endpoints = snapshot.endpoints_of(&key(host, "a"));
    endpoints.port(port).iter().map(|e| format!("{}:{}", e.address, e.port)).collect()
}

#[test]
fn every_host_is_a_service() {
    let snapshot = snapshot(&entry(
        "e",
        "  hosts: [One.example.com, '*.example.org']
  addresses: [192.0.2.1, 192.0.2.0/24, 192.0.2.9/32]
  location: MESH_INTERNAL
  resolution: STATIC
  exportTo: [.]
  subjectAltNames: [spiffe://x]
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}, {number: 1, name: what, protocol: ''}]
  endpoints:
  - {address: 10.0.0.1, ports: {http: 9090}, weight: 5, locality: r/z, serviceAccount: sa, labels: {version: v1}}
  - {address: 10.0.0.2}",
    ));
    let one = snapshot.service(&key("one.example.com", "a")).unwrap();
    assert!(snapshot.service(&key("*.example.org", "a")).is_some());
    assert_eq!((one.resolution, one.external), (Resolution::ClientSide, false));
    assert_eq!(
        one.addresses,
        ["192.0.2.1", "192.0.2.9"].map(|ip| ip.parse::<std::net::IpAddr>().unwrap())
    );
    assert_eq!(one.ranges, ["192.0.2.0/24".parse().unwrap()]);
    assert_eq!(one.ports[0].protocol, Protocol::Http);
    assert_eq!(one.ports[1].protocol, Protocol::Auto);
    assert!(one.auto_addresses.is_empty());
    assert_eq!(at(&snapshot, "one.example.com", "http"), ["10.0.0.1:9090", "10.0.0.2:8080"]);
    assert_eq!(at(&snapshot, "one.example.com", "what"), ["10.0.0.1:1", "10.0.0.2:1"]);
    let endpoints = snapshot.endpoints_of(&one.key);
    let first = &endpoints.port("http")[0];
    assert_eq!((first.weight, first.workload.locality.to_string().as_str()), (5, "r/z"));
    assert_eq!(first.workload.tls.as_str(), "istio", "an account means a certificate");
    assert_eq!(endpoints.port("http")[1].workload.tls.as_str(), "disabled");
}

#[test]
fn resolution_decides_where_endpoints_come_from() {
    for (resolution, resolved, endpoints) in [
        ("NONE", Resolution::Passthrough, vec![]),
        ("DNS", Resolution::Dns, vec!["x.example.com:443"]),
        ("DNS_ROUND_ROBIN", Resolution::DnsRoundRobin, vec!["x.example.com:443"]),
        ("DYNAMIC_DNS", Resolution::DynamicDns, vec![]),
    ] {
        let text = format!(
            "  hosts: [x.example.com]\n  resolution: {resolution}\n  ports: [{{number: 443, name: tls, protocol: TLS}}]"
        );
        let snapshot = snapshot(&entry("e", &text));
        let service = snapshot.service(&key("x.example.com", "a")).unwrap();
        assert_eq!(service.resolution, resolved);
        assert!(service.external);
        assert_eq!(at(&snapshot, "x.example.com", "tls"), endpoints, "{resolution}");
        assert_eq!(service.auto_addresses.is_empty(), resolution == "NONE", "{resolution}");
    }
}

#[test]
fn addresses_are_given_where_there_are_none() {
    let text = |more: &str| {
        entry(
            "e",
            &format!(
                "  hosts: [x.example.com]\n  resolution: DNS{more}\n  ports: [{{number: 80, name: http, protocol: HTTP}}]"
            ),
        )
    };
    let service = |text: &str| snapshot(text).service(&key("x.example.com", "a")).unwrap().clone();
    let given = service(&text(""));
    assert!(given.auto_addresses[0].to_string().starts_with("240.240."));
    assert!(given.auto_addresses[1].to_string().starts_with("2001:2:"));
    assert!(service(&text("\n  addresses: [192.0.2.1]")).auto_addresses.is_empty());
    let off = text("").replace(
        "name: e,",
        "name: e, labels: {networking.istio.io/enable-autoallocate-ip: 'false'},",
    );
    assert!(service(&off).auto_addresses.is_empty());
    assert!(snapshot(&text("")).services.with_address(given.auto_addresses[0]).next().is_some());
}

const WORKLOAD: &str = "
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: vm, namespace: a, labels: {app: web}}
spec: {address: 10.1.0.1, serviceAccount: vm, network: far, ports: {http: 8888}}
";

#[test]
fn an_entry_selects_workload_entries_and_ready_pods() {
    let text = entry(
        "e",
        "  hosts: [x.example.com]
  location: MESH_INTERNAL
  resolution: STATIC
  workloadSelector: {labels: {app: web}}
  ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8081}]",
    );
    let mut store = store(&text);
    apply(&mut store, WORKLOAD);
    apply(&mut store, &pod("web", "a", "10.0.0.1"));
    apply(&mut store, &pod("other", "a", "10.0.0.2"));
    apply(&mut store, &pod("web", "b", "10.0.0.3"));
    let update = store.take().unwrap();
    assert_eq!(at(&update.snapshot, "x.example.com", "http"), ["10.0.0.1:8081", "10.1.0.1:8888"]);
    apply(&mut store, &pod("web", "a", "10.0.0.1").replace("'True'", "'False'"));
    let update = store.take().unwrap();
    assert_eq!(at(&update.snapshot, "x.example.com", "http"), ["10.1.0.1:8888"]);
    assert!(update.changes.services.is_empty(), "{:?}", update.changes);
    delete(&mut store, WORKLOAD);
    assert!(at(&store.take().unwrap().snapshot, "x.example.com", "http").is_empty());
}

#[test]
fn a_kubernetes_service_selects_workload_entries() {
    let mut store = store(&web("web", "a", "10.0.0.1"));
    apply(&mut store, WORKLOAD);
    let snapshot = store.take().unwrap().snapshot;
    assert_eq!(
        at(&snapshot, "web.a.svc.cluster.local", "http"),
        ["10.0.0.1:8080", "10.1.0.1:8888"]
    );
    let endpoints = snapshot.endpoints_of(&key("web.a.svc.cluster.local", "a"));
    assert_eq!(&*endpoints.port("http")[1].workload.network, "far");
    assert_eq!(endpoints.identities.len(), 2);
}

#[test]
fn an_entry_of_the_mesh_adds_endpoints_to_a_kubernetes_service() {
    let more = entry(
        "more",
        "  hosts: [web.a.svc.cluster.local]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints: [{address: 10.2.0.1}]",
    );
    let snapshot = snapshot(&format!("{}\n---\n{more}", web("web", "a", "10.0.0.1")));
    assert_eq!(at(&snapshot, "web.a.svc.cluster.local", "http"), ["10.0.0.1:8080", "10.2.0.1:80"]);
    let service = snapshot.service(&key("web.a.svc.cluster.local", "a")).unwrap();
    assert_eq!(service.registry, crate::Registry::Kubernetes);
    assert_eq!(snapshot.diagnostics().count(), 0);
}

#[test]
fn entries_for_one_host_join_if_they_agree_and_the_oldest_decides() {
    let one = |name: &str, port: u16, resolution: &str| {
        entry(
            name,
            &format!(
                "  hosts: [x.example.com]\n  resolution: {resolution}\n  ports: [{{number: {port}, name: p{port}, protocol: TCP}}]"
            ),
        )
    };
    let joined = snapshot(&format!("{}\n---\n{}", one("b", 81, "DNS"), one("a", 80, "DNS")));
    let service = joined.service(&key("x.example.com", "a")).unwrap();
    assert_eq!(service.ports.iter().map(|p| p.number).collect::<Vec<_>>(), [80, 81]);
    assert_eq!(joined.diagnostics().count(), 0);

    let clash = snapshot(&format!("{}\n---\n{}", one("b", 81, "NONE"), one("a", 80, "DNS")));
    let service = clash.service(&key("x.example.com", "a")).unwrap();
    assert_eq!(service.ports.len(), 1);
    let notes: Vec<_> = clash.diagnostics().map(|d| d.name.clone()).collect();
    assert_eq!(notes, ["b"]);
}

#[test]
fn the_same_host_in_two_namespaces_is_reported() {
    let one = entry(
        "one",
        "  hosts: [x.example.com]\n  resolution: DNS\n  ports: [{number: 80, name: p, protocol: TCP}]",
    );
    let two = one.replace("namespace: a", "namespace: b");
    let both = snapshot(&format!("{one}\n---\n{two}"));
    let notes: Vec<_> = both.diagnostics().map(|d| (d.namespace.clone(), d.code.0)).collect();
    assert_eq!(notes, [("b".to_owned(), "IRN0103")]);
    let hidden = two.replace("  hosts", "  exportTo: [.]\n  hosts");
    let apart =
        snapshot(&format!("{}\n---\n{hidden}", one.replace("  hosts", "  exportTo: [.]\n  hosts")));
    assert_eq!(apart.diagnostics().count(), 0);
}

#[test]
fn addresses_of_the_status_are_kept_and_belong_to_nobody_else() {
    let one = |name: &str, status: &str| {
        let text = format!(
            "  hosts: [{name}.example.com]\n  resolution: DNS\n  ports: [{{number: 80, name: http, protocol: HTTP}}]\n{status}"
        );
        entry(name, &text)
    };
    let given = "status: {addresses: [{host: x.example.com, value: 240.240.7.7}, {host: other, value: 1.1.1.1}]}";
    let mut store = store(&one("x", given));
    let addresses = |snapshot: &Snapshot, name: &str| {
        let service = snapshot.service(&key(&format!("{name}.example.com"), "a")).unwrap();
        service.auto_addresses.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let snapshot = store.take().unwrap().snapshot;
    assert_eq!(addresses(&snapshot, "x"), ["240.240.7.7"]);
    // The one that has none yet is given others; once its status shows them nothing changes.
    apply(&mut store, &one("late", ""));
    let snapshot = store.take().unwrap().snapshot;
    let own = addresses(&snapshot, "late");
    assert_eq!(own.len(), 2);
    let rows: Vec<_> =
        own.iter().map(|ip| format!("{{host: late.example.com, value: '{ip}'}}")).collect();
    apply(&mut store, &one("late", &format!("status: {{addresses: [{}]}}", rows.join(", "))));
    if let Some(update) = store.take() {
        assert!(update.changes.services.is_empty(), "{:?}", update.changes);
        assert_eq!(addresses(&update.snapshot, "late"), own);
    }
}

#[test]
fn a_workload_entry_that_is_looked_after_counts_only_while_it_is_well() {
    let mut store = store(&web("web", "a", "10.0.0.1"));
    let checked = WORKLOAD.replace(
        "labels: {app: web}",
        "labels: {app: web}, annotations: {proxy.istio.io/health-checks-enabled: 'true'}",
    );
    let health = |store: &mut crate::Store, text: &str| {
        apply(store, text);
        let snapshot = store.take().unwrap().snapshot;
        let endpoints = snapshot.endpoints_of(&key("web.a.svc.cluster.local", "a"));
        endpoints.port("http")[1].health
    };
    let said = |status: &str| {
        format!("{checked}status: {{conditions: [{{type: Healthy, status: '{status}'}}]}}\n")
    };
    assert_eq!(health(&mut store, WORKLOAD), crate::Health::Healthy);
    assert_eq!(health(&mut store, &checked), crate::Health::Unhealthy);
    assert_eq!(health(&mut store, &said("True")), crate::Health::Healthy);
    assert_eq!(health(&mut store, &said("False")), crate::Health::Unhealthy);
}

#[test]
fn a_gateway_between_networks_is_reached_through_the_nodes_that_it_names() {
    let node = |name: &str, labels: &str, ip: &str| {
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: {name}, labels: {labels}}}, status: {{addresses: [{{type: ExternalIP, address: {ip}}}, {{type: InternalIP, address: 10.9.9.9}}]}}}}"
        )
    };
    let service = "
apiVersion: v1
kind: Service
metadata:
  name: eastwest
  namespace: istio-system
  labels: {topology.istio.io/network: far}
  annotations: {traffic.istio.io/nodeSelector: '{\"edge\": \"yes\"}'}
spec:
  type: NodePort
  clusterIP: 10.96.9.9
  ports: [{name: tls, port: 15443, nodePort: 31443}]
";
    let mut store = store(service);
    apply(&mut store, &node("n1", "{edge: 'yes'}", "192.0.2.1"));
    apply(&mut store, &node("n2", "{edge: 'no'}", "192.0.2.2"));
    let ways = |snapshot: &Snapshot| {
        let far = snapshot.gateways.get("far").cloned().unwrap_or_default();
        far.iter().map(|g| format!("{}:{}", g.address, g.port)).collect::<Vec<_>>()
    };
    assert_eq!(ways(&store.take().unwrap().snapshot), ["192.0.2.1:31443"]);
    apply(&mut store, &node("n2", "{edge: 'yes'}", "192.0.2.2"));
    assert_eq!(ways(&store.take().unwrap().snapshot), ["192.0.2.1:31443", "192.0.2.2:31443"]);
    apply(&mut store, &service.replace("'{\"edge\": \"yes\"}'", "'edge'"));
    let snapshot = store.take().unwrap().snapshot;
    assert!(ways(&snapshot).is_empty());
    assert!(snapshot.diagnostics().any(|d| d.message.contains("nodeSelector")));
}
