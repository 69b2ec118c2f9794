//! Tracing of requests, as far as the mesh configuration asks for it.

use ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::Tracing as HcmTracing;
use ironsail_proto::envoy::r#type::metadata::v3::{
    MetadataKey, MetadataKind, metadata_key::{PathSegment, path_segment::Segment}, metadata_kind,
};
use ironsail_proto::envoy::r#type::tracing::v3::{CustomTag, custom_tag};
use ironsail_proto::envoy::r#type::v3::Percent;

mod provider;

use super::settings::{Tag, Tracing};
use super::wire;

/// What is sampled and which tags spans get, and where they go, unless the bootstrap says that.
pub fn manager(tracing: &Tracing) -> HcmTracing {
    let all = || Some(Percent { value: 100.0 });
    HcmTracing {
        client_sampling: all(),
        overall_sampling: all(),
        random_sampling: Some(Percent { value: f64::from(tracing.sampling) / 10_000.0 }),
        max_path_tag_length: tracing.max_path_length.and_then(wire::number),
        custom_tags: tracing.tags.iter().map(|(name, tag)| custom(name, tag)).collect(),
        provider: tracing.provider.as_ref().map(provider::http),
        ..Default::default()
    }
}

fn custom(name: &str, tag: &Tag) -> CustomTag {
    use custom_tag::{Environment, Header, Literal, Metadata, Type};
    let tag_type = match tag {
        Tag::Literal(value) => Type::Literal(Literal { value: value.clone() }),
        Tag::Environment { name, default } => {
            Type::Environment(Environment { name: name.clone(), default_value: default.clone() })
        }
        Tag::Header { name, default } => {
            Type::RequestHeader(Header { name: name.clone(), default_value: default.clone() })
        }
        Tag::DryRun(key) => Type::Metadata(Metadata {
            kind: Some(MetadataKind {
                kind: Some(metadata_kind::Kind::Request(metadata_kind::Request {})),
            }),
            metadata_key: Some(MetadataKey {
                key: "envoy.filters.http.rbac".into(),
                path: vec![PathSegment { segment: Some(Segment::Key(key.clone())) }],
            }),
            ..Default::default()
        }),
        Tag::Node { path, default } => Type::Value(node(path, default)),
        Tag::Format(format) => Type::Value(format.clone()),
    };
    CustomTag { tag: name.to_owned(), r#type: Some(tag_type) }
}

/// An operator that reads the node's metadata where it is.
fn node(path: &[String], default: &str) -> String {
    let mut value = "xds.node.metadata".to_owned();
    let mut there = Vec::new();
    for key in path {
        there.push(format!("'{key}' in {value}"));
        value = format!("{value}['{key}']");
    }
    format!("%CEL({} ? {value} : '{default}')%", there.join(" && "))
}
