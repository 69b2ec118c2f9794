//! The metadata that Istio's agent writes into the node, as far as we act on it; the rest stays raw.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use ironsail_proto::google::protobuf::Struct;
use serde_json::{Map, Value};

use crate::hashed::Hashed;

/// Parsed metadata. Fields that are missing or of another type are as if not there.
#[derive(Clone, Debug, Default)]
pub struct NodeMetadata {
    pub name: Option<String>,
    pub namespace: Option<String>,
    pub service_account: Option<String>,
    pub labels: Arc<BTreeMap<String, String>>,
    pub annotations: Arc<BTreeMap<String, String>>,
    pub cluster_id: Option<String>,
    pub network: Option<String>,
    pub mesh_id: Option<String>,
    pub workload_name: Option<String>,
    pub owner: Option<String>,
    pub instance_ips: Vec<IpAddr>,
    pub pod_ports: Vec<PodPort>,
    /// `PROXY_CONFIG` as the agent got it.
    pub proxy_config: Option<Hashed<Value>>,
    pub interception: Interception,
    pub version: Version,
    pub dns_capture: bool,
    pub dns_auto_allocate: bool,
    /// `GENERATOR`: what kind of resources it wants instead of Envoy's.
    pub generator: Option<String>,
    /// `ROUTER_MODE`, for gateways between networks.
    pub router_mode: Option<String>,
    /// `REQUESTED_NETWORK_VIEW`; empty: all networks.
    pub network_view: Vec<String>,
    pub http10: bool,
    pub idle_timeout: Option<String>,
    pub hbone: bool,
    pub unprivileged: bool,
    /// Everything, as it came.
    pub raw: Map<String, Value>,
}

/// A port of one of the pod's containers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodPort {
    pub name: String,
    pub number: u16,
    /// `TCP` or `UDP`
    pub protocol: String,
}

/// How traffic comes to the sidecar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Interception {
    #[default]
    Redirect,
    Tproxy,
    None,
}

/// The proxy's release; what cannot be read counts as the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

const MAX_FIELDS: usize = 2000;
const MAX_TEXT: usize = 1 << 20;
const MAX_ITEMS: usize = 1000;

impl NodeMetadata {
    /// An error names the field that is too large, and the limit.
    pub(super) fn parse(metadata: Option<&Struct>) -> Result<Self, (&'static str, usize)> {
        let Some(metadata) = metadata else { return Ok(Self::default()) };
        if metadata.fields.len() > MAX_FIELDS {
            return Err(("metadata", MAX_FIELDS));
        }
        let raw: Map<String, Value> = metadata.into();
        let text = |key: &str| text_of(raw.get(key)?).filter(|text| !text.is_empty());
        let flag = |key: &str| {
            text(key)
                .is_some_and(|t| matches!(t.as_str(), "true" | "1" | "True" | "TRUE" | "t" | "T"))
        };
        let labels = strings("LABELS", &raw)?;
        let annotations = strings("ANNOTATIONS", &raw)?;
        Ok(Self {
            name: text("NAME"),
            namespace: text("NAMESPACE"),
            service_account: text("SERVICE_ACCOUNT"),
            labels: Arc::new(labels),
            annotations: Arc::new(annotations),
            cluster_id: text("CLUSTER_ID"),
            network: text("NETWORK"),
            mesh_id: text("MESH_ID"),
            workload_name: text("WORKLOAD_NAME"),
            owner: text("OWNER"),
            instance_ips: list(raw.get("INSTANCE_IPS"))
                .filter_map(|ip| ip.parse().ok())
                .map(|ip: IpAddr| ip.to_canonical())
                .collect(),
            pod_ports: pod_ports(raw.get("POD_PORTS")),
            proxy_config: raw.get("PROXY_CONFIG").filter(|v| v.is_object()).map(|value| {
                Hashed::with_digest(value.clone(), crate::hashed::digest(&value.to_string()))
            }),
            interception: match text("INTERCEPTION_MODE").as_deref() {
                Some("TPROXY") => Interception::Tproxy,
                Some("NONE") => Interception::None,
                _ => Interception::Redirect,
            },
            version: text("ISTIO_VERSION").as_deref().map(Version::parse).unwrap_or_default(),
            dns_capture: flag("DNS_CAPTURE"),
            dns_auto_allocate: flag("DNS_AUTO_ALLOCATE"),
            generator: text("GENERATOR"),
            router_mode: text("ROUTER_MODE"),
            network_view: list(raw.get("REQUESTED_NETWORK_VIEW")).map(str::to_owned).collect(),
            http10: flag("HTTP10"),
            idle_timeout: text("IDLE_TIMEOUT"),
            hbone: flag("ENABLE_HBONE"),
            unprivileged: flag("UNPRIVILEGED_POD"),
            raw,
        })
    }

    /// A top-level value that is a text, a number or a flag, as text.
    pub fn text(&self, key: &str) -> Option<String> {
        text_of(self.raw.get(key)?)
    }
}

impl Version {
    pub const NEWEST: Self = Self { major: u32::MAX, minor: u32::MAX, patch: u32::MAX };

    /// `1.27`, `1.27.1`, `1.27-alpha.x`; the newest if it does not start with two numbers.
    pub fn parse(text: &str) -> Self {
        // What follows the numbers (`-alpha.3`, `-rc.0`) does not count.
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let mut parts = text[..end].split('.');
        let mut next = || parts.next()?.parse::<u32>().ok();
        match (next(), next(), next()) {
            (Some(major), Some(minor), patch) => Self { major, minor, patch: patch.unwrap_or(0) },
            _ => Self::NEWEST,
        }
    }

    pub fn at_least(self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

impl Default for Version {
    fn default() -> Self {
        Self::NEWEST
    }
}

fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if text.len() <= MAX_TEXT => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn strings(
    key: &'static str,
    raw: &Map<String, Value>,
) -> Result<BTreeMap<String, String>, (&'static str, usize)> {
    let Some(Value::Object(fields)) = raw.get(key) else { return Ok(BTreeMap::new()) };
    if fields.len() > MAX_ITEMS {
        return Err((key, MAX_ITEMS));
    }
    Ok(fields.iter().filter_map(|(name, value)| Some((name.clone(), text_of(value)?))).collect())
}

/// Comma-separated text, or a list of texts.
fn list(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let (text, items) = match value {
        Some(Value::String(text)) => (text.as_str(), &[][..]),
        Some(Value::Array(items)) => ("", items.as_slice()),
        _ => ("", &[][..]),
    };
    text.split(',')
        .chain(items.iter().filter_map(Value::as_str))
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .take(MAX_ITEMS)
}

/// A list of ports, or the same as JSON text, which is how the agent passes it on.
fn pod_ports(value: Option<&Value>) -> Vec<PodPort> {
    let parsed;
    let items = match value {
        Some(Value::Array(items)) => items,
        Some(Value::String(text)) if text.len() <= MAX_TEXT => match serde_json::from_str(text) {
            Ok(Value::Array(items)) => {
                parsed = items;
                &parsed
            }
            _ => return Vec::new(),
        },
        _ => return Vec::new(),
    };
    let mut ports: Vec<PodPort> = items
        .iter()
        .take(MAX_ITEMS)
        .filter_map(|item| {
            let text = |key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default();
            let number = item.get("containerPort")?.as_u64()?;
            let protocol = if text("protocol").is_empty() { "TCP" } else { text("protocol") };
            Some(PodPort {
                name: text("name").to_owned(),
                number: u16::try_from(number).ok().filter(|port| *port != 0)?,
                protocol: protocol.to_owned(),
            })
        })
        .collect();
    ports.sort();
    ports
}
