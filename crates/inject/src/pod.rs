//! The way of one pod: check, render, merge, then what no template can say.

use std::collections::BTreeMap;

use ironsail_names::{annotation as names, label};
use ironsail_patch::strategic_merge;
use serde_json::{Map, Value};

use crate::container::{self, CONTAINERS, INIT_CONTAINERS, PROXY};
use crate::error::Error;
use crate::injector::{Injector, Subject};
use crate::object::{annotations, flag, labels, list_mut, section, text};
use crate::overrides::Words;
use crate::render::{self, Input};
use crate::status::Status;
use crate::{annotation, image, order, overrides, probe, prometheus, proxyconfig};

const CLUSTER_ENV: &str = "ISTIO_META_CLUSTER_ID";
const NETWORK_ENV: &str = "ISTIO_META_NETWORK";

pub(crate) fn inject(injector: &Injector, subject: &Subject<'_>) -> Result<Value, Error> {
    let bad = annotation::check(&annotations(subject.pod));
    if !bad.is_empty() {
        return Err(Error::Annotations(bad));
    }
    let env = env(injector, subject);
    let proxy_config = proxy_config(injector, subject)?;
    let (merged, rendered) = merge_templates(injector, subject, &proxy_config)?;
    let words = Words::of(subject.pod)?;
    let mut pod = overrides::reapply(merged, &words, &rendered, &injector.pod_type)?;
    overrides::follow_user(&mut pod, &words, &proxy_config);
    set_env(&mut pod, &env);
    prometheus::merge(&mut pod, &injector.mesh);
    let rewrites = injector.values.flag(&["sidecarInjectorWebhook", "rewriteAppHTTPProbe"]);
    probe::rewrite(&mut pod, rewrites, injector.mesh.status_port());
    overrides::keep_order(&mut pod, &words);
    describe(&mut pod, injector, &rendered, &env);
    let hold = flag(&proxy_config["holdApplicationUntilProxyStarts"])
        || injector.values.flag(&["global", "proxy", "holdApplicationUntilProxyStarts"]);
    order::arrange(&mut pod, hold, &injector.settings.init_before_proxy);
    Ok(pod)
}

/// Cluster and network, from the values, the address of the webhook or a label, the last first.
fn env(injector: &Injector, subject: &Subject<'_>) -> BTreeMap<String, String> {
    let mut env = subject.env.clone();
    let mut fill = |name: &str, value: &str| {
        let known = env.entry(name.to_owned()).or_default();
        if known.is_empty() {
            value.clone_into(known);
        }
    };
    fill(CLUSTER_ENV, injector.values.cluster());
    fill(NETWORK_ENV, injector.values.network());
    if let Some(network) = labels(subject.pod).get(label::NETWORK) {
        env.insert(NETWORK_ENV.to_owned(), network.clone());
    }
    env.retain(|name, value| !value.is_empty() || subject.env.contains_key(name));
    env
}

fn proxy_config(injector: &Injector, subject: &Subject<'_>) -> Result<Value, Error> {
    let annotations = annotations(subject.pod);
    let mut config = injector.mesh.default_config().clone();
    let (mesh, pod_labels) = (&injector.mesh, labels(subject.pod));
    let root = mesh.root_namespace();
    let overlays = &injector.overlays;
    proxyconfig::apply_overlays(&mut config, overlays, root, subject.namespace, &pod_labels);
    if let Some(address) = annotations.get(names::DISCOVERY_ADDRESS) {
        config.discovery_address.clone_from(address);
    }
    if let Some(own) = annotations.get(names::PROXY_CONFIG) {
        config = annotation::with_proxy_config(config, own).map_err(|reason| {
            Error::Annotations(vec![annotation::BadAnnotation {
                name: names::PROXY_CONFIG.to_owned(),
                value: own.clone(),
                reason,
            }])
        })?;
    }
    Ok(proxyconfig::tree(&config))
}

/// The pod with all templates merged, and what the templates alone give.
fn merge_templates(
    injector: &Injector,
    subject: &Subject<'_>,
    proxy_config: &Value,
) -> Result<(Value, Value), Error> {
    let own = annotations(subject.pod);
    let native = match own.get(names::NATIVE_SIDECAR).map(String::as_str) {
        Some(word) => word == "true",
        None => injector.settings.native(),
    };
    let original = overrides::original(subject.pod, injector.mesh.status_port())?;
    let input = Input {
        image: &image::proxy(&injector.values, proxy_config, &annotations(&original)),
        pod: &original,
        owner: &subject.owner,
        proxy_config,
        mesh: injector.mesh.tree(),
        values: injector.values.tree(),
        revision: injector.settings.revision_or_default(),
        native,
        inbound_mode: injector.mesh.inbound_mode(),
        compliance_policy: &injector.settings.compliance_policy,
    };
    let mut merged = subject.pod.clone();
    let mut rendered = Value::Object(Map::new());
    for name in injector.config.wanted(own.get(names::INJECT_TEMPLATES).map(String::as_str)) {
        let Some(templates) = injector.templates.get(&name) else {
            let known: Vec<&str> = injector.templates.keys().map(String::as_str).collect();
            return Err(Error::UnknownTemplate { name, known: known.join(", ") });
        };
        let part = render::render(templates, &name, &input)?;
        let failed = |cause| Error::Merge { name: name.clone(), cause: Box::new(cause) };
        rendered = strategic_merge(&rendered, &part, &injector.pod_type).map_err(failed)?;
        // Users change the proxy in `containers`; here it is an init container.
        if container::find(&rendered, INIT_CONTAINERS, PROXY).is_some()
            && let Some(proxy) = container::take(&mut merged, CONTAINERS, PROXY)
        {
            container::push(&mut merged, INIT_CONTAINERS, proxy);
        }
        merged = strategic_merge(&merged, &part, &injector.pod_type).map_err(failed)?;
    }
    Ok((merged, rendered))
}

/// Sets variables of the proxy, in place of any of the same names.
fn set_env(pod: &mut Value, env: &BTreeMap<String, String>) {
    let Some(proxy) = container::anywhere_mut(pod, PROXY) else { return };
    if let Some(known) = list_mut(proxy, &["env"]) {
        known.retain(|entry| !env.contains_key(text(entry, &["name"])));
    }
    for (name, value) in env {
        container::push_env(proxy, name, value);
    }
}

fn describe(
    pod: &mut Value,
    injector: &Injector,
    rendered: &Value,
    env: &BTreeMap<String, String>,
) {
    if let Some(network) = env.get(NETWORK_ENV) {
        section(pod, &["metadata", "labels"])
            .insert(label::NETWORK.to_owned(), network.as_str().into());
    }
    let status = Status::of(rendered, injector.settings.revision_or_default()).text();
    let annotations = section(pod, &["metadata", "annotations"]);
    annotations.insert(names::STATUS.to_owned(), status.into());
    for (name, value) in &injector.config.injected_annotations {
        annotations.insert(name.clone(), value.as_str().into());
    }
}
