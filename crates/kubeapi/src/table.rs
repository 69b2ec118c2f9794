//! Objects as `Table` rows, and objects reduced to their metadata.

use std::time::SystemTime;

use serde_json::{Map, Value, json};

use crate::query::Query;
use crate::registry::Definition;
use crate::status::Status;

/// What a row carries of its object besides the cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    Metadata,
    Object,
}

impl Include {
    pub(crate) fn parse(query: &Query) -> Result<Self, Status> {
        match query.get("includeObject") {
            None | Some("" | "Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => {
                Err(Status::bad_request(format!("unrecognized includeObject value: {other:?}")))
            }
        }
    }
}

/// `PartialObjectMetadata` of an object.
pub(crate) fn metadata(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": object["metadata"],
    })
}

/// A table of `objects` with the list's metadata.
pub(crate) fn table(
    definition: &dyn Definition,
    objects: &[Value],
    meta: &Value,
    include: Include,
    now: SystemTime,
) -> Value {
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": definition.columns(),
        "rows": objects.iter().map(|o| row(definition, o, include, now)).collect::<Vec<_>>(),
    })
}

fn row(definition: &dyn Definition, object: &Value, include: Include, now: SystemTime) -> Value {
    let mut row = Map::new();
    row.insert("cells".to_owned(), definition.cells(object, now).into());
    let object = match include {
        Include::None => Value::Null,
        Include::Metadata => metadata(object),
        Include::Object => object.clone(),
    };
    row.insert("object".to_owned(), object);
    row.into()
}
