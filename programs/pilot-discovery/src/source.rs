//! Where objects come from, started: files or Kubernetes, and the mesh configuration.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Context;
use ironsail_api::{ClusterId, Event, Kind};
use ironsail_daemon::task::Supervisor;
use ironsail_source::mesh::{self, Mesh};
use ironsail_source::{Board, files, kube as watches};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::args::Discovery;
use crate::setting::{Objects, Setting};

/// What was started.
pub(crate) struct Started {
    pub(crate) events: mpsc::Receiver<Event>,
    pub(crate) mesh: watch::Receiver<Arc<Mesh>>,
    pub(crate) board: Board,
    /// What will be there before proxies are served.
    pub(crate) expected: BTreeSet<(ClusterId, Kind)>,
}

/// The Kubernetes API, if objects come from there.
pub(crate) async fn client(setting: &Setting) -> anyhow::Result<Option<kube::Client>> {
    let Objects::Kubernetes { kubeconfig } = &setting.objects else { return Ok(None) };
    let config = match kubeconfig {
        None => kube::Config::infer().await.context("finding out where the Kubernetes API is")?,
        Some(path) => {
            let file = kube::config::Kubeconfig::read_from(path)
                .with_context(|| format!("reading --kubeconfig {}", path.display()))?;
            let options = kube::config::KubeConfigOptions::default();
            kube::Config::from_custom_kubeconfig(file, &options)
                .await
                .with_context(|| format!("using --kubeconfig {}", path.display()))?
        }
    };
    let client = kube::Client::try_from(config).context("making a client of the Kubernetes API")?;
    Ok(Some(client))
}

/// Starts the sources; they end with the program. Secrets are read in the namespaces of `secrets`.
pub(crate) async fn start(
    args: &Discovery,
    setting: &Setting,
    client: Option<kube::Client>,
    secrets: watch::Receiver<Arc<BTreeSet<String>>>,
    tasks: &mut Supervisor,
) -> Started {
    let (sender, events) = ironsail_source::channel();
    let (board, stop) = (Board::default(), tasks.stop_token());
    let mut config = mesh::Config::new(
        client.clone(),
        setting.mesh_namespace.as_str(),
        &setting.variables.revision,
    );
    config.file.clone_from(&args.mesh_config);
    config.networks_file.clone_from(&args.networks_config);
    let mesh = mesh::follow(config, board.clone(), stop.clone()).await;
    let mesh = with_compliance(mesh, &setting.variables.compliance, &stop);
    let cluster = setting.cluster.clone();
    let kinds = match (&setting.objects, client) {
        (Objects::Files(path), _) => {
            let config = files::Config {
                path: path.clone(),
                cluster: cluster.clone(),
                namespace: "default".to_owned(),
            };
            let (board, stop) = (board.clone(), stop.clone());
            tasks.spawn("the source of files", async move {
                files::run(config, sender, board, stop).await;
                Ok(())
            });
            Kind::ALL.to_vec()
        }
        (Objects::Kubernetes { .. }, Some(client)) => {
            let mut config = watches::Config::new(client, cluster.clone());
            config.selectors = mesh::follow_selectors(mesh.clone(), stop.clone());
            config.secrets = watches::Scope::In(secrets);
            config.config_maps = watches::Scope::In(own_namespace(setting));
            let always = [Kind::Namespace, Kind::Secret, Kind::ConfigMap];
            let kinds = config.kinds.iter().copied().chain(always).collect();
            let (board, stop) = (board.clone(), stop.clone());
            tasks.spawn("the source of Kubernetes objects", async move {
                watches::run(config, sender, board, stop).await;
                Ok(())
            });
            kinds
        }
        (Objects::Kubernetes { .. }, None) => Vec::new(),
    };
    let expected = kinds.into_iter().map(|kind| (cluster.clone(), kind)).collect();
    Started { events, mesh, board, expected }
}

/// The mesh configuration under a policy that the program was started with.
fn with_compliance(
    mut mesh: watch::Receiver<Arc<mesh::Mesh>>,
    policy: &str,
    stop: &CancellationToken,
) -> watch::Receiver<Arc<mesh::Mesh>> {
    if policy.is_empty() {
        return mesh;
    }
    let (policy, stop) = (policy.to_owned(), stop.clone());
    let under = move |mesh: &mesh::Mesh| {
        let mut mesh = mesh.clone();
        mesh.config.compliance_policy.clone_from(&policy);
        Arc::new(mesh)
    };
    let (sender, receiver) = watch::channel(under(&mesh.borrow_and_update()));
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = mesh.changed() => if changed.is_err() { return },
            }
            sender.send_replace(under(&mesh.borrow_and_update()));
        }
    });
    receiver
}

/// The injector's configuration lies beside the control plane.
fn own_namespace(setting: &Setting) -> watch::Receiver<Arc<BTreeSet<String>>> {
    let namespaces = BTreeSet::from([setting.namespace.to_string()]);
    watch::Sender::new(Arc::new(namespaces)).subscribe()
}
