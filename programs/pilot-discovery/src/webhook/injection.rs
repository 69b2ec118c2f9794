//! The injector as it stands now: made from the config map (or files, or what is built in), the mesh
//! configuration and ProxyConfig objects, and made anew when one of them changes.

use std::path::PathBuf;
use std::sync::Arc;

use ironsail_api::{Kind, ObjectKey};
use ironsail_daemon::task::Supervisor;
use ironsail_discovery::Engine;
use ironsail_inject::{Config, Injector, KubeVersion, Mesh, Overlay, Settings, Values, review};
use ironsail_model::Snapshot;
use parking_lot::RwLock;

use crate::setting::Setting;

/// Where an installation mounts the config map.
const MOUNTED: &str = "/var/lib/istio/inject";

/// Answers reviews with the current injector.
pub(crate) struct Injection {
    settings: Settings,
    /// The config map, if objects come from Kubernetes.
    map: ObjectKey,
    mounted: PathBuf,
    current: RwLock<Option<Arc<Injector>>>,
}

impl Injection {
    pub(crate) fn new(setting: &Setting, kubernetes: Option<KubeVersion>) -> Self {
        let revision = setting.variables.revision.clone();
        let name = match &*revision {
            "" | "default" => "istio-sidecar-injector".to_owned(),
            revision => format!("istio-sidecar-injector-{revision}"),
        };
        let native_sidecars = setting.variables.native_sidecars;
        let settings = Settings { revision, native_sidecars, kubernetes, ..Settings::default() };
        let map = ObjectKey {
            cluster: setting.cluster.clone(),
            kind: Kind::ConfigMap,
            namespace: setting.namespace.as_str().into(),
            name: name.into(),
        };
        Self { settings, map, mounted: MOUNTED.into(), current: RwLock::default() }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.current.read().is_some()
    }

    /// Templates and values as they are used now; None before there is an injector.
    pub(crate) fn shown(&self) -> Option<serde_json::Value> {
        let injector = self.current.read().clone()?;
        let config = injector.config();
        Some(serde_json::json!({
            "templates": config.templates,
            "defaultTemplates": config.default_templates,
            "aliases": config.aliases,
            "values": injector.values().tree(),
        }))
    }

    /// The injector as it is now; None before there is one.
    pub(crate) fn current(&self) -> Option<Arc<Injector>> {
        self.current.read().clone()
    }

    /// None before there is an injector.
    pub(crate) fn review(&self, path: &str, body: &[u8]) -> Option<Vec<u8>> {
        let injector = self.current.read().clone()?;
        Some(review(&injector, path, body))
    }

    /// Makes the injector anew; one that cannot be made leaves the last.
    fn renew(&self, snapshot: &Snapshot) -> Result<(), ironsail_inject::Error> {
        let mut values = Values::builtin();
        let given = self.given(snapshot);
        if let Some((_, text)) = &given {
            values.overlay(Values::from_yaml(text)?.tree());
        }
        let config = match given.as_ref().map(|(config, _)| config).filter(|text| !text.is_empty())
        {
            Some(text) => Config::from_yaml(text)?,
            None => Config::from_values(&values)?,
        };
        let mesh = Mesh::new(snapshot.mesh.config.clone());
        let injector = Injector::new(config, values, mesh, self.settings.clone())?;
        let injector = injector.with_overlays(overlays(snapshot));
        *self.current.write() = Some(Arc::new(injector));
        Ok(())
    }

    /// `config` and `values` of the mounted files, or of the config map.
    fn given(&self, snapshot: &Snapshot) -> Option<(String, String)> {
        let file = |name: &str| std::fs::read_to_string(self.mounted.join(name)).ok();
        if let (Some(config), Some(values)) = (file("config"), file("values")) {
            return Some((config, values));
        }
        let map = snapshot.config_maps.get(&self.map)?;
        let text = |key: &str| map.spec.data.get(key).cloned().unwrap_or_default();
        Some((text("config"), text("values")))
    }

    /// What the injector depends on, as one number.
    fn inputs(&self, snapshot: &Snapshot) -> (u64, Option<u64>, Vec<u64>) {
        let map = snapshot.config_maps.get(&self.map).map(|map| map.digest);
        let configs = snapshot.config.proxy_configs.iter().map(|config| config.digest);
        (snapshot.mesh.digest(), map, configs.collect())
    }
}

fn overlays(snapshot: &Snapshot) -> Vec<Overlay> {
    let one =
        |config: &ironsail_api::Resource<ironsail_api::istio::networking::ProxyConfig>| Overlay {
            namespace: config.meta.namespace.clone(),
            selector: config
                .spec
                .selector
                .as_ref()
                .map(|s| s.match_labels.clone())
                .unwrap_or_default(),
            concurrency: config.spec.concurrency,
            environment: config.spec.environment_variables.clone(),
            image_type: config.spec.image.as_ref().map(|image| image.image_type.clone()),
        };
    snapshot.config.proxy_configs.iter().map(|config| one(config)).collect()
}

/// Keeps the injector up to date until the program ends.
pub(crate) fn follow(injection: Arc<Injection>, engine: Arc<Engine>, tasks: &mut Supervisor) {
    let stop = tasks.stop_token();
    tasks.spawn("injection", async move {
        let mut refreshed = engine.refreshed();
        let mut last = None;
        loop {
            if let Some(snapshot) = engine.snapshot() {
                let inputs = injection.inputs(&snapshot);
                if last.as_ref() != Some(&inputs) {
                    match injection.renew(&snapshot) {
                        Ok(()) => tracing::info!("the injector is ready"),
                        Err(error) => tracing::error!(%error, "making the injector"),
                    }
                    last = Some(inputs);
                }
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                changed = refreshed.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    });
}
