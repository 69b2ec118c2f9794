//! The user's own words about the containers of the templates: a container `istio-proxy` in the pod
//! changes the injected one, and is remembered in an annotation for the next injection.

use std::collections::BTreeMap;

use ironsail_names::annotation;
use ironsail_patch::{TypeInfo, strategic_merge};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::container::{self, CONTAINERS, INIT, INIT_CONTAINERS, PROXY, VALIDATION};
use crate::error::Error;
use crate::object::{annotations, at, items, list_mut, section, text};
use crate::prometheus;
use crate::status::{self, Status};

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

/// The user's own words in one pod: those of now, and those remembered from an earlier injection.
pub(crate) struct Words<'a> {
    pod: &'a Value,
    remembered: Overrides,
    before: Option<Status>,
}

impl<'a> Words<'a> {
    pub(crate) fn of(pod: &'a Value) -> Result<Self, Error> {
        Ok(Self { pod, remembered: Overrides::remembered(pod)?, before: status::read(pod) })
    }

    /// What the user says about the container of this name in the list.
    fn about(&self, which: &str, name: &str) -> Option<&Value> {
        let (kept, injected) = match which {
            CONTAINERS => {
                (&self.remembered.containers, self.before.as_ref().map(|s| &s.containers))
            }
            _ => {
                (&self.remembered.init_containers, self.before.as_ref().map(|s| &s.init_containers))
            }
        };
        if let Some(kept) = container::named(kept, name) {
            return Some(kept);
        }
        // What an earlier injection put there is not the user's word.
        let injected = injected.and_then(Option::as_ref);
        if injected.is_some_and(|names| names.iter().any(|injected| injected == name)) {
            return None;
        }
        match which {
            CONTAINERS => container::find(self.pod, CONTAINERS, name),
            _ => container::anywhere(self.pod, name),
        }
    }
}

/// What the user says about injected containers, over the merged pod. `rendered` is what all
/// templates gave.
pub(crate) fn reapply(
    mut merged: Value,
    words: &Words<'_>,
    rendered: &Value,
    ty: &TypeInfo,
) -> Result<Value, Error> {
    let mut found = Overrides::default();
    for which in [CONTAINERS, INIT_CONTAINERS] {
        for template in container::list(rendered, which) {
            let name = text(template, &["name"]);
            let Some(own) = words.about(which, name) else { continue };
            let mut own = own.clone();
            if text(&own, &["image"]) == AUTO_IMAGE {
                section(&mut own, &[]).remove("image");
            }
            merged = strategic_merge(&merged, &json!({ "spec": { which: [own.clone()] } }), ty)
                .map_err(|cause| Error::Override {
                    name: name.to_owned(),
                    cause: Box::new(cause),
                })?;
            match which {
                CONTAINERS => found.containers.push(own),
                _ => found.init_containers.push(own),
            }
        }
    }
    if words.before.is_none() && !(found.containers.is_empty() && found.init_containers.is_empty())
    {
        let text = serde_json::to_string(&found).expect("JSON values are JSON");
        section(&mut merged, &["metadata", "annotations"])
            .insert(annotation::PROXY_OVERRIDES.to_owned(), text.into());
    }
    Ok(merged)
}

/// After an earlier injection, variables of the proxy stay in the order they had.
pub(crate) fn keep_order(merged: &mut Value, words: &Words<'_>) {
    let before = words.before.as_ref().and_then(|_| container::anywhere(words.pod, PROXY));
    let Some(before) = before else { return };
    let places: BTreeMap<&str, usize> =
        items(before, &["env"]).iter().zip(0..).map(|(e, i)| (text(e, &["name"]), i)).collect();
    let proxy = container::anywhere_mut(merged, PROXY);
    if let Some(env) = proxy.and_then(|proxy| list_mut(proxy, &["env"])) {
        env.sort_by_key(|e| places.get(text(e, &["name"])).copied().unwrap_or(usize::MAX));
    }
}

/// The container that sets up or checks the packet rules follows the user that the pod gives its proxy.
pub(crate) fn follow_user(merged: &mut Value, words: &Words<'_>, proxy_config: &Value) {
    let own = words.about(INIT_CONTAINERS, PROXY);
    let own = words.about(CONTAINERS, PROXY).filter(|_| own.is_none()).or(own);
    let Some(own) = own else { return };
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
