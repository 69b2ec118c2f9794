//! JSON of real messages, both ways.

use serde_json::json;

use super::{from_json, pool, to_json, to_json_any};
use crate::envoy::config::bootstrap::v3::Bootstrap;
use crate::envoy::config::cluster::v3::Cluster;
use crate::envoy::config::core::v3::Node;
use crate::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use crate::google::protobuf::Any;
use crate::pack;
use crate::udpa::r#type::v1::TypedStruct;
use prost::{Message, Name};

#[test]
fn a_bootstrap_is_read_in_both_spellings_and_written_in_one() {
    let text = json!({
        "node": {"id": "sidecar~1.2.3.4~a.b~b.svc", "metadata": {"LABELS": {"app": "a"}, "N": 1}},
        "static_resources": {"clusters": [{
            "name": "xds-grpc", "connect_timeout": "1s", "type": "STATIC",
            "typedExtensionProtocolOptions": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}}
            }}
        }]}
    });
    let bootstrap: Bootstrap = from_json(&text).unwrap();
    assert_eq!(bootstrap.static_resources.as_ref().unwrap().clusters[0].name, "xds-grpc");
    let written = to_json(&bootstrap).unwrap();
    assert_eq!(written["node"]["metadata"], json!({"LABELS": {"app": "a"}, "N": 1}));
    assert_eq!(
        written["staticResources"]["clusters"][0]["typedExtensionProtocolOptions"]["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"],
        json!({
            "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
            "explicitHttpConfig": {"http2ProtocolOptions": {}}
        })
    );
    assert_eq!(from_json::<Bootstrap>(&written).unwrap(), bootstrap);
}

#[test]
fn an_unknown_field_and_an_unknown_type_are_named() {
    let said = |json| {
        std::error::Error::source(&from_json::<Cluster>(&json).unwrap_err()).unwrap().to_string()
    };
    assert!(said(json!({"nmae": "a"})).contains("nmae"));
    let transport = json!({"transport_socket": {"name": "x", "typed_config": {"@type": "type.googleapis.com/no.such"}}});
    assert!(said(transport).contains("no.such"));
}

#[test]
fn equal_messages_have_equal_bytes() {
    let keys = ["b", "a", "z", "c", "m", "k"];
    let of = |keys: &mut dyn Iterator<Item = &str>| {
        let fields = keys.map(|k| (k.to_owned(), json!({k: 1}).into())).collect();
        let metadata = Some(crate::google::protobuf::Struct { fields });
        Node { metadata, ..Default::default() }
    };
    let forward = of(&mut keys.into_iter());
    let backward = of(&mut keys.into_iter().rev());
    assert_eq!(forward.encode_to_vec(), backward.encode_to_vec());
    assert_eq!(to_json(&forward).unwrap().to_string(), to_json(&backward).unwrap().to_string());
}

#[test]
fn a_typed_struct_inside_an_any_is_written_out() {
    let value = TypedStruct {
        type_url: "type.googleapis.com/some.Filter".into(),
        value: Some(serde_json::Map::from_iter([("count".to_owned(), json!(3))]).into()),
    };
    assert_eq!(
        to_json_any(&pack(&value)).unwrap(),
        json!({
            "@type": "type.googleapis.com/udpa.type.v1.TypedStruct",
            "typeUrl": "type.googleapis.com/some.Filter",
            "value": {"count": 3}
        })
    );
}

#[test]
fn a_message_without_a_rust_type_is_written_by_its_descriptor() {
    let any = Any {
        type_url: "type.googleapis.com/envoy.extensions.filters.http.csrf.v3.CsrfPolicy".into(),
        value: bytes::Bytes::new(),
    };
    assert_eq!(
        to_json_any(&any).unwrap(),
        json!({"@type": "type.googleapis.com/envoy.extensions.filters.http.csrf.v3.CsrfPolicy"})
    );
}

#[test]
fn the_descriptors_know_every_file() {
    assert!(pool().files().len() > 500, "{}", pool().files().len());
    for name in [
        TcpProxy::full_name().as_str(),
        "istio.workload.Address",
        "istio.security.Authorization",
        "istio.networking.nds.v1.NameTable",
        "istio.workload.zds.WorkloadRequest",
        "istio.v1.auth.IstioCertificateRequest",
        "xds.type.matcher.v3.IPMatcher",
        "xds.type.v3.TypedStruct",
        "envoy.extensions.clusters.dynamic_forward_proxy.v3.ClusterConfig",
    ] {
        assert!(pool().get_message_by_name(name).is_some(), "{name}");
    }
}
