//! What proxies see.

use super::Scope;
use crate::testing::{class, snapshot, web};

fn entry(name: &str, namespace: &str, rest: &str) -> String {
    format!(
        "
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {{name: {name}, namespace: {namespace}, creationTimestamp: '2026-01-01T00:00:00Z'}}
spec: {{{rest}}}
"
    )
}

fn sidecar(name: &str, namespace: &str, rest: &str) -> String {
    format!(
        "
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{{rest}}}
"
    )
}

fn base() -> String {
    [
        web("web", "a", "10.0.0.1"),
        web("web", "b", "10.0.0.2"),
        web("private", "c", "10.0.0.3").replacen(
            "creationTimestamp",
            "annotations: {networking.istio.io/exportTo: '.'}, creationTimestamp",
            1,
        ),
    ]
    .join("\n---\n")
}

fn seen(text: &str, namespace: &str, labels: &[(&str, &str)]) -> Vec<String> {
    let snapshot = snapshot(text);
    let scope = Scope::of(&snapshot, &class(&snapshot, namespace, labels));
    scope
        .services
        .iter()
        .map(|service| service.name.to_string() + "." + service.namespace().as_str())
        .collect()
}

#[test]
fn by_default_all_that_is_exported_is_seen() {
    assert_eq!(seen(&base(), "a", &[]), ["web.a", "web.b"]);
    assert_eq!(seen(&base(), "c", &[]), ["private.c", "web.a", "web.b"]);
}

#[test]
fn a_sidecar_narrows_what_is_seen() {
    for (egress, all) in [
        ("[{hosts: ['./*']}]", vec!["web.a"]),
        ("[{hosts: ['b/*']}]", vec!["web.b"]),
        ("[{hosts: ['*/web.b.svc.cluster.local']}]", vec!["web.b"]),
        ("[{hosts: ['~/*']}]", vec![]),
        ("[{hosts: ['*/*']}]", vec!["web.a", "web.b"]),
        ("[{hosts: ['c/*', 'b/*']}]", vec!["web.b"]),
        ("[]", vec!["web.a", "web.b"]),
    ] {
        let text = base() + &sidecar("s", "a", &format!("egress: {egress}"));
        assert_eq!(seen(&text, "a", &[]), all, "{egress}");
        assert_eq!(seen(&text, "b", &[]), ["web.a", "web.b"], "others are not concerned");
    }
}

#[test]
fn the_sidecar_with_a_selector_wins_over_the_namespaces_over_the_roots() {
    let text = base()
        + &sidecar("root", "istio-system", "egress: [{hosts: ['~/*']}]")
        + &sidecar("whole", "a", "egress: [{hosts: ['./*']}]")
        + &sidecar("some", "a", "workloadSelector: {labels: {app: x}}, egress: [{hosts: ['b/*']}]");
    assert_eq!(seen(&text, "a", &[("app", "x")]), ["web.b"]);
    assert_eq!(seen(&text, "a", &[("app", "y")]), ["web.a"]);
    assert!(seen(&text, "b", &[]).is_empty());
}

#[test]
fn a_listener_with_a_port_sees_services_with_that_port() {
    let two = web("web", "a", "10.0.0.1").replace(
        "ports: [{name: http, port: 80, targetPort: 8080}]",
        "ports: [{name: http, port: 80, targetPort: 8080}, {name: tcp, port: 90}]",
    );
    let text = two
        + "\n---\n"
        + &web("web", "b", "10.0.0.2")
        + &sidecar(
            "s",
            "a",
            "egress: [{port: {number: 90, protocol: TCP, name: t}, hosts: ['*/*']}, {hosts: ['b/*']}]",
        );
    let snapshot = snapshot(&text);
    let scope = Scope::of(&snapshot, &class(&snapshot, "a", &[]));
    let first = &scope.egress[0];
    assert_eq!(first.port.as_ref().unwrap().number, 90);
    assert_eq!(first.services.len(), 1);
    assert_eq!(first.services[0].ports.len(), 1, "cut down to the port");
    assert_eq!(scope.egress[1].services.len(), 1);
    assert_eq!(scope.services.len(), 2);
    assert_eq!(scope.services[0].ports.len(), 2, "the whole service is known");
}

#[test]
fn where_a_visible_route_leads_is_seen() {
    let route = "
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: v, namespace: a}
spec: {hosts: [web], http: [{route: [{destination: {host: web.b.svc.cluster.local}}]}]}
";
    let text = base() + route + &sidecar("s", "a", "egress: [{hosts: ['./*']}]");
    assert_eq!(seen(&text, "a", &[]), ["web.a", "web.b"]);
}

#[test]
fn of_one_hostname_the_own_namespace_wins_then_kubernetes_then_the_oldest() {
    let rest =
        "hosts: [x.example.com], resolution: DNS, ports: [{number: 80, name: p, protocol: TCP}]";
    let text = entry("one", "a", rest) + &entry("two", "b", rest);
    let namespaces = |namespace: &str| seen(&text, namespace, &[]);
    assert_eq!(namespaces("a"), ["x.example.com.a"]);
    assert_eq!(namespaces("b"), ["x.example.com.b"]);
    assert_eq!(namespaces("z"), ["x.example.com.a"]);
    let squat = entry("squat", "'0'", &rest.replace("x.example.com", "web.a.svc.cluster.local"));
    assert_eq!(seen(&(web("web", "a", "10.0.0.1") + &squat), "z", &[]), ["web.a"]);
}

#[test]
fn a_proxy_serves_what_selects_it() {
    let snapshot = snapshot(&base());
    let scope = Scope::of(&snapshot, &class(&snapshot, "a", &[("app", "web")]));
    let own: Vec<_> = scope
        .instances
        .iter()
        .map(|own| (own.service.key.to_string(), own.port, own.target))
        .collect();
    assert_eq!(own, [("a/web.a.svc.cluster.local".to_owned(), 80, 8080)]);
    assert!(Scope::of(&snapshot, &class(&snapshot, "a", &[("app", "x")])).instances.is_empty());
}

#[test]
fn proxies_of_one_namespace_and_sidecar_share_a_scope() {
    let text = base()
        + &sidecar("s", "a", "workloadSelector: {labels: {app: x}}, egress: [{hosts: ['./*']}]");
    let snapshot = snapshot(&text);
    let key = |labels: &[(&str, &str)]| Scope::key(&snapshot, &class(&snapshot, "a", labels));
    assert_eq!(key(&[("app", "y")]), key(&[("app", "z")]));
    assert_ne!(key(&[("app", "x")]), key(&[("app", "z")]));
}
