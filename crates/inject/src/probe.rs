//! Probes of the application that the kubelet sends: it knows no mesh certificates, so they go to the
//! agent, which asks the application. The agent gets the true probes in a variable.

use std::collections::BTreeMap;

use ironsail_names::annotation;
use serde_json::{Map, Value, json};

use crate::container::{self, CONTAINERS, INIT_CONTAINERS, PROXY};
use crate::object::{annotations, items, list_mut, parse_bool, section, text};

const ENV: &str = "ISTIO_KUBE_APP_PROBERS";
/// Field of the container, and the last part of the agent's path.
const PROBES: [(&str, &str); 3] =
    [("readinessProbe", "readyz"), ("livenessProbe", "livez"), ("startupProbe", "startupz")];
const HANDLERS: [(&str, &str); 2] = [("preStop", "prestopz"), ("postStart", "poststartz")];

/// `by_default` holds for pods that do not say.
pub(crate) fn rewrite(pod: &mut Value, by_default: bool, status_port: i64) {
    let annotations = annotations(pod);
    let asked = annotations.get(annotation::REWRITE_APP_PROBES).and_then(|text| parse_bool(text));
    if !asked.unwrap_or(by_default) || container::anywhere(pod, PROXY).is_none() {
        return;
    }
    let own_port = annotations.get(annotation::STATUS_PORT);
    let port = own_port.and_then(|text| text.trim().parse().ok()).unwrap_or(status_port);
    // Without a status port nobody would answer.
    if port == 0 {
        return;
    }
    let mut moved = BTreeMap::new();
    for which in [INIT_CONTAINERS, CONTAINERS] {
        for container in list_mut(pod, &["spec", which]).into_iter().flatten() {
            if text(container, &["name"]) != PROXY {
                rewrite_container(container, port, &mut moved);
            }
        }
    }
    if !moved.is_empty()
        && let Some(proxy) = container::anywhere_mut(pod, PROXY)
    {
        tell(proxy, moved);
    }
}

fn rewrite_container(container: &mut Value, port: i64, moved: &mut BTreeMap<String, Value>) {
    let name = text(container, &["name"]).to_owned();
    let ports: BTreeMap<String, i64> = items(container, &["ports"])
        .iter()
        .filter_map(|port| {
            Some((port["name"].as_str()?.to_owned(), port["containerPort"].as_i64()?))
        })
        .collect();
    for (field, last) in PROBES {
        if let Some(probe) = container.get_mut(field) {
            let path = format!("/app-health/{name}/{last}");
            moved.extend(redirect(probe, &path, port, &ports).map(|prober| (path, prober)));
        }
    }
    let Some(lifecycle) = container.get_mut("lifecycle") else { return };
    for (field, last) in HANDLERS {
        if let Some(handler) = lifecycle.get_mut(field) {
            let path = format!("/app-lifecycle/{name}/{last}");
            // A handler has no gRPC.
            if handler.get("grpc").is_none() {
                moved.extend(redirect(handler, &path, port, &ports).map(|prober| (path, prober)));
            }
        }
    }
}

/// Sends the probe to the agent; what it was goes out. `None` when it stays as it is.
fn redirect(
    probe: &mut Value,
    path: &str,
    port: i64,
    ports: &BTreeMap<String, i64>,
) -> Option<Value> {
    let kind =
        ["httpGet", "tcpSocket", "grpc"].into_iter().find(|kind| probe[*kind].is_object())?;
    let mut action = probe[kind].clone();
    let target = match &action["port"] {
        Value::String(name) => match ports.get(name) {
            Some(number) => *number,
            // The kubelet could not resolve the name either.
            None => name.parse().ok()?,
        },
        number => number.as_i64()?,
    };
    // An earlier injection was here.
    if target == port && kind == "httpGet" && text(&action, &["path"]) == path {
        return None;
    }
    action["port"] = target.into();
    let mut prober = Map::from_iter([(kind.to_owned(), action)]);
    if let Some(timeout) = probe["timeoutSeconds"].as_i64().filter(|seconds| *seconds != 0) {
        prober.insert("timeoutSeconds".to_owned(), timeout.into());
    }
    let fields = section(probe, &[]);
    let mut get = match kind {
        "httpGet" => fields["httpGet"].clone(),
        _ => json!({}),
    };
    fields.remove(kind);
    get["port"] = port.into();
    get["path"] = path.into();
    // The agent speaks TLS to the application; the kubelet need not.
    if get["scheme"] == "HTTPS" {
        get["scheme"] = "HTTP".into();
    }
    fields.insert("httpGet".to_owned(), get);
    Some(Value::Object(prober))
}

/// Hands the probes to the agent, beside those of an earlier injection.
fn tell(proxy: &mut Value, mut moved: BTreeMap<String, Value>) {
    let known = list_mut(proxy, &["env"])
        .and_then(|env| env.iter_mut().find(|entry| text(entry, &["name"]) == ENV));
    let Some(known) = known else {
        let text = serde_json::to_string(&moved).expect("JSON values are JSON");
        container::push_env(proxy, ENV, &text);
        return;
    };
    let before: BTreeMap<String, Value> =
        serde_json::from_str(text(known, &["value"])).unwrap_or_default();
    moved.extend(before);
    known["value"] = serde_json::to_string(&moved).expect("JSON values are JSON").into();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(probe: &Value) -> Value {
        json!({ "metadata": {}, "spec": { "containers": [
            { "name": "app", "ports": [{ "name": "web", "containerPort": 8080 }],
              "livenessProbe": probe },
            { "name": PROXY },
        ] } })
    }

    fn rewritten(probe: &Value) -> (Value, Value) {
        let mut pod = pod(probe);
        rewrite(&mut pod, true, 15020);
        let env = pod["spec"]["containers"][1]["env"][0]["value"].as_str().unwrap_or("null");
        let told = serde_json::from_str(env).unwrap();
        (pod["spec"]["containers"][0]["livenessProbe"].take(), told)
    }

    #[test]
    fn every_kind_of_probe_goes_to_the_agent() {
        let agent = json!({ "path": "/app-health/app/livez", "port": 15020 });
        let (probe, told) = rewritten(&json!({ "httpGet": { "port": "web", "path": "/x" },
                                               "timeoutSeconds": 3 }));
        assert_eq!(probe, json!({ "httpGet": agent, "timeoutSeconds": 3 }));
        assert_eq!(
            told["/app-health/app/livez"],
            json!({ "httpGet": { "port": 8080, "path": "/x" }, "timeoutSeconds": 3 })
        );
        let (probe, told) = rewritten(&json!({ "tcpSocket": { "port": 9 }, "periodSeconds": 2 }));
        assert_eq!(probe, json!({ "httpGet": agent, "periodSeconds": 2 }));
        assert_eq!(told["/app-health/app/livez"], json!({ "tcpSocket": { "port": 9 } }));
        let (probe, told) = rewritten(&json!({ "grpc": { "port": 9, "service": "s" } }));
        assert_eq!(probe, json!({ "httpGet": agent }));
        assert_eq!(told["/app-health/app/livez"], json!({ "grpc": { "port": 9, "service": "s" } }));
    }

    #[test]
    fn probes_that_the_agent_cannot_answer_stay() {
        for probe in [
            json!({ "exec": { "command": ["true"] } }),
            json!({ "httpGet": { "port": "nowhere" } }),
            json!({ "httpGet": 3 }),
            json!("nonsense"),
        ] {
            assert_eq!(rewritten(&probe), (probe, Value::Null));
        }
    }

    #[test]
    fn the_second_time_changes_nothing() {
        let mut once = pod(&json!({ "httpGet": { "port": 80 } }));
        rewrite(&mut once, true, 15020);
        let mut twice = once.clone();
        rewrite(&mut twice, true, 15020);
        assert_eq!(once, twice);
    }

    #[test]
    fn the_annotation_decides() {
        for (word, by_default) in [("false", true), ("true", false)] {
            let before = {
                let mut pod = pod(&json!({ "httpGet": { "port": 80 } }));
                pod["metadata"]["annotations"] = json!({ annotation::REWRITE_APP_PROBES: word });
                pod
            };
            let mut after = before.clone();
            rewrite(&mut after, by_default, 15020);
            assert_eq!(before == after, word == "false");
        }
    }
}
