//! `scale`: the replicas of an object, seen and set without knowing its kind.

use serde_json::{Map, Value, json};

use crate::body;
use crate::call::Call;
use crate::meta;
use crate::query::WriteOptions;
use crate::registry::ScalePaths;
use crate::reply::Reply;
use crate::status::Status;
use crate::verb::create::Owners;
use crate::verb::patch::{PatchKind, document};
use crate::verb::update::{Edit, Made, Outcome, Rules, change};

const EDIT: Edit<'static> = Edit { subresource: Some("scale"), rules: Rules::Object };

fn paths(call: &Call) -> Result<ScalePaths, Status> {
    call.definition.scale().ok_or_else(Status::unknown_resource)
}

/// The Scale of an object.
fn scale_of(object: &Value, paths: &ScalePaths) -> Value {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let mut metadata = Map::new();
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.get("metadata").and_then(|metadata| metadata.get(field)) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    let selector = paths.selector.as_ref().and_then(|pointer| object.pointer(pointer));
    if let Some(selector) = selector.map(selector_text).filter(|text| !text.is_empty()) {
        status["selector"] = selector.into();
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": number(&paths.spec_replicas)},
        "status": status,
    })
}

/// A selector in its text form.
fn selector_text(selector: &Value) -> String {
    if let Some(text) = selector.as_str() {
        return text.to_owned();
    }
    let mut parts = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        parts.push(format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    for need in selector["matchExpressions"].as_array().into_iter().flatten() {
        let key = need["key"].as_str().unwrap_or_default();
        let values: Vec<_> =
            need["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let values = values.join(",");
        parts.push(match need["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    parts.join(",")
}

pub(crate) fn get(call: &Call) -> Result<Reply, Status> {
    let paths = paths(call)?;
    let object = call.value_of(&*call.stored(call.name())?);
    Ok(Reply::Value { code: 200, value: scale_of(&object, &paths) })
}

pub(crate) async fn update(call: &mut Call, bytes: &[u8]) -> Result<Reply, Status> {
    let options = WriteOptions::parse(&call.query, "UpdateOptions")?;
    let (sent, _) = body::parse(bytes, body::format(&call.headers)?, "Scale")?;
    let name = meta::text(&sent, "name");
    if name != call.name() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name()
        )));
    }
    set(call, &options, move |_: &Value| Ok(sent.clone())).await
}

pub(crate) async fn patch(call: &mut Call, bytes: &[u8]) -> Result<Reply, Status> {
    let options = WriteOptions::parse(&call.query, "PatchOptions")?;
    let kind = PatchKind::of(call)?;
    let document = match kind {
        PatchKind::Apply => {
            return Err(Status::bad_request("server-side apply of a Scale is not supported"));
        }
        _ => document(bytes)?,
    };
    set(call, &options, move |scale: &Value| match kind {
        PatchKind::Json => ironsail_patch::json_patch(scale, &document)
            .map_err(|error| crate::verb::patch::refused(&error)),
        // A Scale has no lists, so both merge patches mean the same.
        _ => {
            let mut new = scale.clone();
            ironsail_patch::merge_patch(&mut new, &document);
            Ok(new)
        }
    })
    .await
}

async fn set(
    call: &mut Call,
    options: &WriteOptions,
    scale: impl Fn(&Value) -> Result<Value, Status> + Send + Sync,
) -> Result<Reply, Status> {
    let paths = paths(call)?;
    let at = paths.clone();
    let (kind, name) = ("Scale", call.name().to_owned());
    let make = move |old: &Value| {
        let wanted = scale(&scale_of(old, &at))?;
        let replicas = wanted.pointer("/spec/replicas").cloned().unwrap_or_else(|| json!(0));
        let Some(replicas) = replicas.as_i64().filter(|replicas| *replicas >= 0) else {
            let detail = "must be greater than or equal to 0";
            let error = ironsail_schema::FieldError::invalid("spec.replicas", replicas, detail);
            return Err(Status::invalid("autoscaling", kind, &name, &[error]));
        };
        let mut value = old.clone();
        write(&mut value, &at.spec_replicas, replicas.into());
        let version = meta::text(&wanted, "resourceVersion");
        if !version.is_empty() {
            value["metadata"]["resourceVersion"] = version.into();
        }
        let uid = meta::text(&wanted, "uid");
        if !uid.is_empty() {
            value["metadata"]["uid"] = uid.into();
        }
        Ok(Made { value, warnings: Vec::new(), owners: Owners::Track })
    };
    let value = match change(call, EDIT, options, &make).await? {
        Outcome::Stored(object) => call.value_of(&object),
        Outcome::Unstored(value) => value,
    };
    Ok(Reply::Value { code: 200, value: scale_of(&value, &paths) })
}

/// Sets the member at a pointer and makes the objects on the way to it.
fn write(object: &mut Value, pointer: &str, value: Value) {
    let mut at = object;
    for part in pointer.split('/').skip(1) {
        if !at.is_object() {
            *at = json!({});
        }
        at = &mut at[part];
    }
    *at = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_have_their_text_form() {
        let selector = json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["a", "b"]},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        });
        assert_eq!(selector_text(&selector), "app=web,tier in (a,b),!old");
    }
}
