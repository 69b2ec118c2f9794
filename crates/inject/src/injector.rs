//! The injector: everything that is the same for all pods, read once.

use std::collections::BTreeMap;

use ironsail_gotemplate::Templates;
use ironsail_patch::TypeInfo;
use serde_json::{Value, json};

use crate::config::Config;
use crate::error::Error;
use crate::mesh::Mesh;
use crate::object::{at, flag};
use crate::owner::Owner;
use crate::policy::{self, Skip};
use crate::proxyconfig::Overlay;
use crate::settings::Settings;
use crate::values::Values;
use crate::{pod, render};

pub struct Injector {
    pub(crate) config: Config,
    pub(crate) templates: BTreeMap<String, Templates>,
    pub(crate) values: Values,
    pub(crate) mesh: Mesh,
    pub(crate) settings: Settings,
    pub(crate) overlays: Vec<Overlay>,
    pub(crate) pod_type: TypeInfo,
}

/// One pod and where it comes from.
pub struct Subject<'a> {
    /// `metadata` and `spec`, as in a Pod or a pod template.
    pub pod: &'a Value,
    pub owner: Owner,
    /// Where the pod will be, even if it does not say.
    pub namespace: &'a str,
    /// Environment of the proxy that the address of the webhook adds.
    pub env: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    Injected(Value),
    /// The pod stays as it is.
    Skipped(Skip),
}

impl Injector {
    /// Fails when a template cannot be read.
    pub fn new(
        config: Config,
        values: Values,
        mesh: Mesh,
        settings: Settings,
    ) -> Result<Self, Error> {
        let templates = render::parse(&config.templates, &settings.env)?;
        let pod_type = TypeInfo::builtin("", "v1", "Pod").unwrap_or_else(TypeInfo::untyped);
        let overlays = Vec::new();
        Ok(Self { config, templates, values, mesh, settings, overlays, pod_type })
    }

    /// The `ProxyConfig` objects of the cluster; of several that reach a pod alike, the first counts.
    #[must_use]
    pub fn with_overlays(self, overlays: Vec<Overlay>) -> Self {
        Self { overlays, ..self }
    }

    /// The pod with its proxy, or why it gets none.
    pub fn inject(&self, subject: &Subject<'_>) -> Result<Outcome, Error> {
        if !subject.pod.get("spec").is_some_and(Value::is_object) {
            return Err(Error::NotAPod);
        }
        match policy::skips(&self.config, subject.pod, subject.namespace) {
            Some(skip) => Ok(Outcome::Skipped(skip)),
            None => pod::inject(self, subject).map(Outcome::Injected),
        }
    }

    /// Whether a pod of these labels should have a proxy: the API server asks about it, and nothing
    /// speaks against one.
    pub fn wants(
        &self,
        namespace: (&str, &BTreeMap<String, String>),
        pod: &BTreeMap<String, String>,
    ) -> bool {
        let by_default =
            flag(at(self.values.tree(), &["sidecarInjectorWebhook", "enableNamespacesByDefault"]));
        let revision = &self.settings.revision;
        policy::webhook_selects(revision, &[], namespace.1, pod, by_default)
            && policy::skips(&self.config, &json!({"metadata": {"labels": pod}}), namespace.0)
                .is_none()
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn values(&self) -> &Values {
        &self.values
    }
}
