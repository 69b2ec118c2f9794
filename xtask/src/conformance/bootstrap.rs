//! Family `bootstrap`: a proxy's configuration in, Envoy's first configuration out, compared as trees.
//!
//! Who the node is comes from the agent and is taken over from the expectation; so are the paths of the
//! sockets, which the one who made the data had in a temporary folder.

mod prototext;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use ironsail_api::mesh::ProxyConfig;
use ironsail_bootstrap::{Family, Input, Node, Settings, envoy};
use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Case, Verdict, read};

#[derive(Deserialize)]
struct Data {
    name: String,
    env: Option<String>,
    annotations: Option<String>,
    proxycfg: String,
}

/// Cases in which we differ and mean to.
const ON_PURPOSE: &[(&str, &str)] = &[(
    "tracing_lightstep",
    "Envoy has no lightstep tracer any more; the setting is refused with a line that says so",
)];

const WRAPPER: &str = "type.googleapis.com/udpa.type.v1.TypedStruct";

pub(super) fn cases(folder: &Path) -> anyhow::Result<Vec<Case>> {
    let data: Vec<Data> = serde_json::from_str(&read(&folder.join("cases.json"))?)?;
    data.into_iter()
        .map(|case| {
            let want = read(&folder.join(format!("{}_golden.json", case.name)))?;
            let mut want: Value = serde_json::from_str(&want).with_context(|| case.name.clone())?;
            unwrap(&mut want);
            whole_paths(&mut want);
            let given = read(&folder.join(&case.proxycfg))?;
            let given = prototext::parse(&given).with_context(|| case.proxycfg.clone())?;
            let seen = built(&case, &given, &want);
            let difference = difference("", &seen, &want).map_or(Ok(()), Err);
            let purpose = ON_PURPOSE.iter().find(|(name, _)| *name == case.name);
            Ok(match purpose {
                Some((_, reason)) if difference.is_err() => {
                    Case { name: case.name, verdict: Verdict::OnPurpose(reason) }
                }
                _ => Case::judged(case.name, difference),
            })
        })
        .collect()
}

fn built(case: &Data, given: &Value, want: &Value) -> Value {
    let config = ProxyConfig::default().overlaid(given).value;
    let quoted = Regex::new(r#""?([\w./]+)"?:\s*"([^"]*)""#).expect("the pattern is right");
    let notes = |text: &Option<String>| -> BTreeMap<String, String> {
        let text = text.as_deref().unwrap_or_default();
        quoted.captures_iter(text).map(|c| (c[1].to_owned(), c[2].to_owned())).collect()
    };
    let env = notes(&case.env);
    let annotations = notes(&case.annotations);
    let text = |path: &str| want.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let clusters = want.pointer("/static_resources/clusters").and_then(Value::as_array);
    let socket = |name: &str| {
        let mut found = clusters.into_iter().flatten().filter(|c| c["name"] == name);
        let path = "/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/pipe/path";
        let path = found.next().and_then(|c| c.pointer(path)?.as_str());
        path.unwrap_or_default().to_owned()
    };
    let node = Node {
        id: text("/node/id").to_owned(),
        cluster: text("/node/cluster").to_owned(),
        locality: ironsail_names::Locality::default(),
        metadata: want["node"]["metadata"].as_object().cloned().unwrap_or_default(),
    };
    let (settings, _) = Settings::new(Input {
        config: &config,
        node,
        annotations: &annotations,
        family: Family::V4,
        xds_socket: &socket("xds-grpc"),
        sds_socket: &socket("sds-grpc"),
        outlier_log: "/dev/stdout",
        log_as_json: false,
        prometheus_port: 15090,
        ready_port: 15021,
        max_connections: env.get("GlobalDownstreamMaxConnections").map(String::as_str),
        load_stats: None,
        ips: &[],
        until_idle: false,
    });
    envoy(&settings)
}

/// The wrapper for types that a control plane does not know says nothing by itself.
fn unwrap(value: &mut Value) {
    if value["@type"] == WRAPPER {
        let mut inner = value["value"].as_object().cloned().unwrap_or_default();
        inner.insert("@type".to_owned(), value["type_url"].clone());
        *value = Value::Object(inner);
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(unwrap),
        Value::Array(items) => items.iter_mut().for_each(unwrap),
        _ => {}
    }
}

/// On purpose: a prefix would let `/stats/prometheus/../../quitquitquit` through to Envoy's admin port.
fn whole_paths(value: &mut Value) {
    if let Some(found) = value.get_mut("match").and_then(Value::as_object_mut)
        && let Some(path) = found.remove("prefix")
    {
        found.insert("path".to_owned(), path);
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(whole_paths),
        Value::Array(items) => items.iter_mut().for_each(whole_paths),
        _ => {}
    }
}

/// The first place where the trees differ.
pub(super) fn difference(path: &str, seen: &Value, want: &Value) -> Option<String> {
    match (seen, want) {
        (Value::Object(seen), Value::Object(want)) => keys(seen, want).find_map(|key| {
            let path = format!("{path}/{key}");
            match (seen.get(key), want.get(key)) {
                (Some(seen), Some(want)) => difference(&path, seen, want),
                (Some(_), None) => Some(format!("{path} should not be there")),
                (None, _) => Some(format!("{path} is missing")),
            }
        }),
        (Value::Array(seen), Value::Array(want)) if seen.len() == want.len() => {
            let pairs = seen.iter().zip(want).enumerate();
            pairs.into_iter().find_map(|(n, (s, w))| difference(&format!("{path}/{n}"), s, w))
        }
        (seen, want) if seen == want => None,
        (seen, want) => Some(format!("{path} is {seen}, should be {want}")),
    }
}

fn keys<'a>(
    seen: &'a Map<String, Value>,
    want: &'a Map<String, Value>,
) -> impl Iterator<Item = &'a String> {
    seen.keys().chain(want.keys().filter(|key| !seen.contains_key(*key)))
}
