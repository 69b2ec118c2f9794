//! What is served: groups, versions, resources and verbs, for clients that find out by themselves.

mod openapi;
mod order;

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub(crate) use openapi::{document, index};

use crate::registry::{Definition, Registry};

/// `GET /api`.
pub(crate) fn core_versions() -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [],
    })
}

/// The named groups with their versions, the preferred first.
fn groups(registry: &Registry) -> BTreeMap<String, Vec<String>> {
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in registry.all() {
        let names = one.names();
        let versions = groups.entry(names.group.to_string()).or_default();
        if !versions.iter().any(|version| **version == *names.version) {
            versions.push(names.version.to_string());
        }
    }
    for versions in groups.values_mut() {
        versions.sort_by(|a, b| order::compare(b, a));
    }
    groups
}

/// `GET /apis`.
pub(crate) fn group_list(registry: &Registry) -> Value {
    let groups: Vec<_> = groups(registry)
        .into_iter()
        .filter(|(name, _)| !name.is_empty())
        .map(|(name, versions)| group_object(&name, &versions))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `GET /apis/GROUP`.
pub(crate) fn group(registry: &Registry, name: &str) -> Option<Value> {
    let groups = groups(registry);
    let versions = groups.get(name).filter(|_| !name.is_empty())?;
    let mut group = group_object(name, versions);
    group["kind"] = "APIGroup".into();
    group["apiVersion"] = "v1".into();
    Some(group)
}

fn group_object(name: &str, versions: &[String]) -> Value {
    let entry =
        |version: &String| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({
        "name": name,
        "versions": versions.iter().map(entry).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(entry),
    })
}

fn of_version<'a>(
    registry: &'a Registry,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = std::sync::Arc<dyn Definition>> + 'a {
    registry
        .all()
        .filter(move |one| *one.names().group == *group && *one.names().version == *version)
}

/// `GET /api/v1` and `GET /apis/GROUP/VERSION`.
pub(crate) fn resource_list(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    if !registry.has_version(group, version) {
        return None;
    }
    let mut resources = Vec::new();
    for one in of_version(registry, group, version) {
        let names = one.names();
        let mut entry = json!({
            "name": &*names.plural,
            "singularName": &*names.singular,
            "namespaced": names.namespaced,
            "kind": &*names.kind,
            "verbs": one.verbs(),
        });
        add_words(&mut entry, &*one);
        resources.push(entry);
        for name in one.subresources() {
            let Some(sub) = one.subresource(&name) else { continue };
            let mut entry = json!({
                "name": format!("{}/{name}", names.plural),
                "singularName": "",
                "namespaced": names.namespaced,
                "kind": sub.kind,
                "verbs": sub.verbs,
            });
            if *sub.group != *group || *sub.version != *version {
                entry["group"] = sub.group.as_ref().into();
                entry["version"] = sub.version.as_ref().into();
            }
            resources.push(entry);
        }
    }
    let group_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": resources,
    }))
}

fn add_words(entry: &mut Value, one: &dyn Definition) {
    let names = one.names();
    if !names.short_names.is_empty() {
        entry["shortNames"] = json!(names.short_names);
    }
    if !names.categories.is_empty() {
        entry["categories"] = json!(names.categories);
    }
}

/// Everything at once: `GET /api` and `GET /apis` for clients that understand it.
pub(crate) fn aggregated(registry: &Registry, core: bool) -> Value {
    let mut items = Vec::new();
    for (group, versions) in groups(registry).iter().filter(|(group, _)| group.is_empty() == core) {
        let versions: Vec<_> = versions
            .iter()
            .map(|version| {
                let resources = of_version(registry, group, version);
                json!({
                    "version": version,
                    "resources": resources.map(|one| aggregated_resource(&*one)).collect::<Vec<_>>(),
                    "freshness": "Current",
                })
            })
            .collect();
        let mut metadata = json!({"creationTimestamp": null});
        if !group.is_empty() {
            metadata["name"] = group.as_str().into();
        }
        items.push(json!({"metadata": metadata, "versions": versions}));
    }
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn aggregated_resource(one: &dyn Definition) -> Value {
    let names = one.names();
    let kind = |group: &str, version: &str, kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut entry = json!({
        "resource": &*names.plural,
        "responseKind": kind(&names.group, &names.version, &names.kind),
        "scope": if names.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": &*names.singular,
        "verbs": one.verbs(),
    });
    add_words(&mut entry, one);
    let subresources: Vec<_> = one
        .subresources()
        .iter()
        .filter_map(|name| {
            let sub = one.subresource(name)?;
            Some(json!({
                "subresource": name,
                "responseKind": kind(&sub.group, &sub.version, &sub.kind),
                "verbs": sub.verbs,
            }))
        })
        .collect();
    if !subresources.is_empty() {
        entry["subresources"] = subresources.into();
    }
    entry
}

/// `GET /version`.
pub(crate) fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "gitVersion": concat!("v1.36.0+ironsail-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": concat!("linux/", "amd64"),
    })
}
