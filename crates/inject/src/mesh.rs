//! The mesh configuration as templates see it: the JSON of `MeshConfig`, with its defaults.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::object::{at, text};
use crate::proxyconfig;

#[derive(Debug, Clone)]
pub struct Mesh {
    tree: Value,
}

impl Default for Mesh {
    fn default() -> Self {
        Self::from_tree(Map::new())
    }
}

impl Mesh {
    /// Anything that serializes to the JSON of `MeshConfig`: the type of `ironsail-api`, or a tree.
    pub fn new(config: &impl Serialize) -> Result<Self, Error> {
        match serde_json::to_value(config).map_err(|error| Error::Mesh(error.to_string()))? {
            Value::Object(tree) => Ok(Self::from_tree(tree)),
            Value::Null => Ok(Self::default()),
            _ => Err(Error::Mesh("it is not an object".to_owned())),
        }
    }

    /// As in the config map or in a file.
    pub fn from_yaml(yaml: &str) -> Result<Self, Error> {
        let tree: Value =
            ironsail_yaml::parse(yaml).map_err(|error| Error::Mesh(error.to_string()))?;
        Self::new(&tree)
    }

    fn from_tree(mut tree: Map<String, Value>) -> Self {
        let over = tree.remove("defaultConfig").unwrap_or_default();
        let mut default_config = proxyconfig::defaults();
        proxyconfig::apply(&mut default_config, &over);
        tree.insert("defaultConfig".to_owned(), default_config);
        if text_of(&tree, "trustDomain").is_empty() {
            tree.insert("trustDomain".to_owned(), "cluster.local".into());
        }
        Self { tree: Value::Object(tree) }
    }

    pub(crate) fn tree(&self) -> &Value {
        &self.tree
    }

    pub(crate) fn default_config(&self) -> &Value {
        &self.tree["defaultConfig"]
    }

    /// Where agents answer for readiness, probes and metrics.
    pub(crate) fn status_port(&self) -> i64 {
        self.default_config()["statusPort"].as_i64().unwrap_or(15020)
    }

    pub(crate) fn merges_metrics(&self) -> bool {
        self.tree["enablePrometheusMerge"].as_bool().unwrap_or(true)
    }

    pub(crate) fn root_namespace(&self) -> &str {
        match text(&self.tree, &["rootNamespace"]) {
            "" => "istio-system",
            namespace => namespace,
        }
    }

    /// Where traffic to the pod goes on: to its address, or to localhost as it once did.
    pub(crate) fn inbound_mode(&self) -> &'static str {
        match at(&self.tree, &["inboundTrafficPolicy", "mode"]).as_str() {
            Some("LOCALHOST") => "localhost",
            _ => "passthrough",
        }
    }
}

fn text_of<'a>(tree: &'a Map<String, Value>, key: &str) -> &'a str {
    tree.get(key).and_then(Value::as_str).unwrap_or_default()
}
