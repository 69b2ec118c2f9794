//! TLS towards webhooks: trust only the configuration's `caBundle`, and say what is wrong in the
//! words that Kubernetes users know.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, SignatureScheme};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    #[error("no caBundle is given, and podlet trusts no other roots")]
    NoBundle,
    #[error("the caBundle is not usable: {0}")]
    BadBundle(String),
}

/// `ca_bundle` is base64 of PEM, as JSON carries it.
pub(super) fn client_config(ca_bundle: &str) -> Result<Arc<rustls::ClientConfig>, Error> {
    let bad = |e: &dyn std::fmt::Display| Error::BadBundle(e.to_string());
    if ca_bundle.is_empty() {
        return Err(Error::NoBundle);
    }
    let pem = BASE64.decode(ca_bundle).map_err(|e| bad(&e))?;
    let bundle: Vec<_> =
        CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().map_err(|e| bad(&e))?;
    let mut roots = rustls::RootCertStore::empty();
    if roots.add_parsable_certificates(bundle.iter().cloned()).0 == 0 {
        return Err(Error::BadBundle("it holds no certificate".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let by_chain =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(|e| bad(&e))?;
    let verifier = Arc::new(Verifier { by_chain, bundle, provider: Arc::clone(&provider) });
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| bad(&e))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The usual check, and one thing more that Go's allows: a self-signed certificate that is itself
/// in the bundle, as people make them for a quick webhook.
#[derive(Debug)]
struct Verifier {
    by_chain: Arc<WebPkiServerVerifier>,
    bundle: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
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
        if !self.bundle.iter().any(|known| known == end_entity) {
            return self.by_chain.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
        }
        let (_, certificate) = x509_parser::parse_x509_certificate(end_entity)
            .map_err(|_| CertificateError::BadEncoding)?;
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let life = certificate.validity();
        if life.not_before.timestamp() > seconds || life.not_after.timestamp() < seconds {
            return Err(CertificateError::Expired.into());
        }
        rustls::client::verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// A failed handshake in words that users can search for.
pub(super) fn explain(error: &std::io::Error, name: &str) -> String {
    let inner = error.get_ref().and_then(|e| e.downcast_ref::<rustls::Error>());
    let x509 = |text: &str| format!("tls: failed to verify certificate: x509: {text}");
    match inner {
        Some(rustls::Error::InvalidCertificate(why)) => match why {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                x509("certificate signed by unknown authority")
            }
            CertificateError::NotValidForNameContext { presented, .. } => {
                let valid_for: Vec<_> = presented
                    .iter()
                    .map(|p| {
                        let inside = p.split_once('"').and_then(|(_, rest)| rest.split_once('"'));
                        inside.map_or(p.as_str(), |(inside, _)| inside)
                    })
                    .collect();
                x509(&format!("certificate is valid for {}, not {name}", valid_for.join(", ")))
            }
            CertificateError::NotValidForName => {
                x509(&format!("certificate is not valid for {name}"))
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => {
                x509("certificate has expired or is not yet valid")
            }
            other => x509(&other.to_string()),
        },
        Some(other) => format!("tls: {other}"),
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        None => error.to_string(),
    }
}
