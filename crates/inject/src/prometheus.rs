//! Metrics of application and proxy in one place: Prometheus is sent to the agent, and the agent is
//! told where the application's metrics are.

use std::collections::BTreeMap;

use ironsail_names::annotation;
use serde::Serialize;
use serde_json::Value;

use crate::container::{self, PROXY};
use crate::mesh::Mesh;
use crate::object::{annotations, parse_bool, section};

/// Several places of metrics: `8080:/metrics,9100:/other`.
pub(crate) const TARGETS: &str = "prometheus.istio.io/scrape-targets";
const ENV: &str = "ISTIO_PROMETHEUS_ANNOTATIONS";
/// More places than this are not one pod's.
const MOST_TARGETS: usize = 64;

#[derive(Debug, Default, Serialize, PartialEq)]
struct Scrape {
    scrape: String,
    path: String,
    port: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    targets: Vec<Target>,
}

#[derive(Debug, Serialize, PartialEq)]
pub(crate) struct Target {
    port: String,
    path: String,
}

/// The places that the annotation names.
pub(crate) fn targets(text: &str) -> Result<Vec<Target>, String> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    let targets: Result<Vec<_>, _> = parts.map(target).collect();
    let targets = targets?;
    if targets.len() > MOST_TARGETS {
        return Err(format!("more than {MOST_TARGETS} targets"));
    }
    Ok(targets)
}

fn target(part: &str) -> Result<Target, String> {
    let (port, path) = part.split_once(':').unwrap_or((part, "/metrics"));
    match port.parse::<u16>() {
        Ok(1..) if path.starts_with('/') => {
            Ok(Target { port: port.to_owned(), path: path.to_owned() })
        }
        _ => Err(format!("'{part}' is not PORT:PATH")),
    }
}

pub(crate) fn merge(pod: &mut Value, mesh: &Mesh) {
    let annotations = annotations(pod);
    if !wants_scraping(&annotations) || !merges(&annotations, mesh) {
        return;
    }
    let agent = mesh.status_port().to_string();
    // The agent's port: an earlier injection was here.
    if value(&annotations, "prometheus_io_port") == Some(&agent) {
        return;
    }
    let scrape = scrape(&annotations);
    if scrape != Scrape::default()
        && let Some(proxy) = container::anywhere_mut(pod, PROXY)
    {
        let text = serde_json::to_string(&scrape).expect("texts are JSON");
        container::push_env(proxy, ENV, &text);
    }
    let annotations = section(pod, &["metadata", "annotations"]);
    annotations.retain(|name, _| !is_ours(name));
    annotations.remove(TARGETS);
    for (name, value) in [
        (annotation::PROMETHEUS_PORT, agent.as_str()),
        (annotation::PROMETHEUS_PATH, "/stats/prometheus"),
        (annotation::PROMETHEUS_SCRAPE, "true"),
    ] {
        annotations.insert(name.to_owned(), value.into());
    }
}

/// Takes away what an earlier injection wrote.
pub(crate) fn forget(pod: &mut Value, status_port: i64) {
    if value(&annotations(pod), "prometheus_io_port") == Some(&status_port.to_string()) {
        section(pod, &["metadata", "annotations"]).retain(|name, _| !is_ours(name));
    }
}

fn scrape(annotations: &BTreeMap<String, String>) -> Scrape {
    let get = |name| value(annotations, name).cloned().unwrap_or_default();
    let mut scrape = Scrape {
        scrape: get("prometheus_io_scrape"),
        path: get("prometheus_io_path"),
        port: get("prometheus_io_port"),
        // Checked with all annotations before.
        targets: annotations.get(TARGETS).and_then(|t| targets(t).ok()).unwrap_or_default(),
    };
    if let Some(first) = scrape.targets.first() {
        scrape.port.clone_from(&first.port);
        scrape.path.clone_from(&first.path);
    }
    scrape
}

fn wants_scraping(annotations: &BTreeMap<String, String>) -> bool {
    value(annotations, "prometheus_io_scrape").and_then(|text| parse_bool(text)).unwrap_or(true)
}

fn merges(annotations: &BTreeMap<String, String>, mesh: &Mesh) -> bool {
    let own = annotations.get(annotation::PROMETHEUS_MERGE).and_then(|text| parse_bool(text));
    own.unwrap_or_else(|| mesh.merges_metrics())
}

/// The annotation under any name that Prometheus takes for this one.
fn value<'a>(annotations: &'a BTreeMap<String, String>, name: &str) -> Option<&'a String> {
    annotations.iter().find(|(key, _)| sanitized(key) == name).map(|(_, value)| value)
}

fn is_ours(name: &str) -> bool {
    matches!(
        sanitized(name).as_str(),
        "prometheus_io_scrape" | "prometheus_io_path" | "prometheus_io_port"
    )
}

/// `prometheus.io/scrape` and `prometheus-io.scrape` are one name to Prometheus.
fn sanitized(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(annotations: &Value) -> Value {
        let mut pod = json!({
            "metadata": { "annotations": annotations },
            "spec": { "containers": [{ "name": PROXY }] },
        });
        merge(&mut pod, &Mesh::default());
        pod
    }

    #[test]
    fn the_agent_is_scraped_and_told_where_the_application_is() {
        let pod = merged(&json!({ "prometheus.io.port": "8080", "prometheus.io/path": "/m" }));
        assert_eq!(
            pod["metadata"]["annotations"],
            json!({ "prometheus.io/port": "15020", "prometheus.io/path": "/stats/prometheus",
                    "prometheus.io/scrape": "true" })
        );
        let env = &pod["spec"]["containers"][0]["env"][0];
        assert_eq!(env["value"], r#"{"scrape":"","path":"/m","port":"8080"}"#);
    }

    #[test]
    fn who_wants_no_scraping_is_left_alone() {
        for annotations in [
            json!({ "prometheus.io/scrape": "false" }),
            json!({ "prometheus.istio.io/merge-metrics": "false" }),
        ] {
            assert_eq!(merged(&annotations)["metadata"]["annotations"], annotations);
        }
    }

    #[test]
    fn nothing_is_told_when_there_is_nothing_to_tell() {
        assert!(merged(&json!({}))["spec"]["containers"][0]["env"].is_null());
    }
}
