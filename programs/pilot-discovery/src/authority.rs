//! The certificate authority, started: its material, who may ask it, and the program's own certificate.

use std::sync::Arc;

use anyhow::Context;
use ironsail_ca::{
    Authenticator, Authority, AuthoritySettings, ClientCertificates, Domains, Limits,
    MemoryStrongbox, Method, SecretStrongbox, Serving, Strongbox, TokenReviews, serving_names,
};
use ironsail_daemon::task::Supervisor;
use ironsail_identity::tls::Trusted;
use ironsail_identity::{KeyKind, TrustBundles};
use ironsail_names::TrustDomains;
use ironsail_source::mesh::Mesh;
use ironsail_sys::clock::Clock;
use tokio::sync::watch;

use crate::setting::Setting;

/// For whom tokens of proxies are made.
const AUDIENCE: &str = "istio-ca";

/// What was started.
#[derive(Clone)]
pub(crate) struct Started {
    pub(crate) authority: Arc<Authority>,
    pub(crate) authenticator: Authenticator,
    pub(crate) serving: Arc<Serving>,
    /// The roots that clients' certificates are held against.
    pub(crate) trusted: Trusted,
}

pub(crate) async fn start(
    setting: &Setting,
    client: Option<kube::Client>,
    mesh: watch::Receiver<Arc<Mesh>>,
    tasks: &mut Supervisor,
) -> anyhow::Result<Started> {
    let clock = Clock::system();
    let domains = Domains::new(trust_domains(&mesh.borrow(), setting));
    let strongbox: Arc<dyn Strongbox> = match &client {
        Some(client) => Arc::new(SecretStrongbox::new(client.clone(), setting.namespace.as_str())),
        // Without Kubernetes there is nowhere to keep it, and nobody to share it with.
        None => Arc::new(MemoryStrongbox::default()),
    };
    let variables = &setting.variables;
    let settings = AuthoritySettings {
        directory: Some(variables.root_ca_dir.clone()).filter(|dir| dir.exists()),
        root_ttl: variables.root_cert_ttl,
        limits: Limits { default_ttl: variables.cert_ttl, max_ttl: variables.max_cert_ttl },
        ..AuthoritySettings::default()
    };
    let authority = Authority::open(settings, strongbox, domains.clone(), clock.clone())
        .await
        .context("opening the certificate authority")?;
    let mut methods: Vec<Arc<dyn Method>> =
        vec![Arc::new(ClientCertificates::new(domains.clone()))];
    if let Some(client) = client {
        let cluster = setting.cluster.as_str();
        let audiences = vec![AUDIENCE.to_owned()];
        methods.push(Arc::new(TokenReviews::new(
            client,
            cluster,
            audiences,
            domains.clone(),
            clock,
        )));
    }
    let custom = variables.hosts().join(",");
    let names = serving_names(&setting.namespace, &variables.revision, &custom);
    let serving = Serving::start(authority.clone(), names, KeyKind::default())
        .context("making the program's own certificate")?;
    let started = Started {
        authenticator: Authenticator::new(methods),
        serving: Arc::new(serving),
        trusted: Trusted::new(TrustBundles::of(authority.roots().borrow().clone())),
        authority,
    };
    follow(&started, domains, setting.trust_domain.clone(), mesh, tasks);
    Ok(started)
}

/// Keeps everything fresh until the program ends.
fn follow(
    started: &Started,
    domains: Domains,
    fixed: Option<ironsail_names::TrustDomain>,
    mut mesh: watch::Receiver<Arc<Mesh>>,
    tasks: &mut Supervisor,
) {
    let (own, stop) = (started.clone(), tasks.stop_token());
    tasks.spawn("the certificate authority", async move {
        let mut roots = own.authority.roots();
        let trust = async {
            while roots.changed().await.is_ok() {
                own.trusted.set(TrustBundles::of(roots.borrow_and_update().clone()));
            }
        };
        let trust_domain = async {
            while mesh.changed().await.is_ok() {
                let config = mesh.borrow_and_update().clone();
                domains.set(domains_of(&config, fixed.as_ref()));
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = own.authority.run() => {}
            () = own.serving.run() => {}
            () = trust => {}
            () = trust_domain => {}
        }
        Ok(())
    });
}

fn trust_domains(mesh: &Mesh, setting: &Setting) -> TrustDomains {
    domains_of(mesh, setting.trust_domain.as_ref())
}

/// Aliases that are no trust domains are left out; reading the mesh configuration has told of them.
fn domains_of(mesh: &Mesh, fixed: Option<&ironsail_names::TrustDomain>) -> TrustDomains {
    let default = || "cluster.local".parse().expect("a plain name");
    let own = fixed
        .cloned()
        .unwrap_or_else(|| mesh.config.trust_domain.parse().unwrap_or_else(|_| default()));
    let aliases = mesh.config.trust_domain_aliases.iter().filter_map(|alias| alias.parse().ok());
    TrustDomains::new(own, aliases)
}
