//! Family `authz`: AuthorizationPolicies in, RBAC and external authorization filters out, compared as
//! JSON of the messages, filter by filter.
//!
//! Three things are brought to one form first: metadata that Envoy takes with or without its source
//! (we name it, because the other form is deprecated), escapes inside regular expressions (we escape
//! what users write), and fields that say what is so anyway.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use ironsail_api::mesh::{MeshConfig, MeshNetworks};
use ironsail_api::{ClusterId, Event, decode_any};
use ironsail_model::{Proxy, Scope, Settings, Snapshot, Store};
use ironsail_proto::envoy::config::core::v3::Node;
use ironsail_proto::{from_json, to_json};
use ironsail_translate::policy::Guard;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Case, read};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    proto: String,
    name: String,
    #[serde(rename = "in")]
    given: String,
    want: Vec<String>,
    trust_domain: Option<String>,
    aliases: Option<Vec<String>>,
    mesh_config: Option<String>,
}

pub(super) fn cases(folder: &Path) -> anyhow::Result<Vec<Case>> {
    let data: Vec<Data> = serde_json::from_str(&read(&folder.join("cases.json"))?)?;
    data.into_iter()
        .map(|case| {
            let folder = folder.join(&case.proto);
            let name = format!("{}/{}", case.proto, case.name);
            let result = judge(&folder, &case).with_context(|| name.clone())?;
            Ok(Case::judged(name, result))
        })
        .collect()
}

fn judge(folder: &Path, case: &Data) -> anyhow::Result<Result<(), String>> {
    let documents = ironsail_yaml::documents(&read(&folder.join(&case.given))?)?;
    let snapshot = snapshot(case, &documents)?;
    let node: Node = from_json(&json!({
        "id": "sidecar~1.2.3.4~httpbin.foo~foo.svc.cluster.local",
        "metadata": {"NAMESPACE": "foo", "LABELS": {"app": "httpbin", "version": "v1"}}
    }))?;
    let class = snapshot.class_of(&Proxy::parse(&node, &ClusterId::from("Kubernetes"))?);
    let guard = Guard::of(&snapshot, &Scope::of(&snapshot, &class), &class);
    let seen: Vec<Value> = match case.proto.as_str() {
        "tcp" => guard.connection_filters().iter().map(to_json).collect::<Result<_, _>>()?,
        _ => guard.request_filters().iter().map(to_json).collect::<Result<_, _>>()?,
    };
    if seen.len() != case.want.len() {
        return Ok(Err(format!("{} filters instead of {}", seen.len(), case.want.len())));
    }
    for (mut seen, want) in seen.into_iter().zip(&case.want) {
        let mut wanted: Value = ironsail_yaml::parse(&read(&folder.join(want))?)?;
        normalize(&mut seen);
        normalize(&mut wanted);
        if let Some(why) = super::bootstrap::difference("", &seen, &wanted) {
            return Ok(Err(format!("{want}: {why}")));
        }
    }
    Ok(Ok(()))
}

fn snapshot(case: &Data, documents: &[Value]) -> anyhow::Result<Arc<Snapshot>> {
    let mut store = Store::new(Settings::default());
    let mut mesh = json!({"extensionProviders": providers(case)});
    if let Some(domain) = &case.trust_domain {
        mesh["trustDomain"] = json!(domain);
        mesh["trustDomainAliases"] = json!(case.aliases);
    }
    store.set_mesh(MeshConfig::parse(&mesh).value, MeshNetworks::default());
    let authorizer = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "my-custom-ext-authz", "namespace": "foo"},
        "spec": {"clusterIP": "10.0.0.1", "ports": [{"name": "grpc", "port": 9000}]}
    });
    for document in documents.iter().chain([&authorizer]).filter(|d| !d.is_null()) {
        let decoded = decode_any(document).ok_or_else(|| anyhow!("no object: {document}"))?;
        let object = decoded.object.map_err(|error| anyhow!("{error}"))?;
        store.apply(Event::Apply { cluster: ClusterId::from("Kubernetes"), object });
    }
    Ok(store.take().context("there are objects")?.snapshot)
}

/// The mesh configurations that the cases name, in our words.
fn providers(case: &Data) -> Value {
    let common = json!({"port": 9000, "failOpen": true, "statusOnError": "403"});
    let mut grpc = common;
    match case.mesh_config.as_deref() {
        Some("meshConfigGRPC") => {
            grpc["service"] = json!("foo/my-custom-ext-authz.foo.svc.cluster.local");
            grpc["timeout"] = json!("0.002s");
            grpc["includeRequestBodyInCheck"] =
                json!({"maxRequestBytes": 4096, "allowPartialMessage": true});
        }
        Some("meshConfigGRPCNoNamespace") => {
            grpc["service"] = json!("my-custom-ext-authz.foo.svc.cluster.local");
        }
        _ => return json!([]),
    }
    json!([{"name": "default", "envoyExtAuthzGrpc": grpc}])
}

fn normalize(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::Object(mut sourced)) = map.remove("sourcedMetadata") {
                let matcher = sourced.remove("metadataMatcher").unwrap_or_default();
                map.insert("metadata".into(), matcher);
            }
            if let Some(Value::String(regex)) = map.get_mut("regex") {
                regex.retain(|c| c != '\\');
            }
            for inner in map.values_mut() {
                normalize(inner);
            }
        }
        Value::Array(all) => all.iter_mut().for_each(normalize),
        _ => {}
    }
}
