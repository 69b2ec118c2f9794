//! The containers of a pod: finding, moving, removing.

use serde_json::Value;

use crate::object::{items, list_mut, section, text};

pub(crate) const PROXY: &str = "istio-proxy";
pub(crate) const INIT: &str = "istio-init";
pub(crate) const VALIDATION: &str = "istio-validation";
pub(crate) const CORE_DUMP: &str = "enable-core-dump";

pub(crate) const CONTAINERS: &str = "containers";
pub(crate) const INIT_CONTAINERS: &str = "initContainers";

/// The containers of one list of the pod.
pub(crate) fn list<'a>(pod: &'a Value, which: &str) -> &'a [Value] {
    items(pod, &["spec", which])
}

pub(crate) fn named<'a>(containers: &'a [Value], name: &str) -> Option<&'a Value> {
    containers.iter().find(|container| text(container, &["name"]) == name)
}

pub(crate) fn find<'a>(pod: &'a Value, which: &str, name: &str) -> Option<&'a Value> {
    named(list(pod, which), name)
}

/// In the containers, else in the init containers.
pub(crate) fn anywhere<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    find(pod, CONTAINERS, name).or_else(|| find(pod, INIT_CONTAINERS, name))
}

pub(crate) fn anywhere_mut<'a>(pod: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    let which = if find(pod, CONTAINERS, name).is_some() { CONTAINERS } else { INIT_CONTAINERS };
    find_mut(pod, which, name)
}

pub(crate) fn find_mut<'a>(pod: &'a mut Value, which: &str, name: &str) -> Option<&'a mut Value> {
    let containers = list_mut(pod, &["spec", which])?;
    containers.iter_mut().find(|container| text(container, &["name"]) == name)
}

/// Takes the container out of the list.
pub(crate) fn take(pod: &mut Value, which: &str, name: &str) -> Option<Value> {
    let containers = list_mut(pod, &["spec", which])?;
    let index = containers.iter().position(|container| text(container, &["name"]) == name)?;
    Some(containers.remove(index))
}

pub(crate) fn put_first(pod: &mut Value, which: &str, container: Value) {
    match list_mut(pod, &["spec", which]) {
        Some(containers) => containers.insert(0, container),
        None => push(pod, which, container),
    }
}

pub(crate) fn push(pod: &mut Value, which: &str, container: Value) {
    if let Some(containers) = list_mut(pod, &["spec", which]) {
        containers.push(container);
    } else {
        section(pod, &["spec"]).insert(which.to_owned(), Value::Array(vec![container]));
    }
}

pub(crate) fn move_first(pod: &mut Value, which: &str, name: &str) {
    if let Some(container) = take(pod, which, name) {
        put_first(pod, which, container);
    }
}

pub(crate) fn move_last(pod: &mut Value, which: &str, name: &str) {
    if let Some(container) = take(pod, which, name) {
        push(pod, which, container);
    }
}

/// Adds an environment variable with a plain value at the end.
pub(crate) fn push_env(container: &mut Value, name: &str, value: &str) {
    let entry = serde_json::json!({ "name": name, "value": value });
    match list_mut(container, &["env"]) {
        Some(env) => env.push(entry),
        None => {
            section(container, &[]).insert("env".to_owned(), Value::Array(vec![entry]));
        }
    }
}
