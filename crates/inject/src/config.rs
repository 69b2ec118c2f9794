//! The injection configuration: templates and which pods get them. Kept in a config map; ours is made
//! of the files in `manifests/injection` and what the values say.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;
use crate::object::at;
use crate::selector::Selector;
use crate::values::Values;

const SHARED: &str = include_str!("../../../manifests/injection/shared.tpl");
const BUILTIN: [(&str, &str); 4] = [
    ("sidecar", include_str!("../../../manifests/injection/sidecar.yaml")),
    ("gateway", include_str!("../../../manifests/injection/gateway.yaml")),
    ("grpc-agent", include_str!("../../../manifests/injection/grpc-agent.yaml")),
    ("grpc-simple", include_str!("../../../manifests/injection/grpc-simple.yaml")),
];
/// The template of pods that name none.
const DEFAULT: &str = "sidecar";

/// What pods get that say nothing themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    #[default]
    Enabled,
    Disabled,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Config {
    pub policy: Policy,
    pub default_templates: Vec<String>,
    pub templates: BTreeMap<String, String>,
    /// One name for several templates.
    pub aliases: BTreeMap<String, Vec<String>>,
    pub never_inject_selector: Vec<Selector>,
    pub always_inject_selector: Vec<Selector>,
    pub injected_annotations: BTreeMap<String, String>,
}

impl Config {
    /// Our templates, and what the values say about injection.
    pub fn from_values(values: &Values) -> Result<Self, Error> {
        let webhook = at(values.tree(), &["sidecarInjectorWebhook"]);
        let mut config: Self = read(serde_json::json!({
            "defaultTemplates": or_empty_list(&webhook["defaultTemplates"]),
            "templates": or_empty(&webhook["templates"]),
            "aliases": or_empty(&webhook["aliases"]),
            "neverInjectSelector": or_empty_list(&webhook["neverInjectSelector"]),
            "alwaysInjectSelector": or_empty_list(&webhook["alwaysInjectSelector"]),
            "injectedAnnotations": or_empty(&webhook["injectedAnnotations"]),
        }))?;
        if values.text(&["global", "proxy", "autoInject"]) == "disabled" {
            config.policy = Policy::Disabled;
        }
        for (name, text) in Self::builtin_templates() {
            config.templates.entry(name).or_insert(text);
        }
        Ok(config)
    }

    /// The templates in the repository, each of which stands alone.
    pub fn builtin_templates() -> BTreeMap<String, String> {
        BUILTIN.iter().map(|(name, text)| ((*name).to_owned(), format!("{SHARED}{text}"))).collect()
    }

    /// A configuration as the config map has it.
    pub fn from_yaml(yaml: &str) -> Result<Self, Error> {
        let tree: Value =
            ironsail_yaml::parse(yaml).map_err(|error| Error::Config(error.to_string()))?;
        read(if tree.is_null() { or_empty(&tree) } else { tree })
    }

    /// A configuration, or a text that is itself the one template, as `kube-inject` takes both.
    pub fn from_yaml_or_template(text: &str) -> Self {
        match Self::from_yaml(text) {
            Ok(config) if !config.templates.is_empty() => config,
            _ => Self {
                templates: BTreeMap::from([(DEFAULT.to_owned(), text.to_owned())]),
                ..Self::default()
            },
        }
    }

    /// The templates a pod asks for, or the default ones; aliases are followed once.
    pub(crate) fn wanted(&self, asked: Option<&str>) -> Vec<String> {
        let names: Vec<String> = match asked {
            Some(list) => list.split(',').map(|name| name.trim().to_owned()).collect(),
            None if self.default_templates.is_empty() => vec![DEFAULT.to_owned()],
            None => self.default_templates.clone(),
        };
        let resolve = |name: String| self.aliases.get(&name).cloned().unwrap_or(vec![name]);
        names.into_iter().flat_map(resolve).collect()
    }
}

fn read(tree: Value) -> Result<Config, Error> {
    serde_json::from_value(tree).map_err(|error| Error::Config(error.to_string()))
}

fn or_empty(value: &Value) -> Value {
    if value.is_null() { serde_json::json!({}) } else { value.clone() }
}

fn or_empty_list(value: &Value) -> Value {
    if value.is_null() { serde_json::json!([]) } else { value.clone() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_change_templates_and_who_gets_them() {
        let mut values = Values::builtin();
        values.overlay(&json!({
            "global": { "proxy": { "autoInject": "disabled" } },
            "sidecarInjectorWebhook": {
                "defaultTemplates": ["sidecar", "mine"],
                "templates": { "mine": "spec: {}", "gateway": "metadata: {}" },
                "aliases": { "both": ["sidecar", "mine"] },
                "neverInjectSelector": [{ "matchLabels": { "no": "proxy" } }],
            },
        }));
        let config = Config::from_values(&values).unwrap();
        assert_eq!(config.policy, Policy::Disabled);
        assert_eq!(config.templates["gateway"], "metadata: {}");
        assert!(config.templates.contains_key("grpc-agent"));
        assert_eq!(config.wanted(None), ["sidecar", "mine"]);
        assert_eq!(config.wanted(Some("both, gateway")), ["sidecar", "mine", "gateway"]);
        assert_eq!(config.never_inject_selector.len(), 1);
    }

    #[test]
    fn a_bare_template_is_a_configuration_too() {
        let bare = Config::from_yaml_or_template("spec:\n  hostname: {{ .ObjectMeta.Name }}\n");
        assert!(bare.templates["sidecar"].starts_with("spec:"));
        let full = Config::from_yaml_or_template("policy: disabled\ntemplates:\n  a: 'spec: {}'\n");
        assert_eq!(full.templates["a"], "spec: {}");
        assert_eq!(full.policy, Policy::Disabled);
    }

    #[test]
    fn an_unknown_policy_is_refused() {
        assert!(Config::from_yaml("policy: perhaps").is_err());
    }
}
