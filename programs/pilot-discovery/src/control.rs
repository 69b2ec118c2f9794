//! What the program writes to Kubernetes, started: roots in every namespace, webhooks that trust us,
//! statuses, addresses. Where only one replica may write, the one that holds the lease does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ironsail_api::{ClusterId, ObjectKey};
use ironsail_controllers::{address, election, ingress, revision, rootcert, status, webhook};
use ironsail_daemon::task::Supervisor;
use ironsail_discovery::Engine;
use ironsail_identity::RootBundle;
use ironsail_model::Snapshot;
use ironsail_source::mesh::{self, Mesh};
use ironsail_source::{Board, Finding};
use ironsail_sys::clock::Clock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::setting::Setting;
use crate::trust::Trust;

/// Between two writes of statuses.
const STATUS_PACE: Duration = Duration::from_millis(100);

/// What the controllers look at.
pub(crate) struct Watched {
    pub(crate) client: kube::Client,
    pub(crate) engine: Arc<Engine>,
    pub(crate) board: Board,
    /// The roots of the certificate that this program shows.
    pub(crate) roots: watch::Receiver<RootBundle>,
    pub(crate) trust: Trust,
    pub(crate) mesh: watch::Receiver<Arc<Mesh>>,
}

/// Starts the controllers; they end with the program.
pub(crate) fn start(setting: &Setting, watched: &Watched, tasks: &mut Supervisor) {
    let stop = tasks.stop_token();
    let bundle = pem(watched.roots.clone(), &stop);
    let (client, variables) = (&watched.client, &setting.variables);
    let hooks = webhook::Config {
        client: client.clone(),
        revision: variables.revision.clone(),
        namespace: setting.namespace.to_string(),
        bundle: bundle.clone(),
    };
    // Every replica may do this: all write the same.
    let (injection, stopped) = (hooks.clone(), stop.clone());
    tasks.spawn("the bundle of the injection webhooks", async move {
        webhook::patch_injection(injection, stopped).await;
        Ok(())
    });
    let stopped = stop.clone();
    tasks.spawn("the bundle of the validation webhooks", async move {
        webhook::patch_validation(hooks, stopped).await;
        Ok(())
    });
    let default = revision::follow_default(client.clone(), stop.clone());
    let elect = |name: &str| {
        if !variables.leader_election {
            return None;
        }
        let config = election::Config {
            namespace: setting.namespace.to_string(),
            name: name.to_owned(),
            identity: variables.pod_name.clone(),
            revision: variables.revision.clone(),
            default_revision: default.clone(),
            ttl: election::TTL,
            clock: Clock::system(),
        };
        Some(election::Election::new(client.clone(), config))
    };
    let selectors = mesh::follow_selectors(watched.mesh.clone(), stop.clone());
    // Whoever signs instead of us also says by what it is known.
    if variables.ca_server {
        certificates(watched, elect(election::name::NAMESPACE), selectors, tasks);
    }
    lead(elect(election::name::ADDRESS), "addresses of ServiceEntries", tasks, {
        let cluster = setting.cluster.clone();
        let given = follow(&watched.engine, &stop, move |s| address::of_snapshot(s, &cluster));
        let client = client.clone();
        move |stop| address::run(client.clone(), given.clone(), stop)
    });
    lead(elect(election::name::INGRESS), "addresses of Ingresses", tasks, {
        let served = follow(&watched.engine, &stop, ingress::of_snapshot);
        let client = client.clone();
        move |stop| ingress::run(client.clone(), served.clone(), stop)
    });
    if variables.write_status {
        let findings = findings(watched, setting.cluster.clone(), &stop);
        let (client, cluster) = (client.clone(), setting.cluster.clone());
        lead(elect(election::name::STATUS), "statuses of objects", tasks, move |stop| {
            let config = status::Config {
                client: client.clone(),
                cluster: cluster.clone(),
                findings: findings.clone(),
                pace: STATUS_PACE,
                clock: Clock::system(),
            };
            status::run(config, stop)
        });
    }
}

/// Roots, and what was taken back, in every namespace.
fn certificates(
    watched: &Watched,
    election: Option<election::Election>,
    selectors: watch::Receiver<Arc<ironsail_source::Selectors>>,
    tasks: &mut Supervisor,
) {
    let roots = pem(watched.trust.roots.clone(), &tasks.stop_token());
    let (client, revoked) = (watched.client.clone(), watched.trust.revoked.clone());
    lead(election, "certificates of namespaces", tasks, move |stop| {
        let config = |map, bundle| {
            let (client, selectors) = (client.clone(), selectors.clone());
            rootcert::Config { client, map, bundle, selectors }
        };
        let roots = config(rootcert::ROOTS, roots.clone());
        let revoked = config(rootcert::REVOKED, revoked.clone());
        async move {
            tokio::join!(rootcert::run(roots, stop.clone()), rootcert::run(revoked, stop));
        }
    });
}

/// Does `work` while this replica leads, or always if there is no election.
fn lead<F: Future<Output = ()> + Send>(
    election: Option<election::Election>,
    name: &'static str,
    tasks: &mut Supervisor,
    mut work: impl FnMut(CancellationToken) -> F + Send + 'static,
) {
    let stop = tasks.stop_token();
    tasks.spawn(name, async move {
        match election {
            Some(election) => election.run(stop, work).await,
            None => work(stop).await,
        }
        Ok(())
    });
}

/// The roots as text.
fn pem(
    mut roots: watch::Receiver<RootBundle>,
    stop: &CancellationToken,
) -> watch::Receiver<Arc<str>> {
    let text = |roots: &RootBundle| Arc::<str>::from(roots.pem());
    let (sender, bundle) = watch::channel(text(&roots.borrow_and_update()));
    let stop = stop.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                changed = roots.changed() => if changed.is_err() { return },
            }
            sender.send_replace(text(&roots.borrow_and_update()));
        }
    });
    bundle
}

/// What `read` makes of each snapshot.
fn follow<T: Clone + Default + PartialEq + Send + Sync + 'static>(
    engine: &Arc<Engine>,
    stop: &CancellationToken,
    read: impl Fn(&Snapshot) -> T + Send + 'static,
) -> watch::Receiver<T> {
    let (engine, stop) = (engine.clone(), stop.clone());
    let (sender, receiver) = watch::channel(T::default());
    tokio::spawn(async move {
        let mut refreshed = engine.refreshed();
        loop {
            if let Some(snapshot) = engine.snapshot() {
                let now = read(&snapshot);
                sender.send_if_modified(|known| {
                    let changed = *known != now;
                    *known = now;
                    changed
                });
            }
            tokio::select! {
                () = stop.cancelled() => return,
                changed = refreshed.changed() => if changed.is_err() { return },
            }
        }
    });
    receiver
}

/// What is wrong with which object: what sources found, what the model and the translators did.
fn findings(
    watched: &Watched,
    cluster: ClusterId,
    stop: &CancellationToken,
) -> watch::Receiver<status::All> {
    let (engine, board, stop) = (watched.engine.clone(), watched.board.clone(), stop.clone());
    let (sender, receiver) = watch::channel(status::All::default());
    tokio::spawn(async move {
        let (mut refreshed, mut changes) = (engine.refreshed(), board.changes());
        loop {
            let now = collect(&engine, &board, &cluster);
            sender.send_if_modified(|known| {
                let changed = **known != now;
                if changed {
                    *known = Arc::new(now);
                }
                changed
            });
            tokio::select! {
                () = stop.cancelled() => return,
                changed = refreshed.changed() => if changed.is_err() { return },
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    });
    receiver
}

fn collect(engine: &Engine, board: &Board, cluster: &ClusterId) -> BTreeMap<ObjectKey, Finding> {
    let mut all = board.findings().objects;
    let snapshot = engine.snapshot();
    // What was looked at, so that a status says of which generation it speaks.
    let generation = |key: &ObjectKey| {
        snapshot.as_ref().and_then(|snapshot| snapshot.config.generation(key)).unwrap_or(0)
    };
    for diagnostic in engine.diagnostics() {
        let key = ObjectKey {
            cluster: cluster.clone(),
            kind: diagnostic.kind,
            namespace: diagnostic.namespace.as_str().into(),
            name: diagnostic.name.as_str().into(),
        };
        let seen = generation(&key);
        let finding = all.entry(key).or_default();
        finding.generation = finding.generation.max(seen);
        if !finding.diagnostics.contains(&diagnostic) {
            finding.diagnostics.push(diagnostic);
        }
    }
    all
}
