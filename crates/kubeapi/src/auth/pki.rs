//! podlet's own certificates: a CA in the data directory, the API server's certificate, the
//! administrator's, and the kubeconfig that carries it.
//!
//! The CA stays through restarts, so kubeconfigs and trust bundles given out keep working. The
//! other certificates are made anew at each start and outlive any run. Private keys of clients are
//! only ever in the kubeconfig.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ironsail_sys::clock::Clock;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;

use super::file;
use super::user::GROUP_MASTERS;

const DAY: Duration = Duration::from_secs(24 * 3600);
const CA_LIFE: Duration = Duration::from_secs(3650 * 24 * 3600);
/// Every certificate is at least this long valid after a start.
const LEAF_LIFE: Duration = Duration::from_secs(1825 * 24 * 3600);

const SERVER_NAMES: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    File(#[from] file::Error),
    #[error("{path} does not hold a usable CA: {what}", path = .path.display())]
    BadCa { path: PathBuf, what: String },
    #[error("issuing the certificate of {subject}")]
    Issue { subject: &'static str, source: rcgen::Error },
    #[error("setting up TLS")]
    Tls(#[source] rustls::Error),
    #[error("setting up the check of client certificates: {0}")]
    ClientCheck(String),
}

/// A certificate with its key.
struct Leaf {
    certificate: Certificate,
    key: KeyPair,
}

/// What the API server needs to serve TLS, and what its users need to trust it.
pub struct Pki {
    ca_pem: String,
    ca_der: CertificateDer<'static>,
    server: Leaf,
    admin: Leaf,
}

impl Pki {
    /// Opens or makes the CA under `directory` (`ca.crt`, `ca.key`). `addresses` are those of the
    /// server beside loopback, such as the Service address 10.96.0.1.
    pub fn open(directory: &Path, addresses: &[IpAddr], clock: &Clock) -> Result<Self, Error> {
        let (ca_pem, key) = authority(directory, clock)?;
        let path = directory.join("ca.crt");
        let issuer = Issuer::from_ca_cert_pem(&ca_pem, key)
            .map_err(|e| Error::BadCa { path: path.clone(), what: e.to_string() })?;
        let ca_der = der(&ca_pem).map_err(|what| Error::BadCa { path, what })?;
        Ok(Self {
            server: server_leaf(&issuer, addresses, clock)?,
            admin: admin_leaf(&issuer, clock)?,
            ca_pem,
            ca_der,
        })
    }

    /// The CA's certificate as PEM: the content of `kube-root-ca.crt`.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// TLS for the listener; asks for a client certificate and accepts a connection without one.
    pub fn server_config(&self) -> Result<Arc<rustls::ServerConfig>, Error> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.ca_der.clone()).map_err(Error::Tls)?;
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .allow_unauthenticated()
                .build()
                .map_err(|e| Error::ClientCheck(e.to_string()))?;
        let key = PrivatePkcs8KeyDer::from(self.server.key.serialize_der());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(Error::Tls)?
            .with_client_cert_verifier(clients)
            .with_single_cert(
                vec![self.server.certificate.der().clone()],
                PrivateKeyDer::Pkcs8(key),
            )
            .map_err(Error::Tls)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// A kubeconfig with everything embedded; `server` as in `https://127.0.0.1:6443`.
    pub fn kubeconfig(&self, server: &str) -> String {
        let ca = BASE64.encode(&self.ca_pem);
        let certificate = BASE64.encode(self.admin.certificate.pem());
        let key = BASE64.encode(self.admin.key.serialize_pem());
        format!(
            "apiVersion: v1\n\
             kind: Config\n\
             clusters:\n\
             - name: podlet\n\
             \x20 cluster:\n\
             \x20   server: {server}\n\
             \x20   certificate-authority-data: {ca}\n\
             contexts:\n\
             - name: podlet\n\
             \x20 context:\n\
             \x20   cluster: podlet\n\
             \x20   user: kubernetes-admin\n\
             current-context: podlet\n\
             users:\n\
             - name: kubernetes-admin\n\
             \x20 user:\n\
             \x20   client-certificate-data: {certificate}\n\
             \x20   client-key-data: {key}\n"
        )
    }
}

/// The CA's certificate and key: as stored, made new where there is none, and the certificate
/// made anew for the same key where what is left of its life would not cover the leaves'.
fn authority(directory: &Path, clock: &Clock) -> Result<(String, KeyPair), Error> {
    let (cert_path, key_path) = (directory.join("ca.crt"), directory.join("ca.key"));
    let stored = file::read(&key_path)?;
    let key = match &stored {
        Some(pem) => KeyPair::from_pem(pem)
            .map_err(|e| Error::BadCa { path: key_path.clone(), what: e.to_string() })?,
        None => KeyPair::generate().map_err(|source| Error::Issue { subject: "the CA", source })?,
    };
    if stored.is_none() {
        file::write(&key_path, &key.serialize_pem())?;
    } else if let Some(pem) = file::read(&cert_path)? {
        let until =
            not_after(&pem).map_err(|what| Error::BadCa { path: cert_path.clone(), what })?;
        if until > clock.since_epoch().saturating_add(LEAF_LIFE).as_secs() {
            return Ok((pem, key));
        }
    }
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "podlet-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    set_life(&mut params, clock, CA_LIFE);
    let certificate =
        params.self_signed(&key).map_err(|source| Error::Issue { subject: "the CA", source })?;
    file::write(&cert_path, &certificate.pem())?;
    Ok((certificate.pem(), key))
}

fn server_leaf(
    issuer: &Issuer<'_, KeyPair>,
    addresses: &[IpAddr],
    clock: &Clock,
) -> Result<Leaf, Error> {
    let subject = "the API server";
    let wrap = |source| Error::Issue { subject, source };
    let names: Vec<_> = SERVER_NAMES.iter().map(|n| (*n).to_owned()).collect();
    let mut params = CertificateParams::new(names).map_err(wrap)?;
    let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    for address in loopback.iter().chain(addresses) {
        params.subject_alt_names.push(SanType::IpAddress(*address));
    }
    params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    leaf(params, ExtendedKeyUsagePurpose::ServerAuth, issuer, clock).map_err(wrap)
}

fn admin_leaf(issuer: &Issuer<'_, KeyPair>, clock: &Clock) -> Result<Leaf, Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::OrganizationName, GROUP_MASTERS);
    params.distinguished_name.push(DnType::CommonName, "kubernetes-admin");
    leaf(params, ExtendedKeyUsagePurpose::ClientAuth, issuer, clock)
        .map_err(|source| Error::Issue { subject: "the administrator", source })
}

fn leaf(
    mut params: CertificateParams,
    usage: ExtendedKeyUsagePurpose,
    issuer: &Issuer<'_, KeyPair>,
    clock: &Clock,
) -> Result<Leaf, rcgen::Error> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![usage];
    params.use_authority_key_identifier_extension = true;
    set_life(&mut params, clock, LEAF_LIFE);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok(Leaf { certificate, key })
}

fn set_life(params: &mut CertificateParams, clock: &Clock, life: Duration) {
    let now = clock.now();
    // A day of grace for clients whose clock is behind.
    params.not_before = (now - DAY).into();
    params.not_after = (now + life).into();
}

fn der(pem: &str) -> Result<CertificateDer<'static>, String> {
    use rustls::pki_types::pem::PemObject as _;
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|e| e.to_string())
}

/// The end of a PEM certificate's life, in seconds of Unix time.
fn not_after(pem: &str) -> Result<u64, String> {
    let der = der(pem)?;
    let (_, certificate) = x509_parser::parse_x509_certificate(&der).map_err(|e| e.to_string())?;
    Ok(u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0))
}

#[cfg(test)]
mod tests;
