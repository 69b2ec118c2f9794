//! Lookup of rules, policies and routes.

use std::collections::BTreeMap;

use ironsail_api::istio::security::MutualTlsMode as Mode;

use super::{Client, GatewayRef, Target};
use crate::Snapshot;
use crate::testing::{class, key, snapshot, web};

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn rule(name: &str, namespace: &str, rest: &str) -> String {
    format!(
        "
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {{name: {name}, namespace: {namespace}, creationTimestamp: '2026-01-01T00:00:00Z'}}
spec: {{{rest}}}
"
    )
}

/// The names of the objects that make the rule for `client` calling web in namespace a.
fn found(snapshot: &Snapshot, client: &str, own: &[(&str, &str)]) -> Vec<String> {
    let service = snapshot.service(&key("web.a.svc.cluster.local", "a")).unwrap();
    let client = Client {
        namespace: &client.parse().unwrap(),
        labels: &labels(own),
        root: snapshot.root_namespace(),
    };
    let rule = snapshot.config.rules.lookup(client, service);
    rule.map(|rule| rule.from.iter().map(|key| key.name.to_string()).collect()).unwrap_or_default()
}

#[test]
fn a_rule_of_the_client_comes_before_the_services_before_the_roots() {
    let base = web("web", "a", "10.0.0.1");
    let client = rule("client", "c", "host: web.a.svc.cluster.local");
    let wild = rule("wild", "c", "host: '*.local'");
    let service = rule("service", "a", "host: web");
    let root = rule("root", "istio-system", "host: '*.cluster.local'");
    let all = snapshot(&[&base, &*client, &wild, &service, &root].map(String::from).concat());
    assert_eq!(found(&all, "c", &[]), ["client"]);
    assert_eq!(found(&all, "a", &[]), ["service"]);
    assert_eq!(found(&all, "x", &[]), ["service"]);
    let some = snapshot(&[&base, &*wild, &service, &root].map(String::from).concat());
    assert_eq!(
        found(&some, "c", &[]),
        ["wild"],
        "a wildcard of the client beats an exact host of the service"
    );
    let some = snapshot(&[&*base, &root].map(String::from).concat());
    assert_eq!(found(&some, "x", &[]), ["root"]);
    // Wildcards of the root namespace are for the mesh: for a proxy there the service's rule is nearer.
    assert_eq!(found(&all, "istio-system", &[]), ["service"]);
}

#[test]
fn private_rules_are_not_seen_elsewhere() {
    let base = web("web", "a", "10.0.0.1");
    let all = snapshot(&(base + &rule("private", "a", "host: web, exportTo: [.]")));
    assert_eq!(found(&all, "a", &[]), ["private"]);
    assert!(found(&all, "c", &[]).is_empty());
}

#[test]
fn rules_for_one_host_are_merged() {
    let base = web("web", "a", "10.0.0.1");
    let one = rule("one", "a", "host: web, subsets: [{name: v1, labels: {version: v1}}]");
    let two = rule(
        "two",
        "a",
        "host: web.a.svc.cluster.local, trafficPolicy: {tls: {mode: DISABLE}}, subsets: [{name: v1, labels: {k: v}}, {name: v2, labels: {version: v2}}]",
    );
    let all = snapshot(&(base + &one + &two));
    assert_eq!(found(&all, "x", &[]), ["one", "two"]);
    let namespace = "a".parse().unwrap();
    let merged = all.config.rules.in_namespace(&namespace).next().unwrap();
    let subsets: Vec<_> =
        merged.spec.subsets.iter().map(|s| (s.name.as_str(), s.labels.len())).collect();
    assert_eq!(subsets, [("v1", 1), ("v2", 1)]);
    assert_eq!(merged.spec.subsets[0].labels["version"], "v1", "the first one counts");
    assert!(merged.spec.traffic_policy.is_some());
}

#[test]
fn a_rule_for_some_clients_is_for_them_only() {
    let base = web("web", "a", "10.0.0.1");
    let some = rule(
        "some",
        "c",
        "host: web.a.svc.cluster.local, workloadSelector: {matchLabels: {app: x}}",
    );
    let rest = rule("rest", "c", "host: web.a.svc.cluster.local");
    let all = snapshot(&(base + &some + &rest));
    assert_eq!(found(&all, "c", &[("app", "x")]), ["some"]);
    assert_eq!(found(&all, "c", &[("app", "y")]), ["rest"]);
}

fn peer(name: &str, namespace: &str, day: u8, rest: &str) -> String {
    format!(
        "
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {{name: {name}, namespace: {namespace}, creationTimestamp: '2026-01-0{day}T00:00:00Z'}}
spec: {{{rest}}}
"
    )
}

#[test]
fn the_mode_of_mutual_tls_is_inherited_from_mesh_to_port() {
    let mesh = peer("mesh", "istio-system", 1, "mtls: {mode: STRICT}");
    let space = peer("space", "a", 1, "mtls: {mode: DISABLE}");
    let unset = peer("space", "a", 1, "mtls: {mode: UNSET}");
    let own = peer(
        "own",
        "a",
        2,
        "selector: {matchLabels: {app: web}}, portLevelMtls: {80: {mode: DISABLE}, 81: {mode: UNSET}}",
    );
    let older = peer("older", "a", 1, "selector: {matchLabels: {app: web}}, mtls: {mode: STRICT}");
    let mode = |text: &str, namespace: &str, port: u16| {
        let snapshot = snapshot(text);
        let namespace = namespace.parse().unwrap();
        let labels = labels(&[("app", "web")]);
        snapshot.peer_mode(Target::workload(&namespace, &labels)).of_port(port)
    };
    assert_eq!(mode("", "a", 80), Mode::Permissive);
    assert_eq!(mode(&mesh, "a", 80), Mode::Strict);
    assert_eq!(mode(&(mesh.clone() + &space), "a", 80), Mode::Disable);
    assert_eq!(mode(&(mesh.clone() + &space), "b", 80), Mode::Strict);
    assert_eq!(mode(&(mesh.clone() + &unset), "a", 80), Mode::Strict);
    let all = mesh.clone() + &space + &own;
    assert_eq!(mode(&all, "a", 80), Mode::Disable);
    assert_eq!(mode(&(mesh.clone() + &own), "a", 81), Mode::Strict);
    assert_eq!(mode(&(mesh + &own + &older), "a", 80), Mode::Strict, "the oldest decides alone");
}

#[test]
fn policies_of_root_and_own_namespace_are_found_by_selector() {
    let policy = |name: &str, namespace: &str, rest: &str| {
        format!(
            "
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {{name: {name}, namespace: {namespace}}}
spec: {{{rest}}}
"
        )
    };
    let text = [
        policy("root", "istio-system", ""),
        policy("root-web", "istio-system", "selector: {matchLabels: {app: web}}"),
        policy("own", "a", ""),
        policy("own-other", "a", "selector: {matchLabels: {app: other}}"),
        policy("elsewhere", "b", ""),
        policy(
            "gateway",
            "a",
            "targetRefs: [{kind: Gateway, group: gateway.networking.k8s.io, name: gw}]",
        ),
    ]
    .concat();
    let snapshot = snapshot(&text);
    let names = |labels: &[(&str, &str)]| -> Vec<String> {
        let class = class(&snapshot, "a", labels);
        let found = snapshot
            .config
            .authorization_policies
            .for_workload(snapshot.root_namespace(), Target::from(&class));
        found.iter().map(|policy| policy.meta.name.clone()).collect()
    };
    assert_eq!(names(&[("app", "web")]), ["root", "root-web", "own"]);
    assert_eq!(
        names(&[("gateway.networking.k8s.io/gateway-name", "gw")]),
        ["root", "gateway", "own"]
    );
}

#[test]
fn routes_are_bound_to_gateways_and_clashes_reported() {
    let route = |name: &str, day: u8, rest: &str| {
        format!(
            "
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {{name: {name}, namespace: a, creationTimestamp: '2026-01-0{day}T00:00:00Z'}}
spec: {{{rest}, http: [{{route: [{{destination: {{host: web}}}}]}}]}}
"
        )
    };
    let text = [
        route("new", 3, "hosts: [web]"),
        route("old", 1, "hosts: [web.a.svc.cluster.local, x.com]"),
        route("edge", 2, "hosts: [x.com], gateways: [b/gw, mesh]"),
        route("edge2", 2, "hosts: [x.com], gateways: [b/gw], exportTo: [.]"),
    ]
    .concat();
    let snapshot = snapshot(&text);
    let bound = |gateway: &GatewayRef, namespace: &str| -> Vec<String> {
        let namespace = namespace.parse().unwrap();
        let routes = snapshot.config.routes.bound_to(gateway, &namespace);
        routes.map(|route| route.meta.name.clone()).collect()
    };
    assert_eq!(bound(&GatewayRef::Mesh, "a"), ["old", "edge", "new"]);
    let gateway = GatewayRef::named("b", "gw");
    assert_eq!(bound(&gateway, "a"), ["edge", "edge2"]);
    assert_eq!(bound(&gateway, "b"), ["edge"]);
    let notes: Vec<_> = snapshot.diagnostics().map(|d| (d.code.0, d.name.as_str())).collect();
    assert_eq!(notes, [("IST0109", "new"), ("IST0109", "edge"), ("IRN0102", "edge2")]);
    // Asked about one, as before it is written.
    let clashes = |name: &str| -> Vec<String> {
        let mut all = snapshot.config.virtual_services.iter();
        let object = all.find(|object| object.meta.name == name).unwrap();
        snapshot.clashes_of(object).into_iter().map(|d| d.message).collect()
    };
    assert_eq!(
        clashes("new"),
        [
            "host web.a.svc.cluster.local is routed by VirtualService a/old too; on the mesh gateway the oldest of them decides"
        ]
    );
    assert_eq!(clashes("old").len(), 2);
    assert!(clashes("edge2").is_empty());
}
