//! Services of Kubernetes.

use crate::testing::{key, snapshot};
use crate::{Protocol, Resolution, ServiceKind, TargetPort, TrafficDistribution};

#[test]
fn a_service_becomes_what_proxies_need() {
    let snapshot = snapshot(
        "
apiVersion: v1
kind: Service
metadata:
  name: httpbin
  namespace: foo
  labels: {app: httpbin}
  annotations: {networking.istio.io/exportTo: '., bar', other: x}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.1
  clusterIPs: [10.96.0.1, 'fd00::1']
  externalIPs: [192.0.2.1]
  selector: {app: httpbin}
  trafficDistribution: PreferClose
  internalTrafficPolicy: Local
  ports:
  - {name: http, port: 8000, targetPort: 80, nodePort: 30001}
  - {name: api, port: 9000, targetPort: grpc-api, appProtocol: kubernetes.io/h2c}
  - {name: db, port: 3306}
  - {name: dns, port: 53, protocol: UDP}
status: {loadBalancer: {ingress: [{ip: 192.0.2.2}]}}
",
    );
    let service = snapshot.service(&key("httpbin.foo.svc.cluster.local", "foo")).unwrap();
    assert_eq!(service.kind, ServiceKind::LoadBalancer);
    assert_eq!(service.resolution, Resolution::ClientSide);
    assert_eq!(
        service.addresses,
        ["10.96.0.1", "fd00::1"].map(|ip| ip.parse::<std::net::IpAddr>().unwrap())
    );
    assert_eq!(
        service.external_addresses,
        ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse::<std::net::IpAddr>().unwrap())
    );
    assert_eq!(service.distribution, TrafficDistribution::PreferSameZone);
    assert!(service.node_local && !service.external && !service.is_headless());
    let ports: Vec<_> =
        service.ports.iter().map(|p| (p.number, p.protocol, p.target.clone())).collect();
    assert_eq!(
        ports,
        [
            (8000, Protocol::Http, TargetPort::Number(80)),
            (9000, Protocol::Http2, TargetPort::Name("grpc-api".into())),
            (3306, Protocol::Tcp, TargetPort::Number(3306)),
            (53, Protocol::Udp, TargetPort::Number(53)),
        ]
    );
    assert_eq!(service.ports[0].node_port, Some(30001));
    for (namespace, seen) in [("foo", true), ("bar", true), ("baz", false)] {
        assert_eq!(service.export_to.includes(&namespace.parse().unwrap()), seen, "{namespace}");
    }
    assert_eq!(service.annotations.len(), 1, "annotations of others do not count");
    let found: Vec<_> = snapshot.services.with_address("fd00::1".parse().unwrap()).collect();
    assert_eq!(found.len(), 1);
}

#[test]
fn headless_services_pass_through_and_external_names_are_aliases() {
    let snapshot = snapshot(
        "
apiVersion: v1
kind: Service
metadata: {name: db, namespace: a}
spec: {clusterIP: None, selector: {app: db}, ports: [{name: tcp, port: 5432}]}
---
apiVersion: v1
kind: Service
metadata: {name: one, namespace: a}
spec: {type: ExternalName, externalName: db.a.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: two, namespace: b}
spec: {type: ExternalName, externalName: one.a.svc.cluster.local}
",
    );
    let db = snapshot.service(&key("db.a.svc.cluster.local", "a")).unwrap();
    assert!(db.is_headless() && db.addresses.is_empty() && db.embeds_endpoints());
    assert_eq!(db.resolution, Resolution::Passthrough);
    let one = snapshot.service(&key("one.a.svc.cluster.local", "a")).unwrap();
    assert_eq!(one.resolution, Resolution::Alias);
    let aliases = snapshot.services.aliases_of(db.hostname());
    let names: Vec<_> = aliases.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["a/one.a.svc.cluster.local", "b/two.b.svc.cluster.local"]);
}

#[test]
fn aliases_in_a_circle_end() {
    let snapshot = snapshot(
        "
apiVersion: v1
kind: Service
metadata: {name: one, namespace: a}
spec: {type: ExternalName, externalName: two.a.svc.cluster.local}
---
apiVersion: v1
kind: Service
metadata: {name: two, namespace: a}
spec: {type: ExternalName, externalName: one.a.svc.cluster.local}
",
    );
    let aliases = snapshot.services.aliases_of(&"one.a.svc.cluster.local".parse().unwrap());
    assert_eq!(aliases.len(), 1);
}

#[test]
fn what_is_no_name_is_reported_not_fatal() {
    let snapshot = snapshot(
        "
apiVersion: v1
kind: Service
metadata: {name: a, namespace: a, annotations: {networking.istio.io/exportTo: 'NO'}}
spec: {type: ExternalName, externalName: 'not a name', ports: [{name: x, port: 0}]}
",
    );
    let fields: Vec<_> = snapshot.diagnostics().filter_map(|d| d.field.as_deref()).collect();
    assert_eq!(fields, ["spec.externalName", "metadata.annotations", "spec.ports[0].port"]);
}
