//! The metadata under `istio` by which proxies, logs and people know what a resource stands for.
//!
//! In: names. Out: Envoy metadata with ordered fields, shaped as Istio's so that its consumers read it.

use std::collections::BTreeMap;

use ironsail_proto::envoy::config::core::v3::Metadata;
use ironsail_proto::google::protobuf::{ListValue, Struct, Value, value::Kind};
use ironsail_telemetry::config::SERVICE_KEY;

/// Under which the mesh's own metadata lies.
pub const ISTIO: &str = "istio";
/// By which Envoy chooses the transport socket of an endpoint.
pub const TRANSPORT_SOCKET_MATCH: &str = "envoy.transport_socket_match";
/// The key in it.
pub const TLS_MODE: &str = "tlsMode";

/// A service behind a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRef<'a> {
    pub host: &'a str,
    pub name: &'a str,
    pub namespace: &'a str,
}

/// The object that shaped a resource, as `/apis/GROUP/VERSION/namespaces/NS/kind/NAME`.
pub fn config_path(group: &str, version: &str, kind: &str, namespace: &str, name: &str) -> String {
    let kind = kebab(kind);
    format!("/apis/{group}/{version}/namespaces/{namespace}/{kind}/{name}")
}

/// `DestinationRule` → `destination-rule`.
fn kebab(kind: &str) -> String {
    let mut out = String::with_capacity(kind.len() + 4);
    for (i, c) in kind.char_indices() {
        if c.is_ascii_uppercase() && i > 0 {
            out.push('-');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

pub fn text(text: impl Into<String>) -> Value {
    Value { kind: Some(Kind::StringValue(text.into())) }
}

pub fn number(number: u32) -> Value {
    Value { kind: Some(Kind::NumberValue(number.into())) }
}

pub fn boolean(value: bool) -> Value {
    Value { kind: Some(Kind::BoolValue(value)) }
}

pub fn list(values: Vec<Value>) -> Value {
    Value { kind: Some(Kind::ListValue(ListValue { values })) }
}

pub fn object<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    Value { kind: Some(Kind::StructValue(structure(fields))) }
}

pub fn structure<'a>(fields: impl IntoIterator<Item = (&'a str, Value)>) -> Struct {
    Struct { fields: fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect() }
}

/// `istio: {services: [{host, name, namespace}, …]}`
pub fn services<'a>(services: impl IntoIterator<Item = ServiceRef<'a>>) -> Metadata {
    let mut metadata = Metadata::default();
    let mut values = Vec::new();
    for s in services {
        if values.is_empty() {
            // Metrics name the first, and read it in one piece.
            let first = ironsail_telemetry::Service::write(s.host, s.name, s.namespace);
            set(&mut metadata, SERVICE_KEY, text(first));
        }
        values.push(object([
            ("host", text(s.host)),
            ("name", text(s.name)),
            ("namespace", text(s.namespace)),
        ]));
    }
    set(&mut metadata, "services", list(values));
    metadata
}

/// `istio: {config: PATH}`
pub fn config(path: &str) -> Metadata {
    let mut metadata = Metadata::default();
    set(&mut metadata, "config", text(path));
    metadata
}

/// Puts `key` under `istio`, beside what is there.
pub fn set(metadata: &mut Metadata, key: &str, value: Value) {
    let fields = metadata.filter_metadata.entry(ISTIO.to_owned()).or_default();
    fields.fields.insert(key.to_owned(), value);
}

/// `istio: {workload: "NAME;NAMESPACE;CANONICAL;REVISION;CLUSTER"}` and, for an endpoint that takes
/// the mesh's mTLS, the match that selects it.
pub fn endpoint(workload: &str, mtls: bool) -> Metadata {
    let mut filter_metadata = BTreeMap::new();
    if mtls {
        let mode = structure([(TLS_MODE, text("istio"))]);
        filter_metadata.insert(TRANSPORT_SOCKET_MATCH.to_owned(), mode);
    }
    if !workload.is_empty() {
        let workload = structure([("workload", text(workload))]);
        filter_metadata.insert(ISTIO.to_owned(), workload);
    }
    Metadata { filter_metadata, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    fn json(fields: &Struct) -> serde_json::Value {
        serde_json::Value::Object(Map::from(fields))
    }

    #[test]
    fn a_cluster_names_its_services_and_its_rule() {
        let service = ServiceRef { host: "a.b.svc", name: "a", namespace: "b" };
        let mut metadata = services([service]);
        let path = config_path("networking.istio.io", "v1", "DestinationRule", "b", "rule");
        set(&mut metadata, "config", text(path));
        assert_eq!(
            json(&metadata.filter_metadata[ISTIO]),
            json!({
                "config": "/apis/networking.istio.io/v1/namespaces/b/destination-rule/rule",
                "destination": "a.b.svc;a;b",
                "services": [{"host": "a.b.svc", "name": "a", "namespace": "b"}],
            })
        );
    }

    #[test]
    fn only_an_endpoint_in_the_mesh_is_matched_for_mtls() {
        let inside = endpoint("w;n;c;r;k", true);
        assert_eq!(
            json(&inside.filter_metadata[TRANSPORT_SOCKET_MATCH]),
            json!({"tlsMode": "istio"})
        );
        let outside = endpoint("", false);
        assert!(outside.filter_metadata.is_empty());
    }
}
