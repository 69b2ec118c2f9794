//! EnvoyFilters on translated resources: what each operation does, and what is left out.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "golden/case.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod case;

use std::path::Path;
use std::sync::Arc;

use ironsail_api::ClusterId;
use ironsail_model::{Proxy, ProxyClass, Scope, Snapshot};
use ironsail_proto::envoy::config::bootstrap::v3::Bootstrap;
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::{from_json, to_json};
use ironsail_translate::patch::{Patches, Stage, check, contexts};
use ironsail_translate::{cluster, listener, route};
use serde_json::{Value, json};

/// The plain case with EnvoyFilters beside it; each is (namespace, name, spec).
struct World {
    snapshot: Arc<Snapshot>,
    class: ProxyClass,
}

/// All resources of the proxy, patched, and what was said.
#[derive(Debug)]
struct Made {
    listeners: Vec<Value>,
    routes: Vec<Value>,
    clusters: Vec<Value>,
    told: Vec<String>,
}

impl World {
    fn new(filters: &[(&str, &str, Value)]) -> Self {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/plain/input.yaml");
        let mut all = ironsail_yaml::documents(&std::fs::read_to_string(file).unwrap()).unwrap();
        for (namespace, name, spec) in filters {
            all.push(json!({
                "apiVersion": "networking.istio.io/v1alpha3", "kind": "EnvoyFilter",
                "metadata": {"name": name, "namespace": namespace}, "spec": spec
            }));
        }
        let snapshot = case::snapshot(&all);
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/plain/proxy.yaml");
        let settings: Value =
            ironsail_yaml::parse(&std::fs::read_to_string(file).unwrap()).unwrap();
        let mut node = settings["node"].clone();
        node["metadata"]["ISTIO_VERSION"] = json!("1.27.0");
        let node: Node = from_json(&node).unwrap();
        let proxy = Proxy::parse(&node, &ClusterId::from("Kubernetes")).unwrap();
        let class = snapshot.class_of(&proxy);
        Self { snapshot, class }
    }

    fn made(&self) -> Made {
        let (snapshot, class) = (&*self.snapshot, &self.class);
        let scope = Scope::of(snapshot, class);
        let patches = Patches::of(snapshot, class);
        let mut out = Made {
            listeners: Vec::new(),
            routes: Vec::new(),
            clusters: Vec::new(),
            told: Vec::new(),
        };
        let mut told = Vec::new();
        for view in listener::views(snapshot, &scope, class) {
            let made = patches.listener(view.context(), listener::translate(&view));
            told.extend(made.diagnostics);
            out.listeners.extend(made.value.map(|one| to_json(&one).unwrap()));
        }
        for view in route::views(snapshot, &scope, class) {
            let made = patches.route(view.context(), route::translate(&view));
            told.extend(made.diagnostics);
            out.routes.push(to_json(&made.value).unwrap());
        }
        for view in cluster::views(snapshot, &scope, class) {
            let translated = cluster::translate(&view);
            let made = patches.cluster(view.context(), &view.own_hosts(), translated);
            told.extend(made.diagnostics);
            out.clusters.extend(made.value.map(|one| to_json(&one).unwrap()));
        }
        for context in contexts(class.kind) {
            for (_, made) in patches.added_clusters(*context) {
                told.extend(made.diagnostics);
                out.clusters.extend(made.value.map(|one| to_json(&one).unwrap()));
            }
            for (_, made) in patches.added_listeners(*context) {
                told.extend(made.diagnostics);
                out.listeners.extend(made.value.map(|one| to_json(&one).unwrap()));
            }
        }
        out.told = told.iter().map(ToString::to_string).collect();
        out.told.sort();
        out.told.dedup();
        out.told.retain(|text| text.contains("EnvoyFilter"));
        out
    }
}

fn patched(patches: &Value) -> Made {
    World::new(&[("foo", "test", json!({"configPatches": patches}))]).made()
}

impl Made {
    fn listener(&self, name: &str) -> &Value {
        self.listeners.iter().find(|l| l["name"] == name).unwrap()
    }

    fn cluster(&self, name: &str) -> Option<&Value> {
        self.clusters.iter().find(|c| c["name"] == name)
    }

    /// The names of the HTTP filters of all connection managers of a listener.
    fn http(&self, name: &str) -> Vec<Vec<String>> {
        let chains = self.listener(name)["filterChains"].as_array().unwrap();
        let filters = chains.iter().flat_map(|chain| chain["filters"].as_array().unwrap());
        let stacks = filters.filter_map(|filter| filter["typedConfig"]["httpFilters"].as_array());
        stacks.map(|s| s.iter().map(|f| f["name"].as_str().unwrap().to_owned()).collect()).collect()
    }
}

fn lua(name: &str) -> Value {
    json!({"name": name, "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
        "default_source_code": {"inline_string": "function envoy_on_request(h) end"}}})
}

fn at_router(context: &str, operation: &str, value: &Value) -> Value {
    json!({"applyTo": "HTTP_FILTER",
        "match": {"context": context, "listener": {"filterChain": {"filter": {
            "name": "envoy.filters.network.http_connection_manager",
            "subFilter": {"name": "envoy.filters.http.router"}}}}},
        "patch": {"operation": operation, "value": value}})
}

#[test]
fn an_http_filter_stands_before_the_router_on_its_side_only() {
    let made = patched(&json!([at_router("SIDECAR_INBOUND", "INSERT_BEFORE", &lua("mine"))]));
    assert_eq!(made.told, Vec::<String>::new());
    let stacks = made.http("virtualInbound");
    assert!(!stacks.is_empty());
    for stack in stacks {
        assert_eq!(stack[stack.len() - 2..], ["mine", "envoy.filters.http.router"]);
    }
    let all: String = made.listeners.iter().map(ToString::to_string).collect();
    let inbound = made.listener("virtualInbound").to_string();
    assert_eq!(all.matches("\"mine\"").count(), inbound.matches("\"mine\"").count());
}

#[test]
fn every_place_among_http_filters_can_be_asked_for() {
    for (operation, wanted) in [("INSERT_FIRST", 0), ("INSERT_BEFORE", -2)] {
        let made = patched(&json!([at_router("SIDECAR_INBOUND", operation, &lua("mine"))]));
        for stack in made.http("virtualInbound") {
            let at = stack.iter().position(|name| name == "mine").unwrap();
            let wanted = if wanted < 0 { stack.len() - 2 } else { 0 };
            assert_eq!(at, wanted, "{operation}: {stack:?}");
        }
    }
    let mut patch = at_router("ANY", "REMOVE", &Value::Null);
    patch["patch"] = json!({"operation": "REMOVE"});
    patch["match"]["listener"]["filterChain"]["filter"]["subFilter"]["name"] =
        json!("envoy.filters.http.fault");
    let made = patched(&json!([patch]));
    for stack in made.http("virtualInbound") {
        assert!(!stack.iter().any(|name| name == "envoy.filters.http.fault"));
    }
}

#[test]
fn what_envoy_would_refuse_is_told_and_left_out_alone() {
    let broken = |change: fn(&mut Value)| {
        let mut value = lua("bad");
        change(&mut value);
        at_router("SIDECAR_INBOUND", "INSERT_BEFORE", &value)
    };
    let cases: [(&str, Value); 7] = [
        ("unrecognized field name", broken(|v| v["typed_config"]["inlin"] = json!("x"))),
        ("no.such.Type", broken(|v| v["typed_config"]["@type"] = json!("t/no.such.Type"))),
        (
            "Envoy has no http filter",
            broken(|v| {
                *v = json!({"name": "bad", "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                    "stat_prefix": "a", "cluster": "b"}});
            }),
        ),
        ("name: it must not be empty", broken(|v| drop(v.as_object_mut().unwrap().remove("name")))),
        (
            "stat_prefix",
            broken(|v| {
                *v = json!({"name": "bad", "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit"}});
            }),
        ),
        (
            "would stand behind the router",
            at_router("SIDECAR_INBOUND", "INSERT_AFTER", &lua("bad")),
        ),
        (
            "is no pattern",
            json!({"applyTo": "HTTP_ROUTE", "match": {"context": "SIDECAR_OUTBOUND"},
            "patch": {"operation": "INSERT_FIRST", "value": {"name": "bad",
                "match": {"safe_regex": {"regex": "("}},
                "direct_response": {"status": 200}}}}),
        ),
    ];
    for (why, patch) in cases {
        let made =
            patched(&json!([patch, at_router("SIDECAR_INBOUND", "INSERT_BEFORE", &lua("good"))]));
        assert_eq!(made.told.len(), 1, "{why}: {:?}", made.told);
        assert!(made.told[0].contains(why), "{why}: {:?}", made.told);
        assert!(made.told[0].contains("foo/test"), "{:?}", made.told);
        let all = format!("{made:?}");
        assert!(!all.contains("\"bad\""), "{why}");
        assert!(all.contains("\"good\""), "{why}");
    }
}

#[test]
fn clusters_are_merged_added_and_removed() {
    let outbound = |name: &str, patch: Value| {
        json!({"applyTo": "CLUSTER", "match": {"context": "SIDECAR_OUTBOUND",
            "cluster": {"name": name}}, "patch": patch})
    };
    let plain = World::new(&[]).made();
    let service = plain.clusters.iter().find(|c| c["type"] == "EDS").unwrap();
    let name = service["name"].as_str().unwrap();
    let made = patched(&json!([
        outbound(name, json!({"operation": "MERGE", "value": {
            "connect_timeout": "0.25s", "circuit_breakers": {"thresholds": [{"max_retries": 3}]}}})),
        outbound("PassthroughCluster", json!({"operation": "REMOVE"})),
        {"applyTo": "CLUSTER", "patch": {"operation": "ADD", "value": {
            "name": "mine", "type": "STATIC", "connect_timeout": "1s"}}},
        {"applyTo": "CLUSTER", "patch": {"operation": "ADD", "value": {
            "name": "wrong", "connect_timeout": "0s"}}},
        outbound(name, json!({"operation": "MERGE", "value": {"name": "other"}})),
    ]));
    let merged = made.cluster(name).unwrap();
    assert_eq!(merged["connectTimeout"], "0.250s");
    let before = service["circuitBreakers"]["thresholds"].as_array().map_or(0, Vec::len);
    let thresholds = merged["circuitBreakers"]["thresholds"].as_array().unwrap();
    assert_eq!(thresholds.len(), before + 1, "lists are appended");
    assert_eq!(thresholds[before]["maxRetries"], 3);
    assert!(made.cluster("PassthroughCluster").is_none());
    assert_eq!(made.clusters.iter().filter(|c| c["name"] == "mine").count(), 1);
    assert!(made.cluster("wrong").is_none());
    assert_eq!(made.told.len(), 2, "{:?}", made.told);
    assert!(made.told.iter().any(|t| t.contains("connect_timeout: it is 0")), "{:?}", made.told);
    assert!(made.told.iter().any(|t| t.contains("rename")), "{:?}", made.told);
}

#[test]
fn lists_are_replaced_if_asked_for() {
    let plain = World::new(&[]).made();
    let routes = plain.routes.iter().find(|r| r["virtualHosts"].as_array().is_some()).unwrap();
    let host = routes["virtualHosts"][0]["name"].clone();
    let change = |operation: &str| {
        patched(&json!([{"applyTo": "VIRTUAL_HOST",
            "match": {"context": "SIDECAR_OUTBOUND", "routeConfiguration":
                {"name": routes["name"], "vhost": {"name": host}}},
            "patch": {"operation": operation, "value": {"domains": ["only.example"]}}}]))
    };
    let domains = |made: &Made| {
        let one = made.routes.iter().find(|r| r["name"] == routes["name"]).unwrap();
        one["virtualHosts"][0]["domains"].as_array().unwrap().clone()
    };
    let before = domains(&plain).len();
    assert_eq!(domains(&change("MERGE")).len(), before + 1);
    assert_eq!(domains(&change("MERGE_AND_REPLACE_LIST")), [json!("only.example")]);
}

#[test]
fn routes_are_inserted_where_they_are_asked_for() {
    let route = json!({"name": "mine", "match": {"prefix": "/mine"},
        "direct_response": {"status": 418}});
    let made = patched(&json!([
        {"applyTo": "HTTP_ROUTE", "match": {"context": "SIDECAR_INBOUND"},
            "patch": {"operation": "INSERT_FIRST", "value": route}},
        {"applyTo": "HTTP_ROUTE", "match": {"context": "SIDECAR_OUTBOUND", "routeConfiguration":
            {"vhost": {"name": "allow_any", "route": {"action": "ROUTE"}}}},
            "patch": {"operation": "MERGE", "value": {"route": {"timeout": "7s"}}}},
        {"applyTo": "ROUTE_CONFIGURATION", "match": {"context": "SIDECAR_OUTBOUND"},
            "patch": {"operation": "MERGE", "value": {"internal_only_headers": ["x-mine"]}}},
    ]));
    assert_eq!(made.told, Vec::<String>::new());
    let inbound = made.listener("virtualInbound").to_string();
    assert!(inbound.contains("\"name\":\"mine\""));
    for routes in &made.routes {
        assert_eq!(routes["internalOnlyHeaders"], json!(["x-mine"]));
        let hosts = routes["virtualHosts"].as_array().unwrap();
        for host in hosts.iter().filter(|host| host["name"] == "allow_any") {
            assert_eq!(host["routes"][0]["route"]["timeout"], "7s");
        }
    }
}

#[test]
fn managers_chains_and_listener_filters_are_patched() {
    let made = patched(&json!([
        {"applyTo": "NETWORK_FILTER", "match": {"context": "SIDECAR_INBOUND", "listener":
            {"filterChain": {"filter": {"name": "envoy.filters.network.http_connection_manager"}}}},
            "patch": {"operation": "MERGE", "value": {"typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                "xff_num_trusted_hops": 3, "stream_idle_timeout": "9s"}}}},
        {"applyTo": "LISTENER", "match": {"listener": {"name": "virtualInbound"}},
            "patch": {"operation": "MERGE", "value": {"per_connection_buffer_limit_bytes": 4096}}},
        {"applyTo": "LISTENER_FILTER", "match": {"context": "SIDECAR_INBOUND"},
            "patch": {"operation": "INSERT_FIRST", "value": {"name": "pp", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.listener.proxy_protocol.v3.ProxyProtocol"}}}},
        {"applyTo": "FILTER_CHAIN", "match": {"context": "SIDECAR_INBOUND",
            "listener": {"filterChain": {"transportProtocol": "tls"}}},
            "patch": {"operation": "MERGE", "value": {"transport_socket_connect_timeout": "3s"}}},
    ]));
    assert_eq!(made.told, Vec::<String>::new());
    let inbound = made.listener("virtualInbound");
    assert_eq!(inbound["perConnectionBufferLimitBytes"], 4096);
    assert_eq!(inbound["listenerFilters"][0]["name"], "pp");
    for chain in inbound["filterChains"].as_array().unwrap() {
        let tls = chain["filterChainMatch"]["transportProtocol"] == "tls";
        assert_eq!(chain.get("transportSocketConnectTimeout").is_some(), tls);
        for filter in chain["filters"].as_array().unwrap() {
            if filter["name"] == "envoy.filters.network.http_connection_manager" {
                assert_eq!(filter["typedConfig"]["xffNumTrustedHops"], 3);
                assert_eq!(filter["typedConfig"]["streamIdleTimeout"], "9s");
            }
        }
    }
}

#[test]
fn priority_comes_before_namespace_and_the_root_before_the_own() {
    let spec = |name: &str, priority: i32| {
        json!({"priority": priority, "configPatches":
            [at_router("SIDECAR_INBOUND", "INSERT_BEFORE", &lua(name))]})
    };
    let world = World::new(&[
        ("foo", "a", spec("own", 0)),
        ("istio-system", "b", spec("root", 0)),
        ("foo", "c", spec("early", -1)),
        ("bar", "d", spec("foreign", 0)),
    ]);
    for stack in world.made().http("virtualInbound") {
        let mine: Vec<&str> = stack.iter().map(String::as_str).collect();
        assert_eq!(mine[mine.len() - 4..mine.len() - 1], ["early", "root", "own"]);
    }
}

#[test]
fn proxies_are_matched_by_version_metadata_and_labels() {
    let mut patch = at_router("SIDECAR_INBOUND", "INSERT_BEFORE", &lua("mine"));
    let has = |spec: Value| {
        let made = World::new(&[("foo", "a", spec)]).made();
        format!("{made:?}").contains("\"mine\"")
    };
    for (proxy, wanted) in [
        (json!({"proxyVersion": "^1\\.27.*"}), true),
        (json!({"proxyVersion": "^1\\.2[0-6].*"}), false),
        (json!({"metadata": {"NAMESPACE": "foo"}}), true),
        (json!({"metadata": {"NAMESPACE": "bar"}}), false),
    ] {
        patch["match"]["proxy"] = proxy.clone();
        assert_eq!(has(json!({"configPatches": [patch]})), wanted, "{proxy}");
    }
    let labels = json!({"labels": {"app": "nobody"}});
    assert!(!has(json!({"workloadSelector": labels, "configPatches":
        [at_router("SIDECAR_INBOUND", "INSERT_BEFORE", &lua("mine"))]})));
}

#[test]
fn keys_know_the_patches_of_their_side() {
    let key = |world: &World| {
        let scope = Scope::of(&world.snapshot, &world.class);
        let patches = Patches::of(&world.snapshot, &world.class);
        let views = listener::views(&world.snapshot, &scope, &world.class);
        let of = |name: &str| {
            let view = views.iter().find(|view| view.name() == name).unwrap();
            patches.key(view.key(), Stage::Listener, view.context())
        };
        (of("virtualInbound"), of("virtualOutbound"))
    };
    let inbound = |name: &str| {
        let patch = at_router("SIDECAR_INBOUND", "INSERT_BEFORE", &lua(name));
        World::new(&[("foo", "a", json!({"configPatches": [patch]}))])
    };
    let (plain, one, other) = (key(&World::new(&[])), key(&inbound("x")), key(&inbound("y")));
    assert_ne!(plain.0, one.0);
    assert_ne!(one.0, other.0);
    assert_eq!(plain.1, one.1);
}

#[test]
fn all_that_is_translated_keeps_envoys_own_rules() {
    for folder in case::folders() {
        let case = case::Case::load(&folder);
        let (snapshot, scope, class) = (&*case.snapshot, &case.scope, &case.class);
        for view in listener::views(snapshot, scope, class) {
            let made = check(&listener::translate(&view).value);
            assert_eq!(made, Ok(()), "{} {}", folder.display(), view.name());
        }
        for view in route::views(snapshot, scope, class) {
            let made = check(&route::translate(&view).value);
            assert_eq!(made, Ok(()), "{} {}", folder.display(), view.name());
        }
        for view in cluster::views(snapshot, scope, class) {
            let made = check(&cluster::translate(&view).value);
            assert_eq!(made, Ok(()), "{} {}", folder.display(), view.name());
        }
    }
}

#[test]
fn a_bootstrap_is_merged_with_and_keeps_its_node() {
    let merge = |value: Value| json!({"applyTo": "BOOTSTRAP", "patch": {"operation": "MERGE", "value": value}});
    let patches = json!([
        merge(json!({"stats_flush_interval": "3s"})),
        merge(json!({"node": {"id": "somebody else"}})),
        {"applyTo": "BOOTSTRAP", "match": {"context": "GATEWAY"},
            "patch": {"operation": "MERGE", "value": {"header_prefix": "x"}}},
        {"applyTo": "BOOTSTRAP", "patch": {"operation": "ADD", "value": {"header_prefix": "y"}}},
    ]);
    let world = World::new(&[("foo", "test", json!({"configPatches": patches}))]);
    let own: Bootstrap = from_json(&json!({"node": {"id": "me"}})).unwrap();
    let made = Patches::of(&world.snapshot, &world.class).bootstrap(world.class.kind, own);
    let value = to_json(&made.value).unwrap();
    assert_eq!(value, json!({"node": {"id": "me"}, "statsFlushInterval": "3s"}));
    let told: Vec<String> = made.diagnostics.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].contains("configPatches[1]") && told[1].contains("configPatches[3]"),
        "{told:?}"
    );
    // These proxies do not ask for theirs, and the owner learns that.
    let told = world.made().told;
    assert!(told.iter().any(|text| text.contains("BOOTSTRAP_XDS_AGENT")), "{told:?}");
}
