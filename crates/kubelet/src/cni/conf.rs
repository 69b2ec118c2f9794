//! CNI network configurations and results, as JSON values.
//!
//! Text in, values out; unknown fields are passed on to plugins untouched, as the CNI
//! specification wants.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::Attachment;

const MAX_BYTES: u64 = 1 << 20;
const MAX_PLUGINS: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no networks found in {}", .0.display())]
    None(PathBuf),
    #[error("cannot read the CNI configuration {}: {reason}", .path.display())]
    Read { path: PathBuf, reason: String },
    #[error("the CNI configuration {0}")]
    Invalid(String),
}

/// A chain of plugins under one name.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkList {
    pub name: String,
    pub version: String,
    pub disable_check: bool,
    pub plugins: Vec<Value>,
}

impl NetworkList {
    pub fn parse(value: &Value) -> Result<Self, Error> {
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        let name = text("name");
        if name.is_empty() {
            return Err(Error::Invalid("has no name".to_owned()));
        }
        // A file for a single plugin is a list of one.
        let plugins = match value.get("plugins") {
            Some(plugins) => plugins.as_array().cloned().unwrap_or_default(),
            None => vec![value.clone()],
        };
        if plugins.is_empty() || plugins.len() > MAX_PLUGINS {
            return Err(Error::Invalid(format!(
                "{name} must have between 1 and {MAX_PLUGINS} plugins"
            )));
        }
        if let Some(bad) = plugins.iter().find(|p| p["type"].as_str().is_none_or(str::is_empty)) {
            return Err(Error::Invalid(format!("{name} has a plugin without type: {bad}")));
        }
        let version = Some(text("cniVersion"))
            .filter(|v| !v.is_empty())
            .unwrap_or_else(|| "0.1.0".to_owned());
        let disable_check = value["disableCheck"] == json!(true);
        Ok(Self { name, version, disable_check, plugins })
    }

    pub fn to_json(&self) -> Value {
        json!({"name": self.name, "cniVersion": self.version, "disableCheck": self.disable_check, "plugins": self.plugins})
    }

    /// What one plugin of the chain reads on its standard input.
    pub fn input(&self, plugin: &Value, previous: Option<&Value>, pod: &Attachment) -> Value {
        let mut input = plugin.clone();
        input["name"] = json!(self.name);
        input["cniVersion"] = json!(self.version);
        if let Some(previous) = previous {
            input["prevResult"] = previous.clone();
        }
        let offers = [("portMappings", &pod.port_mappings), ("ipRanges", &pod.ip_ranges)];
        let runtime: Map<String, Value> = offers
            .into_iter()
            .filter(|(capability, _)| plugin["capabilities"][capability] == json!(true))
            .filter(|(_, value)| value.as_array().is_some_and(|list| !list.is_empty()))
            .map(|(capability, value)| (capability.to_owned(), value.clone()))
            .collect();
        if let Some(map) = input.as_object_mut() {
            map.remove("capabilities");
            if !runtime.is_empty() {
                map.insert("runtimeConfig".to_owned(), Value::Object(runtime));
            }
        }
        input
    }

    pub fn version_below(&self, bound: (u64, u64, u64)) -> bool {
        let mut parts = self.version.split('.').map(|p| p.parse::<u64>().unwrap_or(0));
        let mut next = || parts.next().unwrap_or(0);
        (next(), next(), next()) < bound
    }
}

/// The first configuration of `dir` in the order of names, as runtimes choose it.
pub fn first(dir: &Path) -> Result<NetworkList, Error> {
    let entries = std::fs::read_dir(dir)
        .map_err(|e| Error::Read { path: dir.to_owned(), reason: e.to_string() })?;
    let wanted = |path: &PathBuf| {
        path.extension().is_some_and(|e| e == "conflist" || e == "conf" || e == "json")
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).filter(wanted).collect();
    paths.sort();
    // A list beats single configurations only by its name, as it does for other runtimes.
    let path = paths.into_iter().next().ok_or_else(|| Error::None(dir.to_owned()))?;
    let failed = |reason: String| Error::Read { path: path.clone(), reason };
    let size = std::fs::metadata(&path).map_err(|e| failed(e.to_string()))?.len();
    if size > MAX_BYTES {
        return Err(failed(format!("it has {size} bytes")));
    }
    let text = std::fs::read(&path).map_err(|e| failed(e.to_string()))?;
    let value: Value = serde_json::from_slice(&text).map_err(|e| failed(e.to_string()))?;
    NetworkList::parse(&value)
}

/// The addresses of a result, of any version.
pub fn addresses(result: &Value) -> Vec<IpAddr> {
    let bare = |text: &str| text.split('/').next().and_then(|ip| ip.parse().ok());
    let ips = result["ips"].as_array().into_iter().flatten();
    let listed: Vec<IpAddr> = ips.filter_map(|ip| bare(ip["address"].as_str()?)).collect();
    if !listed.is_empty() {
        return listed;
    }
    ["ip4", "ip6"].iter().filter_map(|key| bare(result[*key]["ip"].as_str()?)).collect()
}

/// What a plugin said on failure: its error object, or else what it wrote to standard error.
pub fn failure(stdout: &[u8], stderr: &[u8]) -> String {
    if let Ok(value) = serde_json::from_slice::<Value>(stdout) {
        let message = value["msg"].as_str().unwrap_or_default();
        let details = value["details"].as_str().unwrap_or_default();
        match (message.is_empty(), details.is_empty()) {
            (false, true) => return message.to_owned(),
            (false, false) => return format!("{message}; {details}"),
            _ => {}
        }
    }
    let text = String::from_utf8_lossy(&stderr[..stderr.len().min(1024)]).trim().to_owned();
    if text.is_empty() { "it failed without a word".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Attachment {
        Attachment {
            id: "x".into(),
            namespace: "n".into(),
            name: "p".into(),
            uid: "u".into(),
            netns: None,
            port_mappings: json!([{"hostPort": 80}]),
            ip_ranges: crate::cni::ip_ranges(&["10.1.0.0/24".to_owned()]),
        }
    }

    #[test]
    fn the_chain_passes_the_result_on_and_keeps_unknown_fields() {
        let list = NetworkList::parse(&json!({"name": "net", "cniVersion": "1.0.0", "plugins": [
            {"type": "a", "own": 1, "capabilities": {"ipRanges": true, "portMappings": false}}, {"type": "b", "capabilities": {"portMappings": true}}]}))
        .unwrap();
        let first = list.input(&list.plugins[0], None, &pod());
        assert_eq!(
            first,
            json!({"type": "a", "own": 1, "name": "net", "cniVersion": "1.0.0",
                   "runtimeConfig": {"ipRanges": [[{"subnet": "10.1.0.0/24"}]]}})
        );
        let second = list.input(&list.plugins[1], Some(&json!({"ips": []})), &pod());
        assert_eq!(
            second,
            json!({"type": "b", "name": "net", "cniVersion": "1.0.0", "prevResult": {"ips": []},
                   "runtimeConfig": {"portMappings": [{"hostPort": 80}]}})
        );
    }

    #[test]
    fn a_single_plugin_is_a_list_of_one() {
        let list = NetworkList::parse(&json!({"name": "n", "type": "bridge"})).unwrap();
        assert_eq!((list.plugins.len(), list.version_below((0, 4, 0))), (1, true));
        assert!(NetworkList::parse(&json!({"name": "n", "plugins": [{}]})).is_err());
        assert!(NetworkList::parse(&json!({"plugins": []})).is_err());
    }

    #[test]
    fn addresses_of_old_and_new_results() {
        let new = json!({"ips": [{"address": "10.0.0.2/24"}, {"address": "fd00::2/64"}]});
        assert_eq!(
            addresses(&new),
            ["10.0.0.2".parse::<IpAddr>().unwrap(), "fd00::2".parse().unwrap()]
        );
        assert_eq!(
            addresses(&json!({"ip4": {"ip": "10.0.0.3/24"}})),
            ["10.0.0.3".parse::<IpAddr>().unwrap()]
        );
        assert!(addresses(&json!({})).is_empty());
    }

    #[test]
    fn failures_are_told_in_the_plugins_words() {
        assert_eq!(
            failure(br#"{"code":7,"msg":"no room","details":"none left"}"#, b""),
            "no room; none left"
        );
        assert_eq!(failure(b"", b" bang \n"), "bang");
    }
}
