//! Where the texts of the mesh configuration come from: files and ConfigMaps, each in a task.
//!
//! In: paths, names of ConfigMaps. Out: the texts as they are now, and a wake-up when one changes.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use ::kube::Client;
use futures::StreamExt;
use ironsail_api::{Kind, Object, decode};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Config;
use super::layer::{Text, Texts};
use crate::files::Watch;
use crate::kube::follow::{Follow, Step};
use crate::kube::target::Target;

const KEY: &str = "mesh";
const NETWORKS_KEY: &str = "meshNetworks";
const QUIET: Duration = Duration::from_millis(30);
const PATIENCE: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_secs(15);

/// The texts of one ConfigMap or of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pair {
    mesh: Option<String>,
    networks: Option<String>,
}

/// What it is called, and what it says; nothing until it was read once.
type Origin = (String, watch::Receiver<Option<Pair>>);

pub(super) struct Origins {
    shared: Option<Origin>,
    main: Option<Origin>,
}

impl Origins {
    /// Begins to follow everything, and waits until everything was read once.
    pub(super) async fn start(config: &Config, stop: &CancellationToken) -> Self {
        let map = |name: &str| {
            let client = config.client.clone()?;
            let origin = format!("ConfigMap {}/{name}", config.namespace);
            let (sender, receiver) = watch::channel(None);
            let task = follow_map(client, config.namespace.clone(), name.to_owned(), sender);
            let stop = stop.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = task => {}
                }
            });
            Some((origin, receiver))
        };
        let shared = config.shared.as_deref().and_then(map);
        let main = if config.file.exists() || config.client.is_none() {
            let (sender, receiver) = watch::channel(None);
            let paths = (config.file.clone(), config.networks_file.clone());
            let stop = stop.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = follow_files(paths.0, paths.1, sender) => {}
                }
            });
            Some((config.file.display().to_string(), receiver))
        } else {
            map(&config.map_name())
        };
        let mut origins = Self { shared, main };
        for (_, receiver) in [&mut origins.shared, &mut origins.main].into_iter().flatten() {
            // Fails only when told to stop.
            let _ = receiver.wait_for(Option::is_some).await;
        }
        origins
    }

    pub(super) fn texts(&mut self) -> Texts {
        let pair = |origin: &mut Option<Origin>| match origin {
            Some((name, receiver)) => {
                (name.clone(), receiver.borrow_and_update().clone().unwrap_or_default())
            }
            None => Default::default(),
        };
        let (shared, main) = (pair(&mut self.shared), pair(&mut self.main));
        Texts {
            shared: Text { origin: shared.0, text: shared.1.mesh },
            main: Text { origin: main.0.clone(), text: main.1.mesh },
            networks: Text { origin: format!("{}, networks", main.0), text: main.1.networks },
        }
    }

    pub(super) async fn changed(&mut self) {
        async fn one(origin: &mut Option<Origin>) {
            if let Some((_, receiver)) = origin
                && receiver.changed().await.is_ok()
            {
                return;
            }
            std::future::pending::<()>().await;
        }
        tokio::select! {
            () = one(&mut self.shared) => {}
            () = one(&mut self.main) => {}
        }
    }
}

fn send(sender: &watch::Sender<Option<Pair>>, pair: Pair) {
    sender.send_if_modified(|known| {
        let changed = known.as_ref() != Some(&pair);
        *known = Some(pair);
        changed
    });
}

async fn follow_map(
    client: Client,
    namespace: String,
    name: String,
    sender: watch::Sender<Option<Pair>>,
) {
    let target = Target {
        namespace: Some(namespace),
        fields: Some(format!("metadata.name={name}")),
        ..Target::of(Kind::ConfigMap)
    };
    let stream_lists = crate::kube::can_stream_lists(&client).await;
    let steps = Follow { client, target, stream_lists, served: None };
    let mut steps = pin!(steps.steps());
    let mut listed = None;
    while let Some(step) = steps.next().await {
        match step {
            Step::Begin => listed = Some(Pair::default()),
            Step::Changed(_, raw) => {
                let value = serde_json::from_str(raw.get()).unwrap_or_default();
                let Ok(Object::ConfigMap(map)) = decode(Kind::ConfigMap, &value).object else {
                    tracing::warn!(%name, "the ConfigMap of the mesh configuration cannot be read");
                    continue;
                };
                let text = |key: &str| map.spec.data.get(key).cloned();
                let pair = Pair { mesh: text(KEY), networks: text(NETWORKS_KEY) };
                match &mut listed {
                    Some(listed) => *listed = pair,
                    None => send(&sender, pair),
                }
            }
            Step::Deleted(_) => {
                // An installation that is taken away and put back must not reset the mesh.
                tracing::warn!(%name, "the ConfigMap of the mesh configuration is gone; what it said stays");
            }
            Step::Listed | Step::Absent => {
                let pair = listed.take().unwrap_or_default();
                let gone = pair == Pair::default() && sender.borrow().is_some();
                if !gone {
                    send(&sender, pair);
                }
            }
        }
    }
}

async fn follow_files(mesh: PathBuf, networks: PathBuf, sender: watch::Sender<Option<Pair>>) {
    // Both may lie in one folder; two watches on it do no harm.
    let mut watches = [Watch::new(mesh.clone()), Watch::new(networks.clone())];
    loop {
        watches.iter_mut().for_each(Watch::arm);
        let pair = Pair { mesh: read(&mesh), networks: read(&networks) };
        // A file in the middle of its replacement is not an empty one.
        let vanished = pair.mesh.is_none()
            && sender.borrow().as_ref().is_some_and(|known| known.mesh.is_some());
        if vanished {
            tracing::warn!(path = %mesh.display(), "the mesh configuration is gone; what it said stays");
        } else {
            send(&sender, pair);
        }
        let [a, b] = &watches;
        tokio::select! {
            () = a.stirred() => a.quiet(QUIET, PATIENCE).await,
            () = b.stirred() => b.quiet(QUIET, PATIENCE).await,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

fn read(path: &Path) -> Option<String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                tracing::warn!(path = %path.display(), %error, "reading the mesh configuration");
            }
            None
        }
    }
}
