//! The values of an installation as injection templates see them: ours, with the user's over them.

use serde_json::{Map, Value};

use crate::error::Error;
use crate::object::{at, flag, text};

const BUILTIN: &str = include_str!("../../../manifests/injection/values.yaml");

/// A tree of values.
#[derive(Debug, Clone, PartialEq)]
pub struct Values {
    tree: Value,
}

impl Values {
    /// What holds when nobody sets anything.
    pub fn builtin() -> Self {
        let tree =
            ironsail_yaml::parse(BUILTIN).expect("a test reads the values in the repository");
        Self { tree }
    }

    /// Exactly what the text says, as `kube-inject --valuesFile` takes it.
    pub fn from_yaml(yaml: &str) -> Result<Self, Error> {
        let tree: Value =
            ironsail_yaml::parse(yaml).map_err(|error| Error::Values(error.to_string()))?;
        match tree {
            Value::Null => Ok(Self { tree: Value::Object(Map::new()) }),
            Value::Object(_) => Ok(Self { tree }),
            _ => Err(Error::Values("they are not an object".to_owned())),
        }
    }

    /// `other` over these: objects are merged, everything else replaced, null removes.
    pub fn overlay(&mut self, other: &Value) {
        ironsail_patch::merge_patch(&mut self.tree, other);
    }

    /// Sets the value at a path with dots, such as `global.proxy.image`.
    pub fn set(&mut self, path: &str, value: Value) {
        let patch = path
            .rsplit('.')
            .fold(value, |inner, key| Value::Object(Map::from_iter([(key.to_owned(), inner)])));
        self.overlay(&patch);
    }

    pub fn tree(&self) -> &Value {
        &self.tree
    }

    pub(crate) fn text(&self, path: &[&str]) -> String {
        match at(&self.tree, path) {
            Value::String(text) => text.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        }
    }

    pub(crate) fn flag(&self, path: &[&str]) -> bool {
        flag(at(&self.tree, path))
    }

    pub(crate) fn cluster(&self) -> &str {
        text(&self.tree, &["global", "multiCluster", "clusterName"])
    }

    pub(crate) fn network(&self) -> &str {
        text(&self.tree, &["global", "network"])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Values;

    #[test]
    fn values_of_users_lie_over_ours() {
        let mut values = Values::builtin();
        values.overlay(&json!({ "global": { "tag": "1.2", "proxy": { "resources": null } } }));
        values.set("global.hub", json!("mine"));
        assert_eq!(values.text(&["global", "hub"]), "mine");
        assert_eq!(values.text(&["global", "tag"]), "1.2");
        assert_eq!(values.text(&["global", "proxy", "image"]), "proxyv2");
        assert!(values.tree()["global"]["proxy"]["resources"].is_null());
    }

    #[test]
    fn values_that_are_no_object_are_refused() {
        assert!(Values::from_yaml("- a").is_err());
        assert!(Values::from_yaml("").unwrap().tree().is_object());
    }
}
