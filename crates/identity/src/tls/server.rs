//! The accepting side: istiod's ports, and inbound mesh traffic.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

use super::{Error, Shown, Suites, Trusted, no_roots, provider, refuse};
use crate::certificate::Certificate;
use crate::trust::RootBundle;

/// Whether clients show certificates.
#[derive(Clone, Debug)]
pub enum ClientCertificates {
    /// They are not asked.
    Ignored,
    /// Those that show one must show a good one.
    Optional(Trusted),
    Required(Trusted),
    /// They show one that these roots vouch for, whatever its name.
    Issued(RootBundle),
}

/// A configuration that shows what `shown` holds when a client comes. `alpn` is what the server speaks.
pub fn server_config(
    shown: &Shown,
    clients: ClientCertificates,
    alpn: &[&str],
) -> Result<ServerConfig, Error> {
    server_config_with(&Suites::default(), shown, clients, alpn)
}

/// The same with these cipher suites.
pub fn server_config_with(
    suites: &Suites,
    shown: &Shown,
    clients: ClientCertificates,
    alpn: &[&str],
) -> Result<ServerConfig, Error> {
    let builder = ServerConfig::builder_with_provider(suites.provider())
        .with_safe_default_protocol_versions()
        .map_err(Error::Config)?;
    let resumable = matches!(clients, ClientCertificates::Ignored);
    let members = |trusted, required| Arc::new(Members { trusted, required });
    let builder = match clients {
        ClientCertificates::Ignored => builder.with_no_client_auth(),
        ClientCertificates::Optional(trusted) => {
            builder.with_client_cert_verifier(members(trusted, false))
        }
        ClientCertificates::Required(trusted) => {
            builder.with_client_cert_verifier(members(trusted, true))
        }
        ClientCertificates::Issued(roots) => {
            let verifier = roots.of_clients().cloned().ok_or_else(no_roots);
            builder.with_client_cert_verifier(verifier.map_err(Error::Config)?)
        }
    };
    let mut config = builder.with_cert_resolver(Arc::new(shown.clone()));
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    if !resumable {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(config)
}

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.current().map(|credential| credential.certified().clone())
    }
}

/// Lets in whoever has a certificate of the trust domain that its identity names.
#[derive(Debug)]
struct Members {
    trusted: Trusted,
    required: bool,
}

impl ClientCertVerifier for Members {
    fn client_auth_mandatory(&self) -> bool {
        self.required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // Members have one certificate each; a hint would not help them choose.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let leaf = Certificate::from_der(end_entity).map_err(refuse)?;
        let identity = leaf.spiffe().map_err(refuse)?;
        let bundles = self.trusted.current().ok_or_else(no_roots)?;
        let roots = bundles.roots_for(&identity.trust_domain);
        let verifier = roots.of_clients().ok_or_else(no_roots)?;
        verifier.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = provider().signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
