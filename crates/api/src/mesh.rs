//! The settings of a mesh as a whole: `MeshConfig`, the `ProxyConfig` inside it, `MeshNetworks`.
//!
//! Text of the ConfigMap comes in as JSON, settings with all defaults go out. What the text says
//! replaces the default, field by field; only the proxies' config and the providers are merged.

mod check;
mod config;
mod effect;
mod network;
mod provider;
mod proxy;

pub use config::*;
pub use network::*;
pub use provider::*;
pub use proxy::*;

use serde_json::Value;

use crate::wire::{Problem, Reader, Wire};

/// Settings, and what was wrong with their text.
#[derive(Clone, Debug)]
pub struct Read<T> {
    pub value: T,
    pub problems: Vec<Problem>,
}

impl MeshConfig {
    /// The defaults, with what `value` says put over them.
    #[must_use]
    pub fn parse(value: &Value) -> Read<Self> {
        Self::default().overlaid(value)
    }

    /// These settings, with what `value` says put over them.
    #[must_use]
    pub fn overlaid(mut self, value: &Value) -> Read<Self> {
        let mut reader = Reader::new();
        // Every field replaces the former one, except for these, which are merged.
        let proxies = std::mem::take(&mut self.default_config);
        let defaults = self.default_providers.take();
        let providers = std::mem::take(&mut self.extension_providers);
        let aliases = self.trust_domain_aliases.clone();
        self.apply(value, &mut reader);
        self.merge_providers(providers, defaults);
        self.trust_domain_aliases.extend(aliases);
        self.trust_domain_aliases.sort();
        self.trust_domain_aliases.dedup();
        let mut problems = reader.into_problems();
        let own = value.get("defaultConfig").or_else(|| value.get("default_config"));
        let merged = proxies.overlaid(own.unwrap_or(&Value::Null));
        self.default_config = merged.value;
        problems.extend(merged.problems.into_iter().map(|problem| Problem {
            field: format!("defaultConfig.{}", problem.field),
            what: problem.what,
        }));
        problems.sort_by(|a, b| a.field.cmp(&b.field));
        problems.dedup();
        Read { value: self, problems }
    }

    /// Providers are merged by name; default providers by what they are for.
    fn merge_providers(
        &mut self,
        mut former: Vec<ExtensionProvider>,
        defaults: Option<DefaultProviders>,
    ) {
        for provider in std::mem::take(&mut self.extension_providers) {
            match former.iter_mut().find(|one| one.name == provider.name) {
                Some(one) => *one = provider,
                None => former.push(provider),
            }
        }
        self.extension_providers = former;
        let Some(defaults) = defaults else { return };
        let Some(own) = &mut self.default_providers else {
            self.default_providers = Some(defaults);
            return;
        };
        for (own, former) in [
            (&mut own.tracing, defaults.tracing),
            (&mut own.metrics, defaults.metrics),
            (&mut own.access_logging, defaults.access_logging),
        ] {
            if own.is_empty() {
                *own = former;
            }
        }
    }
}

impl ProxyConfig {
    /// These settings, with what `value` says put over them: each field replaces the former one, but
    /// `proxyMetadata` and `runtimeValues` are merged key by key.
    #[must_use]
    pub fn overlaid(mut self, value: &Value) -> Read<Self> {
        let mut reader = Reader::new();
        let metadata = std::mem::take(&mut self.proxy_metadata);
        let runtime = std::mem::take(&mut self.runtime_values);
        self.apply(value, &mut reader);
        for (key, value) in metadata {
            self.proxy_metadata.entry(key).or_insert(value);
        }
        for (key, value) in runtime {
            self.runtime_values.entry(key).or_insert(value);
        }
        Read { value: self, problems: reader.into_problems() }
    }
}

impl MeshNetworks {
    #[must_use]
    pub fn parse(value: &Value) -> Read<Self> {
        let mut reader = Reader::new();
        let value = Self::read(value, &mut reader);
        Read { value, problems: reader.into_problems() }
    }
}

#[cfg(test)]
mod tests;
