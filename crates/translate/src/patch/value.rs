//! The value of a patch, read as the Envoy object that it is.
//!
//! In: JSON as a user wrote it; out: a message of Envoy's API, or why it is none.

use ironsail_api::istio::networking::{ApplyTo, EnvoyFilter, Operation};
use ironsail_api::{Code, Diagnostic, Kind, Resource, Severity};
use ironsail_proto::google::protobuf::Any;
use ironsail_proto::reflect::{DeserializeOptions, DynamicMessage};
use ironsail_proto::{Message, Name, pool};
use serde_json::Value as Json;

use super::{Patch, rules};

/// Names of the two messages that carry JSON in the place of a typed configuration.
const TYPED_STRUCTS: [&str; 2] = ["udpa.type.v1.TypedStruct", "xds.type.v3.TypedStruct"];

/// The message that a kind of object is.
fn name_of(target: ApplyTo) -> Option<&'static str> {
    Some(match target {
        ApplyTo::Invalid => return None,
        ApplyTo::Listener => "envoy.config.listener.v3.Listener",
        ApplyTo::FilterChain => "envoy.config.listener.v3.FilterChain",
        ApplyTo::ListenerFilter => "envoy.config.listener.v3.ListenerFilter",
        ApplyTo::NetworkFilter => "envoy.config.listener.v3.Filter",
        ApplyTo::HttpFilter => {
            "envoy.extensions.filters.network.http_connection_manager.v3.HttpFilter"
        }
        ApplyTo::RouteConfiguration => "envoy.config.route.v3.RouteConfiguration",
        ApplyTo::VirtualHost => "envoy.config.route.v3.VirtualHost",
        ApplyTo::HttpRoute => "envoy.config.route.v3.Route",
        ApplyTo::Cluster => "envoy.config.cluster.v3.Cluster",
        ApplyTo::ExtensionConfig => "envoy.config.core.v3.TypedExtensionConfig",
        ApplyTo::Bootstrap => "envoy.config.bootstrap.v3.Bootstrap",
    })
}

/// Reads `json` as a message of that name; every field must be one of it.
pub(super) fn read(name: &str, json: &Json) -> Result<DynamicMessage, String> {
    let descriptor =
        pool().get_message_by_name(name).ok_or_else(|| format!("no message is called {name}"))?;
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    DynamicMessage::deserialize_with_options(descriptor, json, &options)
        .map_err(|error| format!("its value is no {name}: {error}"))
}

impl Patch<'_> {
    /// The value as a message; None where the operation needs none.
    pub(super) fn message(&self) -> Result<Option<DynamicMessage>, String> {
        if self.operation() == Operation::Remove {
            return Ok(None);
        }
        let Some(value) = self.spec().patch.as_ref().and_then(|patch| patch.value.as_ref()) else {
            return Err("it has no value".to_owned());
        };
        let Some(name) = name_of(self.apply_to()) else {
            return Err("applyTo is missing".to_owned());
        };
        let message = read(name, &Json::Object(value.0.clone()))?;
        // A part that is merged need not be complete; an object that is put in must be.
        if !self.merges() {
            rules::check(&message)?;
        }
        Ok(Some(message))
    }

    /// The value as the type of an element; None where the operation needs none.
    pub(super) fn element<M: Name + Default>(&self) -> Result<Option<M>, String> {
        match self.message()? {
            None => Ok(None),
            Some(message) => typed(&message).map(Some),
        }
    }
}

pub(super) fn typed<M: Name + Default>(message: &DynamicMessage) -> Result<M, String> {
    M::decode(message.encode_to_vec().as_slice()).map_err(|error| error.to_string())
}

pub(super) fn dynamic<M: Name>(message: &M) -> Result<DynamicMessage, String> {
    of_bytes(&M::full_name(), &message.encode_to_vec())
}

fn of_bytes(name: &str, bytes: &[u8]) -> Result<DynamicMessage, String> {
    let descriptor =
        pool().get_message_by_name(name).ok_or_else(|| format!("no message is called {name}"))?;
    DynamicMessage::decode(descriptor, bytes).map_err(|error| format!("reading a {name}: {error}"))
}

pub(super) fn bare(type_url: &str) -> &str {
    type_url.rsplit('/').next().unwrap_or_default()
}

/// The message inside, also if it is written as JSON inside a `TypedStruct`.
pub(super) fn opened(type_url: &str, bytes: &[u8]) -> Result<DynamicMessage, String> {
    let outer = of_bytes(bare(type_url), bytes)?;
    if !TYPED_STRUCTS.contains(&bare(type_url)) {
        return Ok(outer);
    }
    let text = |field: &str| {
        let value = outer.get_field_by_name(field);
        value.and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let inner = outer.get_field_by_name("value");
    let json = inner.as_ref().and_then(|v| v.as_message()).map(serde_json::to_value);
    let json = json.transpose().map_err(|error| error.to_string())?;
    read(bare(&text("type_url")), &json.unwrap_or_else(|| Json::Object(serde_json::Map::new())))
}

pub(super) fn open_any(any: &Any) -> Result<DynamicMessage, String> {
    opened(&any.type_url, &any.value)
}

/// What is wrong with the values of an object, whatever it is applied to.
pub fn check_object(object: &Resource<EnvoyFilter>) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for index in 0..object.spec.config_patches.len() {
        let patch = Patch { object, index };
        if let Err(why) = patch.message() {
            let field = format!("spec.configPatches[{index}].patch.value");
            let kind = Kind::EnvoyFilter;
            let one = Diagnostic::new(Code::SCHEMA, Severity::Error, kind, &object.meta, why);
            found.push(one.at(field));
        }
    }
    found
}
