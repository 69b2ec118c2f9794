//! The mesh configuration: the typed settings, and their JSON as templates see it.

use ironsail_api::mesh::{MeshConfig, ProxyConfig};
use ironsail_api::wire::{What, Wire};
use serde_json::Value;

use crate::error::Error;
use crate::object::at;
use crate::proxyconfig;

#[derive(Debug, Clone)]
pub struct Mesh {
    config: MeshConfig,
    tree: Value,
}

impl Default for Mesh {
    fn default() -> Self {
        Self::new(MeshConfig::default())
    }
}

impl Mesh {
    pub fn new(config: MeshConfig) -> Self {
        let mut tree = config.write();
        tree["defaultConfig"] = proxyconfig::tree(&config.default_config);
        Self { config, tree }
    }

    /// As in the config map or in a file. Fields that we do not know are for others to report.
    pub fn from_yaml(yaml: &str) -> Result<Self, Error> {
        let tree: Value =
            ironsail_yaml::parse(yaml).map_err(|error| Error::Mesh(error.to_string()))?;
        if !tree.is_object() && !tree.is_null() {
            return Err(Error::Mesh("it is not an object".to_owned()));
        }
        let read = MeshConfig::parse(&tree);
        for problem in read.problems {
            if let What::Invalid(reason) = problem.what {
                return Err(Error::Mesh(format!("{}: {reason}", problem.field)));
            }
        }
        Ok(Self::new(read.value))
    }

    pub(crate) fn tree(&self) -> &Value {
        &self.tree
    }

    pub(crate) fn default_config(&self) -> &ProxyConfig {
        &self.config.default_config
    }

    /// Where agents answer for readiness, probes and metrics.
    pub(crate) fn status_port(&self) -> i64 {
        i64::from(self.config.default_config.status_port)
    }

    pub(crate) fn merges_metrics(&self) -> bool {
        self.config.enable_prometheus_merge.unwrap_or(true)
    }

    pub(crate) fn root_namespace(&self) -> &str {
        &self.config.root_namespace
    }

    /// Where traffic to the pod goes on: to its address, or to localhost as it once did.
    pub(crate) fn inbound_mode(&self) -> &'static str {
        match at(&self.tree, &["inboundTrafficPolicy", "mode"]).as_str() {
            Some("LOCALHOST") => "localhost",
            _ => "passthrough",
        }
    }
}
