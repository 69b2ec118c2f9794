//! The certificate authority, started: its material, who may ask it, and the program's own certificate.

use std::sync::Arc;

use anyhow::Context;
use ironsail_api::mesh::CertificateSource;
use ironsail_ca::{
    Authenticator, Authority, AuthoritySettings, ClientCertificates, Domains, KubernetesSigner,
    Limits, MemoryStrongbox, Method, OfflineTokens, Registration, SecretStrongbox, Serving,
    Strongbox, TokenReviews, serving_names,
};
use ironsail_daemon::task::Supervisor;
use ironsail_identity::tls::Trusted;
use ironsail_identity::{KeyKind, RootBundle, TrustBundles};
use ironsail_names::TrustDomains;
use ironsail_source::mesh::Mesh;
use ironsail_sys::clock::Clock;
use tokio::sync::watch;

use crate::issuer;
use crate::setting::Setting;

/// What was started.
#[derive(Clone)]
pub(crate) struct Started {
    pub(crate) authority: Arc<Authority>,
    pub(crate) authenticator: Authenticator,
    pub(crate) serving: Arc<Serving>,
    /// The roots that clients' certificates are held against.
    pub(crate) trusted: Trusted,
    /// The roots of the mesh, and of the certificate that this program shows.
    pub(crate) roots: watch::Receiver<RootBundle>,
    pub(crate) domains: Domains,
    /// Somebody else's CA is all there is.
    foreign: bool,
    /// Where somebody else signs for workloads.
    pub(crate) registration: Option<Arc<Registration>>,
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
        // Nobody will see what this one makes.
        _ if setting.has_foreign_ca() => Arc::new(MemoryStrongbox::default()),
        Some(client) => Arc::new(SecretStrongbox::new(client.clone(), setting.namespace.as_str())),
        // Without Kubernetes there is nowhere to keep it, and nobody to share it with.
        None => Arc::new(MemoryStrongbox::default()),
    };
    let variables = &setting.variables;
    let settings = AuthoritySettings {
        directory: Some(variables.root_ca_dir.clone())
            .filter(|dir| dir.exists() && !setting.has_foreign_ca()),
        keep_in_cacerts: variables.keep_in_cacerts,
        root_ttl: variables.root_cert_ttl,
        root_grace_percent: variables.root_grace,
        check_interval: variables.root_check,
        limits: Limits { default_ttl: variables.cert_ttl, max_ttl: variables.max_cert_ttl },
        ..AuthoritySettings::default()
    };
    let authority = Authority::open(settings, strongbox, domains.clone(), clock.clone())
        .await
        .context("opening the certificate authority")?;
    let registration = registration(setting, client.as_ref(), mesh.clone())?;
    let authenticator = Authenticator::new(methods(setting, client, &domains, &clock)?);
    let serving = Arc::new(serving(setting, &authority)?);
    let (sender, roots) = watch::channel(joined(setting.has_foreign_ca(), &authority, &serving));
    let trusted = Trusted::new(TrustBundles::of(roots.borrow().clone()));
    let started = Started {
        authenticator,
        serving,
        trusted,
        roots,
        domains: domains.clone(),
        foreign: setting.has_foreign_ca(),
        registration,
        authority,
    };
    follow(&started, sender, domains, setting.trust_domain.clone(), mesh, tasks);
    Ok(started)
}

/// Signers of Kubernetes, if they sign for workloads. Their roots are those of `caCertificates` that
/// name them.
fn registration(
    setting: &Setting,
    client: Option<&kube::Client>,
    mesh: watch::Receiver<Arc<Mesh>>,
) -> anyhow::Result<Option<Arc<Registration>>> {
    let variables = &setting.variables;
    if !variables.external_ca {
        return Ok(None);
    }
    let client = client.context("EXTERNAL_CA needs Kubernetes")?;
    let signer =
        KubernetesSigner::new(client.clone(), &variables.k8s_signer, &variables.signer_domain);
    let roots = move |signer: &str| {
        let mesh = mesh.borrow().clone();
        let of_signer = mesh
            .config
            .ca_certificates
            .iter()
            .filter(|entry| entry.cert_signers.iter().any(|name| name == signer));
        let read = of_signer.filter_map(|entry| match &entry.data {
            CertificateSource::Pem(pem) => RootBundle::from_pem(pem.as_bytes()).ok(),
            _ => None,
        });
        read.reduce(|all, more| all.and(&more))
    };
    let limits = Limits { default_ttl: variables.cert_ttl, max_ttl: variables.max_cert_ttl };
    let registration = Registration::new(Box::new(signer), Box::new(roots), limits);
    Ok(Some(Arc::new(registration)))
}

/// The ways to know a caller, in the order in which they are tried.
fn methods(
    setting: &Setting,
    client: Option<kube::Client>,
    domains: &Domains,
    clock: &Clock,
) -> anyhow::Result<Vec<Arc<dyn Method>>> {
    let variables = &setting.variables;
    let mut methods: Vec<Arc<dyn Method>> =
        vec![Arc::new(ClientCertificates::new(domains.clone()))];
    if !setting.issuers.is_empty() {
        let roots = issuer::roots(&variables.web_roots).context("issuers of tokens")?;
        for issuer in &setting.issuers {
            tracing::info!(issuer = issuer.name, audiences = ?issuer.audiences,
                "tokens of an issuer are checked by its public keys");
            methods.push(Arc::new(OfflineTokens::new(
                &issuer.name,
                issuer.audiences.clone(),
                issuer.source(&roots),
                domains.clone(),
                clock.clone(),
            )));
        }
    }
    if let Some(client) = client {
        methods.push(Arc::new(TokenReviews::new(
            client,
            setting.cluster.as_str(),
            variables.token_audiences.clone(),
            domains.clone(),
            clock.clone(),
        )));
    }
    Ok(methods)
}

fn serving(setting: &Setting, authority: &Arc<Authority>) -> anyhow::Result<Serving> {
    let variables = &setting.variables;
    match &setting.serving {
        Some(files) => Serving::of_files(files.clone()).context("the certificate to serve with"),
        None => {
            let custom = variables.hosts().join(",");
            let names = serving_names(&setting.namespace, &variables.revision, &custom);
            Serving::start(authority.clone(), names, KeyKind::default())
                .context("making the program's own certificate")
        }
    }
}

/// Whoever trusts these knows both the mesh's members and this program.
fn joined(foreign: bool, authority: &Authority, serving: &Serving) -> RootBundle {
    let own = authority.roots().borrow().clone();
    match serving.roots() {
        Some(roots) if foreign => roots.borrow().clone(),
        Some(roots) => own.and(&roots.borrow()),
        None => own,
    }
}

/// Keeps everything fresh until the program ends.
fn follow(
    started: &Started,
    joined_roots: watch::Sender<RootBundle>,
    domains: Domains,
    fixed: Option<ironsail_names::TrustDomain>,
    mut mesh: watch::Receiver<Arc<Mesh>>,
    tasks: &mut Supervisor,
) {
    let (own, stop) = (started.clone(), tasks.stop_token());
    tasks.spawn("the certificate authority", async move {
        let mut roots = own.authority.roots();
        let served = own.serving.roots();
        let trust = async {
            let mut served = served;
            loop {
                let more = async {
                    match &mut served {
                        Some(served) => served.changed().await,
                        None => std::future::pending().await,
                    }
                };
                let changed = tokio::select! {
                    changed = roots.changed() => changed,
                    changed = more => changed,
                };
                if changed.is_err() {
                    return;
                }
                joined_roots.send_replace(joined(own.foreign, &own.authority, &own.serving));
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
