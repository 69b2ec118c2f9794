//! The CA as it stands now: finds or makes its root, follows changes, signs.
//!
//! Material is looked for in this order: the mounted directory, the Secret `cacerts`, the Secret of the
//! self-signed CA, which is made if nothing is there. Several replicas agree, because only one of them
//! can create that Secret and all read it back. A change that does not hold is reported and what was
//! there stays in use. A root that nobody trusts yet is announced first and signs later (`switch`).

mod mounted;
mod root;
mod switch;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use futures::StreamExt;
use ironsail_identity::tls::Trusted;
use ironsail_identity::{
    Certificate, Credential, CredentialError, KeyKind, PrivateKey, RenewalPolicy, RootBundle, San,
    TrustBundles,
};
use ironsail_names::{SpiffeId, TrustDomain, TrustDomains};
use ironsail_sys::clock::Clock;
use parking_lot::Mutex;
use switch::Next;
use tokio::sync::watch;
use tracing::{info, warn};

use crate::caller::Domains;
use crate::folder;
use crate::material::{self, Origin, Signing};
use crate::metrics::Metrics;
use crate::sign::{self, Ask, Limits};
use crate::strongbox::{self, Contents, Strongbox};

pub use root::{Error as RootError, new_root};
pub use switch::Followers;

/// Where a self-signed CA keeps its root.
pub const CA_SECRET: &str = "istio-ca-secret";
/// Where somebody plugs in a CA.
pub const CACERTS_SECRET: &str = "cacerts";
/// Marks a Secret `cacerts` that the CA made itself.
const GENERATED: &str = "istio-generated";
/// More rounds than any race of replicas takes.
const ROUNDS: usize = 5;

/// How a CA is set up; the names in brackets are those of Istio's environment variables.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Mounted key material (`ROOT_CA_DIR`).
    pub directory: Option<PathBuf>,
    /// Keep a self-signed root in `cacerts` (`USE_CACERTS_FOR_SELF_SIGNED_CA`).
    pub keep_in_cacerts: bool,
    /// The key of a self-signed root.
    pub root_key: KeyKind,
    /// How long a self-signed root lives (`CITADEL_SELF_SIGNED_CA_CERT_TTL`).
    pub root_ttl: Duration,
    /// The part of its life that is left when it is renewed, in percent
    /// (`CITADEL_SELF_SIGNED_ROOT_CERT_GRACE_PERIOD_PERCENTILE`).
    pub root_grace_percent: u8,
    /// How often that is looked at (`CITADEL_SELF_SIGNED_ROOT_CERT_CHECK_INTERVAL`).
    pub check_interval: Duration,
    /// `DEFAULT_WORKLOAD_CERT_TTL` and `MAX_WORKLOAD_CERT_TTL`.
    pub limits: Limits,
    /// How long a new root waits for everybody to trust it before it signs anyway.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        Self {
            directory: None,
            keep_in_cacerts: false,
            root_key: KeyKind::default(),
            root_ttl: 3650 * day,
            root_grace_percent: 20,
            check_interval: Duration::from_secs(60 * 60),
            limits: Limits::default(),
            patience: Duration::from_secs(10 * 60),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("opening the CA's secrets")]
    Strongbox(#[source] strongbox::Error),
    #[error("reading {path}, where a CA may be plugged in", path = .path.display())]
    Directory { path: PathBuf, source: std::io::Error },
    #[error("the CA's key material cannot be used")]
    Material(#[source] material::Error),
    #[error("making a self-signed root")]
    Root(#[source] root::Error),
    #[error("{described} is there but holds no CA; delete it or fill it")]
    Empty { described: String },
    #[error("other replicas kept changing {described}")]
    Contended { described: String },
}

/// The mesh's certificate authority.
pub struct Authority {
    settings: Settings,
    strongbox: Arc<dyn Strongbox>,
    domains: Domains,
    clock: Clock,
    signing: ArcSwap<Signing>,
    /// What signs once everybody trusts its root.
    next: Mutex<Option<Next>>,
    followers: OnceLock<Arc<dyn Followers>>,
    roots: watch::Sender<RootBundle>,
    revoked: watch::Sender<Arc<str>>,
    trusted: Trusted,
    /// Counts changes of what is signed with.
    generation: watch::Sender<u64>,
    metrics: Arc<Metrics>,
}

impl Authority {
    /// Finds the CA's material, or makes it.
    pub async fn open(
        settings: Settings,
        strongbox: Arc<dyn Strongbox>,
        domains: Domains,
        clock: Clock,
    ) -> Result<Arc<Self>, Error> {
        let finder = Finder { settings: &settings, strongbox: &*strongbox, now: clock.now() };
        let signing = finder.find_or_make(&domains).await?;
        info!(origin = %signing.origin(), certificate = ?signing.certificate(), "CA ready");
        let metrics = Arc::new(Metrics::default());
        metrics.record_expiry(&signing);
        let roots = watch::Sender::new(signing.roots().clone());
        let revoked = watch::Sender::new(signing.revoked().clone());
        let trusted = Trusted::new(TrustBundles::of(signing.roots().clone()));
        let (signing, generation) = (ArcSwap::from_pointee(signing), watch::Sender::new(0));
        Ok(Arc::new(Self {
            settings,
            strongbox,
            domains,
            clock,
            signing,
            next: Mutex::default(),
            followers: OnceLock::new(),
            roots,
            revoked,
            trusted,
            generation,
            metrics,
        }))
    }

    /// The roots that everybody in the mesh should trust, now and whenever they change.
    pub fn roots(&self) -> watch::Receiver<RootBundle> {
        self.roots.subscribe()
    }

    /// The same roots for TLS, which follows them by itself.
    pub fn trusted(&self) -> &Trusted {
        &self.trusted
    }

    /// The roots of other trust domains, whose members are let in too (`caCertificates` of the mesh
    /// configuration).
    pub fn set_other_domains(&self, by_domain: BTreeMap<TrustDomain, RootBundle>) {
        self.roots.send_if_modified(|own| {
            self.trusted.set(TrustBundles { own: own.clone(), by_domain });
            false
        });
    }

    /// The list of certificates that were taken back, as PEM; empty if there is none.
    pub fn revoked(&self) -> watch::Receiver<Arc<str>> {
        self.revoked.subscribe()
    }

    /// Changes whenever the CA signs with something else.
    pub fn generation(&self) -> watch::Receiver<u64> {
        self.generation.subscribe()
    }

    pub fn signing(&self) -> Arc<Signing> {
        self.signing.load_full()
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    pub(crate) fn domains(&self) -> Arc<TrustDomains> {
        self.domains.current()
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Answers the request of a workload, in PEM: one element for each certificate, leaf first, root
    /// last. `ttl` zero means the default.
    pub fn issue(
        &self,
        csr: &[u8],
        caller: &SpiffeId,
        ttl: Duration,
    ) -> Result<Vec<String>, sign::Error> {
        let (signing, domains) = (self.signing.load(), self.domains.current());
        let now = self.clock.now();
        let limits = self.settings.limits;
        let ask = Ask { csr, caller, ttl };
        let leaf = sign::for_workload(&signing, limits, &domains, ask, now)?;
        let mut chain = Vec::with_capacity(1 + signing.above().len());
        chain.push(sign::to_pem(&leaf));
        chain.extend_from_slice(signing.above());
        Ok(chain)
    }

    /// Makes a key and a certificate for a server of the mesh's own.
    pub fn issue_server(
        &self,
        names: &[San],
        kind: KeyKind,
        ttl: Duration,
    ) -> Result<Credential, IssueServerError> {
        let signing = self.signing.load();
        let key = PrivateKey::generate(kind).map_err(IssueServerError::Key)?;
        let leaf = sign::leaf(&signing, key.public_der(), names, ttl, self.clock.now())
            .map_err(IssueServerError::Sign)?;
        let leaf = Certificate::from_der(&leaf).map_err(IssueServerError::Read)?;
        let chain = [leaf].into_iter().chain(signing.intermediates().iter().cloned()).collect();
        Credential::new(Arc::new(key), chain).map_err(IssueServerError::Credential)
    }

    /// Looks again at where material may lie. What does not hold is not taken.
    pub async fn reload(&self) -> Result<(), Error> {
        let finder =
            Finder { settings: &self.settings, strongbox: &*self.strongbox, now: self.clock.now() };
        let found = finder.find().await.inspect_err(|_| self.metrics.count_reload_failure())?;
        match found {
            Some(found) => self.take(found),
            None => warn!("the CA's key material is gone; going on with what was there"),
        }
        Ok(())
    }

    /// Renews a self-signed root that comes to its end, with the same key, so that what the old one
    /// signed holds under the new one too.
    pub async fn renew_root(&self) -> Result<(), Error> {
        let current = self.signing.load_full();
        let Origin::SelfSigned { name, described } = current.origin() else { return Ok(()) };
        let certificate = current.certificate();
        let now = self.clock.now();
        let ratio = f64::from(self.settings.root_grace_percent) / 100.0;
        let policy = RenewalPolicy { grace_ratio: ratio, jitter: 0.0 };
        if policy.wait(certificate, now, 0.0) > Duration::ZERO {
            return Ok(());
        }
        let Some(old) = self.strongbox.read(name).await.map_err(Error::Strongbox)? else {
            warn!("{described} is gone; the root is not renewed");
            return Ok(());
        };
        // What lies there may be newer than what is in use: then another replica was faster.
        if !root::is_of(&old.files, certificate) {
            return self.reload().await;
        }
        let files =
            root::renew(current.key(), certificate, &old.files, self.settings.root_ttl, now)
                .map_err(Error::Root)?;
        match self.strongbox.replace(name, &old, files).await.map_err(Error::Strongbox)? {
            true => info!("renewed the self-signed root in {described}"),
            false => info!("another replica renewed the self-signed root in {described}"),
        }
        self.reload().await
    }

    /// Follows changes and renews the root, until it is dropped.
    pub async fn run(&self) {
        let mut cacerts = self.strongbox.changes(CACERTS_SECRET);
        let mut own = self.strongbox.changes(CA_SECRET);
        let mut mounted = folder::changes(self.settings.directory.as_slice());
        let mut check =
            tokio::time::interval(self.settings.check_interval.max(Duration::from_secs(1)));
        loop {
            tokio::select! {
                _ = cacerts.next() => {}
                _ = own.next() => {}
                _ = mounted.next() => {}
                () = self.due() => {
                    self.switch();
                    continue;
                }
                _ = check.tick() => {
                    if let Err(error) = self.renew_root().await {
                        warn!("{}", chain(&error));
                    }
                }
            }
            if let Err(error) = self.reload().await {
                warn!("{}; going on with what was there", chain(&error));
            }
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum IssueServerError {
    #[error("making a key")]
    Key(#[source] ironsail_identity::KeyError),
    #[error("signing a certificate")]
    Sign(#[source] sign::Error),
    #[error("reading the certificate just made")]
    Read(#[source] ironsail_identity::CertificateError),
    #[error("joining key and certificate")]
    Credential(#[source] CredentialError),
}

/// Looks for material.
struct Finder<'a> {
    settings: &'a Settings,
    strongbox: &'a dyn Strongbox,
    now: SystemTime,
}

impl Finder<'_> {
    async fn find(&self) -> Result<Option<Signing>, Error> {
        let mut extra = None;
        if let Some(path) = &self.settings.directory {
            let failed = |source| Error::Directory { path: path.clone(), source };
            let files = mounted::read(path).map_err(failed)?;
            let generated = files.contains_key(GENERATED) && self.settings.keep_in_cacerts;
            let origin = Origin::Directory(path.clone());
            match Signing::read(&files, &origin, self.now).map_err(Error::Material)? {
                Some(signing) if !generated => return Ok(Some(signing)),
                _ => extra = mounted::extra_roots(&files, &origin).map_err(Error::Material)?,
            }
        }
        if let Some(contents) = self.read(CACERTS_SECRET).await? {
            let described = self.strongbox.describe(CACERTS_SECRET);
            let origin = match contents.files.contains_key(GENERATED) {
                true => Origin::SelfSigned { described, name: CACERTS_SECRET.to_owned() },
                false => Origin::Secret { described },
            };
            let found =
                Signing::read(&contents.files, &origin, self.now).map_err(Error::Material)?;
            if found.is_some() {
                return Ok(found);
            }
        }
        let Some(contents) = self.read(CA_SECRET).await? else { return Ok(None) };
        let described = self.strongbox.describe(CA_SECRET);
        let origin =
            Origin::SelfSigned { described: described.clone(), name: CA_SECRET.to_owned() };
        match Signing::read(&contents.files, &origin, self.now).map_err(Error::Material)? {
            Some(signing) => Ok(Some(signing.with_roots(extra.as_ref()))),
            None => Err(Error::Empty { described }),
        }
    }

    async fn read(&self, name: &str) -> Result<Option<Contents>, Error> {
        self.strongbox.read(name).await.map_err(Error::Strongbox)
    }

    async fn find_or_make(&self, domains: &Domains) -> Result<Signing, Error> {
        let name = if self.settings.keep_in_cacerts { CACERTS_SECRET } else { CA_SECRET };
        for _ in 0..ROUNDS {
            if let Some(found) = self.find().await? {
                return Ok(found);
            }
            let organization = domains.current().own().to_string();
            let Settings { root_key, root_ttl, keep_in_cacerts, .. } = self.settings;
            let files = root::make(&organization, *root_key, *root_ttl, self.now)
                .map(|root| root.files(*keep_in_cacerts))
                .map_err(Error::Root)?;
            let described = self.strongbox.describe(name);
            match self.strongbox.create(name, files).await.map_err(Error::Strongbox)? {
                true => info!("made a self-signed root in {described}"),
                false => info!("another replica made the self-signed root in {described}"),
            }
        }
        Err(Error::Contended { described: self.strongbox.describe(name) })
    }
}

/// An error and everything under it, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        // Some errors show their source themselves.
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        next = source.source();
    }
    text
}
