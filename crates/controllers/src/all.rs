//! All controllers of one control plane, joined: what only the leader may do is elected for.
//!
//! In: everything that the controllers need. Out: they run until told to stop; leases are given back
//! before [`run`] returns.

use std::sync::Arc;
use std::time::Duration;

use ironsail_api::ClusterId;
use ironsail_source::Selectors;
use ironsail_sys::clock::Clock;
use kube::Client;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::election::{self, Election};
use crate::{address, revision, rootcert, status, webhook};

/// Twenty writes of status a second: enough for people, little for the API.
const PACE: Duration = Duration::from_millis(50);

pub struct Config {
    pub client: Client,
    /// The cluster that `client` leads to.
    pub cluster: ClusterId,
    /// Of the control plane.
    pub namespace: String,
    /// Empty for the default one.
    pub revision: String,
    /// Who this replica is: the pod's name.
    pub identity: String,
    /// Whether leaders are elected; without it this replica does everything (one replica only).
    pub elect: bool,
    /// The mesh's root certificates, PEM.
    pub bundle: watch::Receiver<Arc<str>>,
    pub selectors: watch::Receiver<Arc<Selectors>>,
    /// Whether the webhooks of injection and of validation are patched.
    pub injection: bool,
    pub validation: bool,
    /// Nothing when status is not to be written.
    pub findings: Option<watch::Receiver<status::All>>,
    pub addresses: Option<watch::Receiver<address::All>>,
    pub clock: Clock,
}

/// Runs all controllers until `stop`.
pub async fn run(config: Config, stop: CancellationToken) {
    let leader = Leader {
        default: revision::follow_default(config.client.clone(), stop.clone()),
        config: &config,
        stop: &stop,
    };
    let hooks = webhook::Config {
        client: config.client.clone(),
        revision: config.revision.clone(),
        namespace: config.namespace.clone(),
        bundle: config.bundle.clone(),
    };
    let client = &config.client;
    let maps = leader.run(election::name::NAMESPACE, |hold| {
        let config = rootcert::Config {
            client: client.clone(),
            bundle: config.bundle.clone(),
            selectors: config.selectors.clone(),
        };
        rootcert::run(config, hold)
    });
    let statuses = async {
        let Some(findings) = &config.findings else { return };
        let work = |hold| {
            let config = status::Config {
                client: client.clone(),
                cluster: config.cluster.clone(),
                findings: findings.clone(),
                pace: PACE,
                clock: config.clock.clone(),
            };
            status::run(config, hold)
        };
        leader.run(election::name::STATUS, work).await;
    };
    let addresses = async {
        let Some(given) = &config.addresses else { return };
        let work = |hold| address::run(client.clone(), given.clone(), hold);
        leader.run(election::name::ADDRESS, work).await;
    };
    let injection = async {
        if config.injection {
            webhook::patch_injection(hooks.clone(), stop.clone()).await;
        }
    };
    let validation = async {
        if config.validation {
            webhook::patch_validation(hooks.clone(), stop.clone()).await;
        }
    };
    tokio::join!(maps, statuses, addresses, injection, validation);
}

struct Leader<'a> {
    config: &'a Config,
    default: watch::Receiver<String>,
    stop: &'a CancellationToken,
}

impl Leader<'_> {
    /// Runs `work` whenever this replica leads for `name`.
    async fn run<F>(&self, name: &str, work: impl Fn(CancellationToken) -> F)
    where
        F: Future<Output = ()>,
    {
        if !self.config.elect {
            return work(self.stop.clone()).await;
        }
        let config = election::Config {
            namespace: self.config.namespace.clone(),
            name: name.to_owned(),
            identity: self.config.identity.clone(),
            revision: self.config.revision.clone(),
            default_revision: self.default.clone(),
            ttl: election::TTL,
            clock: self.config.clock.clone(),
        };
        Election::new(self.config.client.clone(), config).run(self.stop.clone(), work).await;
    }
}

#[cfg(test)]
mod tests {
    use ironsail_testkit::{Api as TestApi, eventually};
    use k8s_openapi::api::coordination::v1::Lease;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;

    use super::*;

    #[tokio::test]
    async fn all_run_and_give_their_leases_back() {
        let api = TestApi::open().await;
        let stop = CancellationToken::new();
        let config = Config {
            client: api.client(),
            cluster: "here".into(),
            namespace: "default".to_owned(),
            revision: String::new(),
            identity: "istiod-0".to_owned(),
            elect: true,
            bundle: watch::Sender::new("root".into()).subscribe(),
            selectors: watch::Sender::default().subscribe(),
            injection: true,
            validation: true,
            findings: Some(watch::Sender::default().subscribe()),
            addresses: Some(watch::Sender::default().subscribe()),
            clock: Clock::system(),
        };
        let task = tokio::spawn(run(config, stop.clone()));
        let maps = Api::<ConfigMap>::default_namespaced(api.admin());
        eventually("the root certificate is there", async || {
            maps.get(rootcert::MAP).await.map(|_| ()).map_err(|error| error.to_string())
        })
        .await;
        let leases = Api::<Lease>::default_namespaced(api.admin());
        let names = [election::name::NAMESPACE, election::name::STATUS, election::name::ADDRESS];
        for name in names {
            eventually("the lease is held", async || {
                let lease = leases.get(name).await.map_err(|error| error.to_string())?;
                let holder = lease.spec.and_then(|spec| spec.holder_identity);
                if holder.as_deref() == Some("istiod-0") {
                    Ok(())
                } else {
                    Err(format!("{holder:?}"))
                }
            })
            .await;
        }
        stop.cancel();
        task.await.unwrap();
        for name in names {
            let lease = leases.get(name).await.unwrap();
            assert_eq!(lease.spec.unwrap().holder_identity, None, "{name}");
        }
    }
}
