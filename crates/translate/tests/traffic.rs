//! Listeners and routes of every folder of `testdata`, compared with `traffic.yaml` where there is one.
//! `UPDATE=1` writes what comes out; look at the difference before you keep it.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "golden/case.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod case;
#[path = "traffic/names.rs"]
mod names;
#[path = "golden/yaml.rs"]
mod yaml;

use std::collections::BTreeSet;

use case::Case;
use ironsail_names::{BLACK_HOLE_CLUSTER, ClusterName};
use ironsail_proto::to_json;
use ironsail_sys::env::Env;
use ironsail_translate::{cluster, listener, route};
use serde_json::{Map, Value, json};

/// All listeners and routes, and what was said on the way.
fn translate(case: &Case) -> Value {
    let (snapshot, scope, class) = (&*case.snapshot, &case.scope, &case.class);
    let mut diagnostics = BTreeSet::new();
    let mut listeners = Vec::new();
    for view in listener::views(snapshot, scope, class) {
        let made = listener::translate(&view);
        assert_eq!(made.value.name, view.name());
        diagnostics.extend(made.diagnostics.iter().map(ToString::to_string));
        listeners.push(to_json(&made.value).unwrap());
    }
    let mut routes = Vec::new();
    for view in route::views(snapshot, scope, class) {
        let made = route::translate(&view);
        assert_eq!(made.value.name, view.name());
        diagnostics.extend(made.diagnostics.iter().map(ToString::to_string));
        routes.push(to_json(&made.value).unwrap());
    }
    let mut out = Map::new();
    out.insert("listeners".into(), Value::Array(listeners));
    out.insert("routes".into(), Value::Array(routes));
    if !diagnostics.is_empty() {
        out.insert("diagnostics".into(), diagnostics.into_iter().map(Value::String).collect());
    }
    Value::Object(out)
}

#[test]
fn every_case_translates_as_expected() {
    let update = Env::of_process().var("UPDATE").is_some_and(|v| v == "1");
    let mut wrong = Vec::new();
    for folder in case::folders() {
        let file = folder.join("traffic.yaml");
        if !file.exists() {
            continue;
        }
        let mut value = translate(&Case::load(&folder));
        names::shorten(&mut value);
        let proxy = std::fs::read_to_string(folder.join("proxy.yaml")).unwrap();
        let proxy: Value = ironsail_yaml::parse(&proxy).unwrap();
        // What other cases show already.
        let skipped: Vec<&Value> = proxy["skip"].as_array().into_iter().flatten().collect();
        value["listeners"].as_array_mut().unwrap().retain(|l| !skipped.contains(&&l["name"]));
        let actual = yaml::write(&value);
        if update {
            std::fs::write(&file, &actual).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap();
        if actual != expected {
            let line = actual.lines().zip(expected.lines()).position(|(a, b)| a != b);
            let line = line.unwrap_or_else(|| actual.lines().count().min(expected.lines().count()));
            let at = |text: &str| text.lines().nth(line).unwrap_or("(end)").to_owned();
            let name = folder.file_name().unwrap().to_string_lossy().into_owned();
            let (is, was) = (at(&actual), at(&expected));
            wrong.push(format!("{name} line {}:\n  is       {is}\n  expected {was}", line + 1));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_name_leads_somewhere() {
    let mut wrong = Vec::new();
    for folder in case::folders() {
        let case = Case::load(&folder);
        let (snapshot, scope, class) = (&*case.snapshot, &case.scope, &case.class);
        let clusters: BTreeSet<String> =
            cluster::views(snapshot, scope, class).iter().map(cluster::ClusterView::name).collect();
        let value = translate(&case);
        let mut used = BTreeSet::new();
        names::clusters(&value, &mut used);
        // What a user wrote wrong is told, and leads nowhere.
        let told = value["diagnostics"].to_string();
        let excused = |name: &str| {
            name == BLACK_HOLE_CLUSTER
                || name.parse::<ClusterName>().is_ok_and(|c| {
                    c.host.is_some_and(|h| told.contains(h.as_str())) || told.contains(name)
                })
        };
        for name in used.iter().filter(|name| !clusters.contains(*name) && !excused(name)) {
            wrong.push(format!("{}: no cluster {name}", folder.display()));
        }
        let routes: BTreeSet<String> =
            route::views(snapshot, scope, class).iter().map(|v| v.name().to_owned()).collect();
        let mut named = BTreeSet::new();
        names::routes(&value["listeners"], &mut named);
        if named != routes {
            wrong.push(format!(
                "{}: listeners name {named:?}, routes are {routes:?}",
                folder.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn names_of_listeners_are_distinct_and_routes_are_found_by_name() {
    for folder in case::folders() {
        let case = Case::load(&folder);
        let (snapshot, scope, class) = (&*case.snapshot, &case.scope, &case.class);
        let views = listener::views(snapshot, scope, class);
        let distinct: BTreeSet<String> = views.iter().map(listener::ListenerView::name).collect();
        assert_eq!(distinct.len(), views.len(), "a listener twice in {}", folder.display());
        for view in route::views(snapshot, scope, class) {
            let again = route::view(snapshot, scope, class, view.name());
            assert_eq!(again.key(), view.key(), "{}", view.name());
        }
        let gone = route::translate(&route::view(snapshot, scope, class, "no.such.route:1"));
        assert!(gone.value.virtual_hosts.is_empty());
    }
}

#[test]
fn equal_views_have_equal_bytes() {
    for folder in case::folders() {
        let (one, two) = (Case::load(&folder), Case::load(&folder));
        let keys = |case: &Case| {
            let (snapshot, scope, class) = (&*case.snapshot, &case.scope, &case.class);
            let listeners = listener::views(snapshot, scope, class);
            let routes = route::views(snapshot, scope, class);
            let listeners = listeners.iter().map(listener::ListenerView::key);
            listeners.chain(routes.iter().map(route::RouteView::key)).collect::<Vec<_>>()
        };
        assert_eq!(keys(&one), keys(&two), "{}", folder.display());
        assert_eq!(translate(&one), translate(&two), "{}", folder.display());
    }
}

#[test]
fn no_domain_is_there_twice() {
    for folder in case::folders() {
        let value = translate(&Case::load(&folder));
        for routes in value["routes"].as_array().unwrap() {
            let mut seen = BTreeSet::new();
            let hosts = routes["virtualHosts"].as_array().cloned().unwrap_or_default();
            for domain in hosts.iter().flat_map(|h| h["domains"].as_array().unwrap()) {
                let domain = domain.as_str().unwrap().to_ascii_lowercase();
                assert!(seen.insert(domain.clone()), "{domain} twice in {}", routes["name"]);
            }
        }
        assert_ne!(value["listeners"], json!(null));
    }
}
