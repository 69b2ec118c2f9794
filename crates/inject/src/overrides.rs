//! The user's own words about the containers of the templates: a container `istio-proxy` in the pod
//! changes the injected one, and is remembered in an annotation for the next injection.

use ironsail_names::annotation;
use ironsail_patch::{TypeInfo, strategic_merge};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::container::{self, CONTAINERS, INIT, INIT_CONTAINERS, PROXY, VALIDATION};
use crate::error::Error;
use crate::object::{annotations, at, items, list_mut, section, text};
use crate::{prometheus, status};

/// The image of a container that only changes settings: the injected one stays.
const AUTO_IMAGE: &str = "auto";

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Overrides {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    containers: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_containers: Vec<Value>,
}

impl Overrides {
    fn remembered(pod: &Value) -> Result<Self, Error> {
        match annotations(pod).get(annotation::PROXY_OVERRIDES) {
            None => Ok(Self::default()),
            Some(text) => {
                serde_json::from_str(text).map_err(|error| Error::Overrides(error.to_string()))
            }
        }
    }
}

/// The pod as it was before an earlier injection, for the templates to look at.
pub(crate) fn original(pod: &Value, status_port: i64) -> Result<Value, Error> {
    let mut pod = pod.clone();
    if let Some(status) = status::read(&pod) {
        for (which, names) in
            [(CONTAINERS, &status.containers), (INIT_CONTAINERS, &status.init_containers)]
        {
            for name in names.iter().flatten() {
                container::take(&mut pod, which, name);
            }
        }
        prometheus::forget(&mut pod, status_port);
        section(&mut pod, &["metadata", "annotations"]).remove(annotation::STATUS);
    }
    let remembered = Overrides::remembered(&pod)?;
    for (which, kept) in
        [(CONTAINERS, remembered.containers), (INIT_CONTAINERS, remembered.init_containers)]
    {
        for container in kept {
            if container::find(&pod, which, text(&container, &["name"])).is_none() {
                container::push(&mut pod, which, container);
            }
        }
    }
    Ok(pod)
}

/// What the user says about injected containers, over the merged pod.
///
/// `rendered` is what all templates gave, `original` the pod as it came in.
pub(crate) fn reapply(
    mut merged: Value,
    original: &Value,
    rendered: &Value,
    ty: &TypeInfo,
) -> Result<Value, Error> {
    let remembered = Overrides::remembered(original)?;
    let before = status::read(original);
    let mut found = Overrides::default();
    for which in [CONTAINERS, INIT_CONTAINERS] {
        let (kept, seen) = match which {
            CONTAINERS => (&remembered.containers, &mut found.containers),
            _ => (&remembered.init_containers, &mut found.init_containers),
        };
        let injected_before: &[String] = before
            .as_ref()
            .and_then(|s| {
                if which == CONTAINERS {
                    s.containers.as_deref()
                } else {
                    s.init_containers.as_deref()
                }
            })
            .unwrap_or_default();
        for template in container::list(rendered, which) {
            let name = text(template, &["name"]);
            // What an earlier injection put there is not the user's word.
            if injected_before.iter().any(|injected| injected == name) {
                continue;
            }
            let own = container::named(kept, name).or_else(|| match which {
                CONTAINERS => container::find(original, CONTAINERS, name),
                _ => container::anywhere(original, name),
            });
            let Some(own) = own else { continue };
            let mut own = own.clone();
            if text(&own, &["image"]) == AUTO_IMAGE {
                section(&mut own, &[]).remove("image");
            }
            merged = strategic_merge(&merged, &json!({ "spec": { which: [own.clone()] } }), ty)
                .map_err(|cause| Error::Override {
                    name: name.to_owned(),
                    cause: Box::new(cause),
                })?;
            seen.push(own);
        }
    }
    if before.is_none() && !(found.containers.is_empty() && found.init_containers.is_empty()) {
        let text = serde_json::to_string(&found).expect("JSON values are JSON");
        section(&mut merged, &["metadata", "annotations"])
            .insert(annotation::PROXY_OVERRIDES.to_owned(), text.into());
    }
    Ok(merged)
}

/// The container that sets up or checks the packet rules follows the user that the pod gives its proxy.
pub(crate) fn follow_user(merged: &mut Value, original: &Value, proxy_config: &Value) {
    let Some(own) = container::anywhere(original, PROXY) else { return };
    let user = at(own, &["securityContext", "runAsUser"]).as_i64();
    let group = at(own, &["securityContext", "runAsGroup"]).as_i64();
    if user.is_none() && group.is_none() {
        return;
    }
    let mode = annotations(merged).remove(annotation::INTERCEPTION_MODE);
    let transparent =
        text(proxy_config, &["interceptionMode"]) == "TPROXY" || mode.as_deref() == Some("TPROXY");
    if transparent
        && user.is_some()
        && let Some(proxy) = container::anywhere_mut(merged, PROXY)
    {
        // Only root may take connections of other addresses.
        section(proxy, &["securityContext"]).insert("runAsUser".to_owned(), 0.into());
    }
    let which = [INIT, VALIDATION]
        .into_iter()
        .find(|name| container::find(merged, INIT_CONTAINERS, name).is_some());
    let Some(rules) = which.and_then(|name| container::find_mut(merged, INIT_CONTAINERS, name))
    else {
        return;
    };
    if !transparent && which == Some(VALIDATION) {
        let context = section(rules, &["securityContext"]);
        for (key, id) in [("runAsUser", user), ("runAsGroup", group)] {
            if let Some(id) = id {
                context.insert(key.to_owned(), id.into());
            }
        }
    }
    // Root owns more than the proxy; its traffic cannot be told apart.
    let Some(user) = user.filter(|user| *user != 0) else { return };
    let place = items(rules, &["args"]).iter().position(|arg| arg == "-u").map(|index| index + 1);
    let arg = list_mut(rules, &["args"]).and_then(|args| args.get_mut(place?));
    if let Some(arg) = arg {
        *arg = user.to_string().into();
    }
}
