//! The connecting side: to istiod by its DNS name, and to workloads by their identity.

use std::sync::Arc;

use ironsail_names::SpiffeId;
use ironsail_sys::clock::Clock;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::{Error, Shown, Trusted, no_roots, provider, refuse};
use crate::certificate::Certificate;
use crate::signature;

/// Connections to a server that is known by a DNS name, which its certificate must hold. Shows what
/// `shown` has, if the server asks.
pub fn to_dns_name(trusted: &Trusted, shown: &Shown, alpn: &[&str]) -> Result<ClientConfig, Error> {
    config(Expect::DnsName, trusted, shown, alpn)
}

/// Connections to workloads: the certificate must be of one of these identities, or of any identity of a
/// trusted domain when there are none. The name that the connection is given does not matter.
pub fn to_workloads(
    identities: Vec<SpiffeId>,
    trusted: &Trusted,
    shown: &Shown,
    alpn: &[&str],
) -> Result<ClientConfig, Error> {
    config(Expect::Identity(identities), trusted, shown, alpn)
}

fn config(
    expect: Expect,
    trusted: &Trusted,
    shown: &Shown,
    alpn: &[&str],
) -> Result<ClientConfig, Error> {
    let verifier = Arc::new(Verifier { expect, trusted: trusted.clone() });
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(Error::Config)?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_client_cert_resolver(Arc::new(shown.clone()));
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// A certificate that is over is not shown. Every server refuses it, also one that would do without: a
/// workload whose certificate ran out while the control plane was away could never get another.
impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let credential = self.current()?;
        let over = credential.leaf().not_after() <= Clock::system().now();
        (!over).then(|| credential.certified().clone())
    }

    fn has_certs(&self) -> bool {
        self.current().is_some()
    }
}

#[derive(Debug)]
enum Expect {
    DnsName,
    Identity(Vec<SpiffeId>),
}

/// The server is somebody else than it should be.
#[derive(Debug, thiserror::Error)]
#[error("the server is {found}, not {}", list(wanted))]
struct WrongIdentity {
    found: SpiffeId,
    wanted: Vec<SpiffeId>,
}

fn list(identities: &[SpiffeId]) -> String {
    identities.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}

#[derive(Debug)]
struct Verifier {
    expect: Expect,
    trusted: Trusted,
}

impl Verifier {
    fn verify_workload(
        &self,
        wanted: &[SpiffeId],
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let leaf = Certificate::from_der(end_entity).map_err(refuse)?;
        let found = leaf.spiffe().map_err(refuse)?;
        let bundles = self.trusted.current().ok_or_else(no_roots)?;
        let parsed = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            bundles.roots_for(&found.trust_domain).store(),
            intermediates,
            now,
            signature::algorithms(),
        )?;
        if !wanted.is_empty() && !wanted.contains(&found) {
            return Err(refuse(WrongIdentity { found, wanted: wanted.to_vec() }));
        }
        Ok(ServerCertVerified::assertion())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.expect {
            Expect::DnsName => {
                let bundles = self.trusted.current().ok_or_else(no_roots)?;
                let verifier = bundles.own.of_servers().ok_or_else(no_roots)?;
                verifier.verify_server_cert(
                    end_entity,
                    intermediates,
                    server_name,
                    ocsp_response,
                    now,
                )
            }
            Expect::Identity(wanted) => {
                self.verify_workload(wanted, end_entity, intermediates, now)
            }
        }
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
