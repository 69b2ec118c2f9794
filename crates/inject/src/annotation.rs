//! Whether the annotations of a pod can be used, before anything is done with them.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use ironsail_api::mesh::ProxyConfig;
use ironsail_api::wire::What;
use ironsail_names::annotation as name;
use serde_json::Value;

use crate::object::parse_bool;
use crate::{prometheus, proxyconfig, quantity};

/// One annotation that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadAnnotation {
    pub name: String,
    pub value: String,
    pub reason: String,
}

impl fmt::Display for BadAnnotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, reason } = self;
        // A long value would hide the reason.
        let shown: String = value.chars().take(200).collect();
        write!(f, "invalid value '{shown}' for annotation '{name}': {reason}")
    }
}

/// The API server cuts long lists of warnings, and nobody reads them.
const MOST_DOUBTS: usize = 10;

type Check = fn(&str) -> Result<(), String>;

const CHECKS: &[(&str, Check)] = &[
    (name::INTERCEPTION_MODE, interception_mode),
    (name::STATUS_PORT, port),
    (name::READINESS_INITIAL_DELAY, number),
    (name::READINESS_PERIOD, number),
    (name::READINESS_FAILURES, number),
    (name::INCLUDE_OUTBOUND_RANGES, all_or_ranges),
    (name::EXCLUDE_OUTBOUND_RANGES, ranges),
    (name::INCLUDE_INBOUND_PORTS, all_or_ports),
    (name::EXCLUDE_INBOUND_PORTS, ports),
    (name::INCLUDE_OUTBOUND_PORTS, all_or_ports),
    (name::EXCLUDE_OUTBOUND_PORTS, ports),
    (name::PROMETHEUS_MERGE, boolean),
    (prometheus::TARGETS, targets),
    (name::REWRITE_APP_PROBES, boolean),
    (name::NATIVE_SIDECAR, true_or_false),
    ("sidecar.istio.io/enableCoreDump", boolean),
    (name::PROXY_CPU, amount),
    (name::PROXY_CPU_LIMIT, amount),
    (name::PROXY_MEMORY, amount),
    (name::PROXY_MEMORY_LIMIT, amount),
    ("sidecar.istio.io/userVolume", objects_by_name),
    ("sidecar.istio.io/userVolumeMount", objects_by_name),
    (name::PROXY_CONFIG, proxy_config),
];

/// All that are wrong, in the order of their names.
pub(crate) fn check(annotations: &BTreeMap<String, String>) -> Vec<BadAnnotation> {
    let wrong = |(name, value): (&String, &String)| {
        let (_, check) = CHECKS.iter().find(|(known, _)| known == name)?;
        let reason = check(value).err()?;
        Some(BadAnnotation { name: name.clone(), value: value.clone(), reason })
    };
    annotations.iter().filter_map(wrong).collect()
}

fn interception_mode(value: &str) -> Result<(), String> {
    match value {
        "REDIRECT" | "TPROXY" | "NONE" => Ok(()),
        _ => Err("interceptionMode invalid, use REDIRECT, TPROXY or NONE".to_owned()),
    }
}

fn port(value: &str) -> Result<(), String> {
    match value.trim().parse::<u16>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("'{value}' is not a port")),
    }
}

fn ports(value: &str) -> Result<(), String> {
    if value.trim().is_empty() { Ok(()) } else { value.split(',').try_for_each(port) }
}

fn all_or_ports(value: &str) -> Result<(), String> {
    if value == "*" { Ok(()) } else { ports(value) }
}

fn number(value: &str) -> Result<(), String> {
    match value.parse::<u32>() {
        Ok(_) => Ok(()),
        Err(_) => Err("not a number from 0 on".to_owned()),
    }
}

fn range(value: &str) -> Result<(), String> {
    let wrong = || format!("'{value}' is not a range of addresses such as 10.0.0.0/8");
    let (address, bits) = value.split_once('/').ok_or_else(wrong)?;
    let address: IpAddr = address.parse().map_err(|_| wrong())?;
    let bits: u8 = bits.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    if bits <= most { Ok(()) } else { Err(wrong()) }
}

fn ranges(value: &str) -> Result<(), String> {
    if value.is_empty() { Ok(()) } else { value.split(',').try_for_each(range) }
}

fn all_or_ranges(value: &str) -> Result<(), String> {
    if value == "*" { Ok(()) } else { ranges(value) }
}

fn boolean(value: &str) -> Result<(), String> {
    parse_bool(value).map(|_| ()).ok_or_else(|| "neither true nor false".to_owned())
}

fn true_or_false(value: &str) -> Result<(), String> {
    match value {
        "true" | "false" => Ok(()),
        _ => Err("neither \"true\" nor \"false\"".to_owned()),
    }
}

fn amount(value: &str) -> Result<(), String> {
    if quantity::is_valid(value) {
        Ok(())
    } else {
        Err("not a quantity such as 100m or 128Mi".to_owned())
    }
}

fn objects_by_name(value: &str) -> Result<(), String> {
    let tree: Value = serde_json::from_str(value).map_err(|error| format!("not JSON: {error}"))?;
    match tree.as_object() {
        Some(objects) if objects.values().all(Value::is_object) => Ok(()),
        _ => Err("not a JSON object that holds objects by name".to_owned()),
    }
}

fn targets(value: &str) -> Result<(), String> {
    prometheus::targets(value).map(|_| ())
}

fn proxy_config(value: &str) -> Result<(), String> {
    with_proxy_config(ProxyConfig::default(), value).map(|_| ())
}

/// The configuration in the annotation over `config`.
pub(crate) fn with_proxy_config(config: ProxyConfig, value: &str) -> Result<ProxyConfig, String> {
    let tree: Value = ironsail_yaml::parse(value).map_err(|error| format!("not YAML: {error}"))?;
    proxyconfig::overlaid(config, &tree)
}

/// What of the annotations nobody will follow: fields that are not known, and those without effect.
pub(crate) fn doubts(annotations: &BTreeMap<String, String>) -> Vec<String> {
    let Some(text) = annotations.get(name::PROXY_CONFIG) else { return Vec::new() };
    let Ok(tree) = ironsail_yaml::parse::<Value>(text) else { return Vec::new() };
    let read = ProxyConfig::default().overlaid(&tree);
    let unknown = read.problems.into_iter().filter(|problem| problem.what == What::Unknown);
    let unknown = unknown.map(|problem| format!("unknown field {:?}", problem.field));
    let idle = read.value.without_effect();
    let idle = idle.into_iter().map(|field| format!("{field} is not supported yet"));
    let said = unknown.chain(idle).take(MOST_DOUBTS);
    said.map(|what| format!("annotation {}: {what}: it has no effect", name::PROXY_CONFIG))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fields_of_the_proxy_config_are_told() {
        let doubts = |text: &str| {
            doubts(&BTreeMap::from([(name::PROXY_CONFIG.to_owned(), text.to_owned())]))
        };
        assert_eq!(doubts("concurrency: 2"), [""; 0]);
        let told = doubts("{concurency: 2, statNameLength: 7}");
        assert!(
            told[0].contains("\"concurency\"") && told[1].contains("statNameLength"),
            "{told:?}"
        );
        assert_eq!(doubts("{"), [""; 0]);
    }

    fn wrong(name: &str, value: &str) -> Vec<BadAnnotation> {
        check(&BTreeMap::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn bad_annotations_are_refused_with_their_name_value_and_reason() {
        for (name, value) in [
            (name::INTERCEPTION_MODE, "redirect"),
            (name::STATUS_PORT, "65536"),
            (name::READINESS_PERIOD, "-1"),
            (name::INCLUDE_OUTBOUND_RANGES, "10.0.0.0"),
            (name::INCLUDE_OUTBOUND_RANGES, "10.0.0.0/33"),
            (name::EXCLUDE_OUTBOUND_RANGES, "*"),
            (name::EXCLUDE_OUTBOUND_RANGES, "10.0.0.0/8,"),
            (name::INCLUDE_INBOUND_PORTS, "80,http"),
            (name::EXCLUDE_INBOUND_PORTS, "*"),
            (name::EXCLUDE_OUTBOUND_PORTS, "80,,81"),
            (name::PROMETHEUS_MERGE, "maybe"),
            (name::NATIVE_SIDECAR, "1"),
            (name::PROXY_CPU, "lots"),
            (name::PROXY_MEMORY_LIMIT, "1 GB"),
            ("sidecar.istio.io/userVolume", "{"),
            ("sidecar.istio.io/userVolumeMount", "[1]"),
            ("sidecar.istio.io/userVolumeMount", "{\"a\":1}"),
            (name::PROXY_CONFIG, "drainDuration: soon"),
            (name::PROXY_CONFIG, "- a"),
            (name::PROXY_CONFIG, "a: [b"),
            (prometheus::TARGETS, "http:/metrics"),
        ] {
            let bad = wrong(name, value);
            assert_eq!(bad.len(), 1, "{name}={value}");
            let shown = bad[0].to_string();
            assert!(shown.contains(name) && shown.contains(value), "{shown}");
        }
    }

    #[test]
    fn good_annotations_pass() {
        for (name, value) in [
            (name::INTERCEPTION_MODE, "NONE"),
            (name::STATUS_PORT, "0"),
            (name::INCLUDE_OUTBOUND_RANGES, "*"),
            (name::INCLUDE_OUTBOUND_RANGES, ""),
            (name::EXCLUDE_OUTBOUND_RANGES, "10.0.0.0/8,fd00::/8"),
            (name::INCLUDE_INBOUND_PORTS, "*"),
            (name::EXCLUDE_INBOUND_PORTS, "80, 81"),
            (name::PROXY_CONFIG, ""),
            (name::PROXY_CONFIG, "{ \"concurrency\": 2 }"),
            ("unknown", "anything"),
        ] {
            assert_eq!(wrong(name, value), [], "{name}={value}");
        }
    }
}
