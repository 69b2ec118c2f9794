//! The life of namespaces: nothing new in a namespace that is missing or going away, and some
//! namespaces that stay.

use serde_json::json;

use super::{Operation, Request};
use crate::auth::{Objects, Refusal};

const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

pub(super) fn check(objects: &dyn Objects, request: &Request) -> Result<(), Refusal> {
    let itself = request.group.is_empty() && request.resource == "namespaces";
    if itself {
        let deleted = request.operation == Operation::Delete && request.subresource.is_empty();
        if deleted && IMMORTAL.contains(&request.name.as_str()) {
            let why = "this namespace may not be deleted";
            return Err(Refusal::forbidden("", "namespaces", &request.name, why));
        }
        return Ok(());
    }
    if request.namespace.is_empty()
        || !matches!(request.operation, Operation::Create | Operation::Update)
    {
        return Ok(());
    }
    let name = &request.namespace;
    let Some(namespace) = objects.get("", "namespaces", None, name) else {
        return Err(Refusal::not_found("", "namespaces", name));
    };
    let ending = namespace["status"]["phase"] == "Terminating"
        || !namespace["metadata"]["deletionTimestamp"].is_null();
    if !ending || request.operation != Operation::Create {
        return Ok(());
    }
    let why =
        format!("unable to create new content in namespace {name} because it is being terminated");
    let mut refusal = Refusal::forbidden(&request.group, &request.resource, &request.name, &why);
    if let Some(details) = &mut refusal.details {
        details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {name} is being terminated"),
            "field": "metadata.namespace",
        }]);
    }
    Err(refusal)
}
