//! Which of several rules counts, as tables: rules in, the cluster that a request goes to out.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "golden/case.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod case;

use ironsail_api::ClusterId;
use ironsail_model::{Proxy, Scope};
use ironsail_proto::from_json;
use ironsail_translate::{cluster, endpoint, route};
use serde_json::{Value, json};

/// One service in namespace `own`, with two versions.
const WORLD: &str = "
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: own}
spec: {clusterIP: 10.96.0.9, ports: [{name: http, port: 80}, {name: http-other, port: 81}]}
---
apiVersion: v1
kind: Service
metadata: {name: other, namespace: own}
spec: {clusterIP: 10.96.0.10, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: echo, namespace: own, labels: {kubernetes.io/service-name: echo}}
addressType: IPv4
ports: [{name: http, port: 80}, {name: http-other, port: 81}]
endpoints:
- {addresses: [10.1.0.1], conditions: {ready: true}, targetRef: {kind: Pod, name: one, namespace: own}}
- {addresses: [10.1.0.2], conditions: {ready: true}, targetRef: {kind: Pod, name: two, namespace: own}}
---
apiVersion: v1
kind: Pod
metadata: {name: one, namespace: own, labels: {version: v1}}
spec: {containers: []}
status: {phase: Running, podIP: 10.1.0.1}
---
apiVersion: v1
kind: Pod
metadata: {name: two, namespace: own, labels: {version: v2}}
spec: {containers: []}
status: {phase: Running, podIP: 10.1.0.2}
";

/// The mesh with these rules, as a proxy of the namespace sees it.
struct Seen {
    snapshot: std::sync::Arc<ironsail_model::Snapshot>,
    class: ironsail_model::ProxyClass,
    scope: Scope,
}

impl Seen {
    fn by(namespace: &str, rules: &[Value]) -> Self {
        let mut documents = ironsail_yaml::documents(WORLD).unwrap();
        documents.extend(rules.iter().cloned());
        let snapshot = case::snapshot(&documents);
        let node = json!({
            "id": format!("sidecar~10.0.0.1~client-1.{namespace}~{namespace}.svc.cluster.local"),
            "metadata": {"NAMESPACE": namespace, "CLUSTER_ID": "Kubernetes", "LABELS": {"team": "red"}},
        });
        let node = from_json(&node).unwrap();
        let proxy = Proxy::parse(&node, &ClusterId::from("Kubernetes")).unwrap();
        let class = snapshot.class_of(&proxy);
        let scope = Scope::of(&snapshot, &class);
        Self { snapshot, class, scope }
    }

    /// The subset of the last route for `host`, and whether anybody was told of a conflict.
    fn subset(&self, host: &str) -> (String, bool) {
        let view = route::view(&self.snapshot, &self.scope, &self.class, "80");
        let made = route::translate(&view);
        let has = |domain: &String| domain == host;
        let hosts = &made.value.virtual_hosts;
        let found = hosts.iter().find(|h| h.domains.iter().any(has)).unwrap();
        let json = ironsail_proto::to_json(found.routes.last().unwrap()).unwrap();
        let cluster = json["route"]["cluster"].as_str().unwrap_or_default();
        let subset = cluster.split('|').nth(2).unwrap_or("(none)").to_owned();
        (subset, !made.diagnostics.is_empty())
    }

    /// The addresses behind a subset of the service.
    fn addresses(&self, subset: &str) -> Vec<String> {
        let name = format!("outbound|80|{subset}|{ECHO}").parse().unwrap();
        let Some(view) = endpoint::view(&self.snapshot, &self.scope, &self.class, &name) else {
            return Vec::new();
        };
        let text = ironsail_proto::to_json(&endpoint::translate(&view).value).unwrap().to_string();
        ["10.1.0.1", "10.1.0.2"]
            .iter()
            .filter(|ip| text.contains(**ip))
            .map(ToString::to_string)
            .collect()
    }

    /// The load balancing of the service's cluster.
    fn balance(&self, port: u16, subset: &str) -> String {
        let name = format!("outbound|{port}|{subset}|{ECHO}");
        let view = cluster::view(&self.snapshot, &self.scope, &self.class, &name).unwrap();
        let json = ironsail_proto::to_json(&cluster::translate(&view).value).unwrap();
        json["lbPolicy"].as_str().unwrap_or("ROUND_ROBIN").to_owned()
    }
}

const ECHO: &str = "echo.own.svc.cluster.local";

/// A VirtualService: age in seconds, name, namespace, hosts, and the subset it leads to.
fn service(age: u32, name: &str, namespace: &str, hosts: &[&str], subset: &str) -> Value {
    json!({"apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": made(age)},
        "spec": {"hosts": hosts, "http": [{"route": [{"destination": {"host": ECHO, "subset": subset}}]}]}})
}

fn made(age: u32) -> String {
    format!("2024-01-01T00:00:{:02}Z", 59 - age)
}

fn exported(mut object: Value, to: &[&str]) -> Value {
    object["spec"]["exportTo"] = json!(to);
    object
}

#[test]
fn of_several_virtual_services_one_counts() {
    let own = "*.own.svc.cluster.local";
    let table: Vec<(&str, Vec<Value>, &str, bool)> = vec![
        ("the only one", vec![service(0, "a", "own", &[ECHO], "x")], "x", false),
        (
            "the older",
            vec![service(1, "b", "own", &[ECHO], "x"), service(9, "c", "own", &[ECHO], "y")],
            "y",
            true,
        ),
        (
            "of equal age the first by name",
            vec![service(1, "b", "own", &[ECHO], "x"), service(1, "a", "own", &[ECHO], "y")],
            "y",
            true,
        ),
        (
            "of equal age and name the first by namespace",
            vec![service(1, "a", "own", &[ECHO], "x"), service(1, "a", "far", &[ECHO], "y")],
            "y",
            true,
        ),
        (
            "an exact host before an older wildcard",
            vec![service(9, "a", "own", &[own], "x"), service(1, "b", "own", &[ECHO], "y")],
            "y",
            false,
        ),
        (
            "a longer wildcard before an older shorter one",
            vec![
                service(9, "a", "own", &["*.svc.cluster.local"], "x"),
                service(1, "b", "own", &[own], "y"),
            ],
            "y",
            false,
        ),
        (
            "a short name means the own namespace",
            vec![service(9, "a", "far", &["echo"], "x"), service(1, "b", "own", &["echo"], "y")],
            "y",
            false,
        ),
        (
            "one that is not exported here does not count",
            vec![
                exported(service(9, "a", "far", &[ECHO], "x"), &["."]),
                service(1, "b", "own", &[ECHO], "y"),
            ],
            "y",
            false,
        ),
        (
            "one that names this namespace does",
            vec![
                exported(service(9, "a", "far", &[ECHO], "x"), &["own"]),
                service(1, "b", "own", &[ECHO], "y"),
            ],
            "x",
            true,
        ),
    ];
    for (name, rules, wanted, told) in table {
        let seen = Seen::by("own", &rules);
        assert_eq!(seen.subset(ECHO), (wanted.to_owned(), told), "{name}");
        // In another order of arrival it is the same.
        let turned: Vec<Value> = rules.into_iter().rev().collect();
        assert_eq!(Seen::by("own", &turned).subset(ECHO).0, wanted, "{name}, turned around");
    }
}

/// A DestinationRule whose subset `it` means this version.
fn rule(age: u32, name: &str, namespace: &str, host: &str, version: &str) -> Value {
    json!({"apiVersion": "networking.istio.io/v1", "kind": "DestinationRule",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": made(age)},
        "spec": {"host": host, "subsets": [{"name": "it", "labels": {"version": version}}]}})
}

fn selected(mut object: Value, team: &str) -> Value {
    object["spec"]["workloadSelector"] = json!({"matchLabels": {"team": team}});
    object
}

#[test]
fn of_several_destination_rules_one_counts() {
    let (v1, v2) = ("10.1.0.1", "10.1.0.2");
    let wild = "*.own.svc.cluster.local";
    let root = "istio-system";
    // Who asks, the rules, and the address of subset `it`.
    let table: Vec<(&str, &str, Vec<Value>, Option<&str>)> = vec![
        ("no rule", "own", vec![], None),
        ("the service's namespace", "far", vec![rule(0, "a", "own", ECHO, "v1")], Some(v1)),
        (
            "the client's namespace first",
            "far",
            vec![rule(9, "a", "own", ECHO, "v1"), rule(0, "b", "far", ECHO, "v2")],
            Some(v2),
        ),
        ("not a third namespace's", "far", vec![rule(9, "a", "third", ECHO, "v1")], None),
        ("the root namespace", "far", vec![rule(0, "a", root, ECHO, "v2")], Some(v2)),
        (
            "the root namespace last",
            "far",
            vec![rule(9, "a", root, ECHO, "v2"), rule(0, "b", "own", ECHO, "v1")],
            Some(v1),
        ),
        (
            "a wildcard of the client's namespace before the exact host of the service's",
            "far",
            vec![rule(0, "a", "far", wild, "v2"), rule(9, "b", "own", ECHO, "v1")],
            Some(v2),
        ),
        (
            "in one namespace the exact host first",
            "own",
            vec![rule(9, "a", "own", wild, "v2"), rule(0, "b", "own", ECHO, "v1")],
            Some(v1),
        ),
        (
            "one that is not exported to the client does not count",
            "far",
            vec![exported(rule(9, "a", "own", ECHO, "v1"), &["."]), rule(0, "b", root, ECHO, "v2")],
            Some(v2),
        ),
        (
            "a selector that means the client",
            "own",
            vec![rule(9, "a", "own", ECHO, "v1"), selected(rule(0, "b", "own", ECHO, "v2"), "red")],
            Some(v2),
        ),
        (
            "a selector that means somebody else",
            "own",
            vec![
                rule(0, "a", "own", ECHO, "v1"),
                selected(rule(9, "b", "own", ECHO, "v2"), "blue"),
            ],
            Some(v1),
        ),
        (
            "a selector counts only in its own namespace",
            "far",
            vec![rule(0, "a", "own", ECHO, "v1"), selected(rule(9, "b", "own", ECHO, "v2"), "red")],
            Some(v1),
        ),
        (
            "of two for a host the older subset",
            "own",
            vec![rule(1, "a", "own", ECHO, "v1"), rule(9, "b", "own", ECHO, "v2")],
            Some(v2),
        ),
    ];
    for (name, client, rules, wanted) in table {
        let wanted: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        assert_eq!(Seen::by(client, &rules).addresses("it"), wanted, "{name}");
        let turned: Vec<Value> = rules.into_iter().rev().collect();
        assert_eq!(Seen::by(client, &turned).addresses("it"), wanted, "{name}, turned around");
    }
}

#[test]
fn rules_for_one_host_are_put_together() {
    let mut first = rule(9, "a", "own", ECHO, "v1");
    first["spec"]["trafficPolicy"] = json!({"loadBalancer": {"simple": "RANDOM"}});
    let mut second = rule(1, "b", "own", ECHO, "v2");
    second["spec"]["subsets"][0]["name"] = json!("more");
    second["spec"]["trafficPolicy"] = json!({"loadBalancer": {"simple": "ROUND_ROBIN"}});
    let seen = Seen::by("own", &[first, second]);
    assert_eq!(seen.addresses("it"), ["10.1.0.1"]);
    assert_eq!(seen.addresses("more"), ["10.1.0.2"], "subsets add up");
    assert_eq!(seen.balance(80, ""), "RANDOM", "the policy of the older");
    assert_eq!(seen.balance(80, "more"), "RANDOM", "for all subsets");
}

#[test]
fn of_several_policies_in_a_rule_the_narrowest_counts() {
    let simple = |kind: &str| json!({"loadBalancer": {"simple": kind}});
    let at_81 = |kind: &str| json!([{"port": {"number": 81}, "loadBalancer": {"simple": kind}}]);
    // The rule's policy, the subset's; then what counts: for the service and its other port, for the
    // subset and its other port.
    let table = [
        (json!({}), json!({}), ["LEAST_REQUEST"; 4]),
        (simple("RANDOM"), json!({}), ["RANDOM"; 4]),
        (
            simple("RANDOM"),
            simple("ROUND_ROBIN"),
            ["RANDOM", "RANDOM", "ROUND_ROBIN", "ROUND_ROBIN"],
        ),
        (
            json!({"loadBalancer": {"simple": "RANDOM"}, "portLevelSettings": at_81("ROUND_ROBIN")}),
            json!({}),
            ["RANDOM", "ROUND_ROBIN", "RANDOM", "ROUND_ROBIN"],
        ),
        (
            simple("RANDOM"),
            json!({"portLevelSettings": at_81("ROUND_ROBIN")}),
            ["RANDOM", "RANDOM", "RANDOM", "ROUND_ROBIN"],
        ),
        (
            // Settings of a port replace all of the rule's: nothing is inherited.
            json!({"loadBalancer": {"simple": "RANDOM"}, "portLevelSettings":
                [{"port": {"number": 81}, "connectionPool": {"tcp": {"maxConnections": 1}}}]}),
            json!({}),
            ["RANDOM", "LEAST_REQUEST", "RANDOM", "LEAST_REQUEST"],
        ),
    ];
    for (top, subset, wanted) in table {
        let mut object = rule(0, "a", "own", ECHO, "v1");
        object["spec"]["trafficPolicy"] = top.clone();
        object["spec"]["subsets"][0]["trafficPolicy"] = subset.clone();
        let seen = Seen::by("own", &[object]);
        let got = [
            seen.balance(80, ""),
            seen.balance(81, ""),
            seen.balance(80, "it"),
            seen.balance(81, "it"),
        ];
        assert_eq!(got, wanted, "{top} {subset}");
    }
}
