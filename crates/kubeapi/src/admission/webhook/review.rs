//! AdmissionReview: the question sent to a webhook, and what its answer says.
//!
//! Answers come from outside: any bytes are read without panic, and what is not exactly an answer
//! to our question is a failed call.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use super::condition::Variables;
use super::hook::Hook;
use super::matching::{View, is_namespace};
use crate::admission::{Request, Warnings};
use crate::auth::Refusal;

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";
/// Headers are small; whoever has more to say is cut short.
const MAX_WARNINGS: usize = 32;
const MAX_WARNING: usize = 256;

/// The question as sent.
pub(super) struct Asked {
    pub(super) uid: String,
    pub(super) body: Vec<u8>,
}

/// What an allowed request brings back.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) patch: Option<json_patch::Patch>,
    pub(super) warnings: Warnings,
}

#[derive(Debug)]
pub(super) enum Failure {
    /// The webhook could not be asked or did not answer properly: its failure policy decides.
    Call(String),
    /// The webhook said no.
    Denied(Refusal),
}

pub(super) fn request(request: &Request, view: &View) -> Asked {
    let uid = uuid::Uuid::new_v4().to_string();
    let mut fields = fields(request, view);
    fields["uid"] = json!(uid);
    let convert = |object: Option<&Value>| object.map_or(Value::Null, |o| view.convert(o));
    fields["object"] = convert(request.object.as_ref());
    fields["oldObject"] = convert(request.old.as_deref());
    let review = json!({ "kind": KIND, "apiVersion": API_VERSION, "request": fields });
    Asked { uid, body: review.to_string().into_bytes() }
}

/// The same for match conditions, where the objects are variables of their own.
pub(super) fn request_fields(request: &Request, view: &View) -> Variables {
    let convert = |object: Option<&Value>| object.map_or(Value::Null, |o| view.convert(o));
    Variables {
        object: convert(request.object.as_ref()),
        old_object: convert(request.old.as_deref()),
        request: fields(request, view),
    }
}

fn fields(request: &Request, view: &View) -> Value {
    let kind = kind_of(request, None);
    let resource = |version: &str| json!({ "group": request.group, "version": version, "resource": request.resource });
    let mut out = json!({
        "kind": kind_of(request, Some(view)),
        "resource": resource(&view.version),
        "requestKind": kind,
        "requestResource": resource(&request.version),
        "operation": request.operation.as_str(),
        "userInfo": request.user.to_json(),
        "dryRun": request.dry_run,
        "options": request.options,
    });
    if !request.subresource.is_empty() {
        out["subResource"] = json!(request.subresource);
        out["requestSubResource"] = json!(request.subresource);
    }
    if !request.name.is_empty() {
        out["name"] = json!(request.name);
    }
    // Kubernetes names a namespace as its own namespace here.
    let namespace = if is_namespace(request) { &request.name } else { &request.namespace };
    if !namespace.is_empty() {
        out["namespace"] = json!(namespace);
    }
    out
}

/// The kind of the object, which for a subresource may be one of another group.
fn kind_of(request: &Request, view: Option<&View>) -> Value {
    let object = request.object.as_ref().or(request.old.as_deref());
    let own = object.and_then(|o| Some((o["apiVersion"].as_str()?, o["kind"].as_str()?)));
    let (group, version, kind) = match own {
        Some((api_version, kind)) => {
            let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
            (group, version, kind)
        }
        None => (request.group.as_str(), request.version.as_str(), request.kind.as_str()),
    };
    let version = match view {
        Some(view) if !view.api_version.is_empty() => &view.version,
        _ => version,
    };
    json!({ "group": group, "version": version, "kind": kind })
}

/// Reads the answer to the question `uid`.
pub(super) fn verdict(hook: &Hook, uid: &str, body: &[u8]) -> Result<Verdict, Failure> {
    let call = |why: String| Failure::Call(why);
    let review: Value =
        serde_json::from_slice(body).map_err(|e| call(format!("the answer is not JSON: {e}")))?;
    let text = |key: &str| review[key].as_str().unwrap_or_default();
    if (text("apiVersion"), text("kind")) != (API_VERSION, KIND) {
        return Err(call(format!(
            "expected webhook response of {API_VERSION}, Kind={KIND}, got {}, Kind={}",
            text("apiVersion"),
            text("kind")
        )));
    }
    let response = &review["response"];
    if !response.is_object() {
        return Err(call("webhook response was absent".to_owned()));
    }
    let echoed = response["uid"].as_str().unwrap_or_default();
    if echoed != uid {
        return Err(call(format!("expected response.uid={uid:?}, got {echoed:?}")));
    }
    if response["allowed"] != true {
        return Err(Failure::Denied(denial(&hook.name, &response["status"])));
    }
    let patch = patch(response).map_err(call)?;
    Ok(Verdict { patch, warnings: warnings(&response["warnings"]) })
}

fn patch(response: &Value) -> Result<Option<json_patch::Patch>, String> {
    let (patch, kind) = (&response["patch"], &response["patchType"]);
    match (patch.as_str().filter(|p| !p.is_empty()), kind.as_str()) {
        (None, None) => Ok(None),
        (Some(_), None) => {
            Err("webhook returned response.patch but not response.patchType".to_owned())
        }
        (None, Some(_)) => {
            Err("webhook returned response.patchType but not response.patch".to_owned())
        }
        (Some(encoded), Some("JSONPatch")) => {
            let bytes =
                BASE64.decode(encoded).map_err(|e| format!("response.patch is not base64: {e}"))?;
            let patch = serde_json::from_slice(&bytes)
                .map_err(|e| format!("response.patch is not a JSON patch: {e}"))?;
            Ok(Some(patch))
        }
        (Some(_), Some(other)) => {
            Err(format!("webhook returned invalid response.patchType of {other:?}"))
        }
    }
}

fn warnings(value: &Value) -> Warnings {
    let clean = |text: &str| {
        let text: String =
            text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX_WARNING).collect();
        text.trim().to_owned()
    };
    let texts = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    texts.map(clean).filter(|t| !t.is_empty()).take(MAX_WARNINGS).collect()
}

/// A rejection with what the webhook said about it.
fn denial(name: &str, status: &Value) -> Refusal {
    let denied = format!("admission webhook {name:?} denied the request");
    let text = |key: &str| status[key].as_str().unwrap_or_default();
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = status["code"].as_u64().and_then(|c| u16::try_from(c).ok());
    let code = code.filter(|c| (400..600).contains(c)).unwrap_or(400);
    Refusal {
        code,
        reason: text("reason").to_owned(),
        message,
        details: Some(status["details"].clone()).filter(Value::is_object),
    }
}
