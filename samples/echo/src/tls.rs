//! TLS on both ends: the server's certificate and what it saw; what the client trusts and shows.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    ServerConnection, SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::TlsAcceptor;

use crate::report::TlsSeen;

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

pub(crate) fn identity(cert: &Path, key: &Path) -> anyhow::Result<Identity> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(cert)
        .with_context(|| format!("reading {}", cert.display()))?
        .collect();
    let chain = chain.with_context(|| format!("reading {}", cert.display()))?;
    let key =
        PrivateKeyDer::from_pem_file(key).with_context(|| format!("reading {}", key.display()))?;
    Ok((chain, key))
}

fn self_signed() -> anyhow::Result<Identity> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "echo".to_owned()])
        .context("making a certificate")?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())
        .map_err(|e| anyhow::anyhow!("using the made key: {e}"))?;
    Ok((vec![made.cert.der().clone()], key))
}

pub(crate) fn acceptor(cert: Option<&Path>, key: Option<&Path>) -> anyhow::Result<TlsAcceptor> {
    let (chain, key) = match (cert, key) {
        (Some(cert), Some(key)) => identity(cert, key)?,
        _ => self_signed()?,
    };
    let mut config = ServerConfig::builder()
        .with_client_cert_verifier(Arc::new(AnyPeer::new()))
        .with_single_cert(chain, key)
        .context("using the certificate")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

pub(crate) fn seen(connection: &ServerConnection) -> TlsSeen {
    let names = connection.peer_certificates().and_then(|c| c.first()).map(|c| names_in(c));
    TlsSeen {
        version: connection.protocol_version().map(|v| format!("{v:?}")).unwrap_or_default(),
        sni: connection.server_name().map(str::to_owned),
        alpn: connection.alpn_protocol().map(|p| String::from_utf8_lossy(p).into_owned()),
        client_names: names.unwrap_or_default(),
    }
}

/// The alternative names of a certificate; none where it cannot be read.
fn names_in(der: &[u8]) -> Vec<String> {
    use x509_parser::extensions::GeneralName;
    let Ok((_, certificate)) = x509_parser::parse_x509_certificate(der) else { return Vec::new() };
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return Vec::new() };
    names
        .value
        .general_names
        .iter()
        .filter_map(|name| match name {
            GeneralName::URI(name) | GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        })
        .collect()
}

/// What `echo call` trusts: a CA file, or everybody where none is given.
pub(crate) fn client(ca: Option<&Path>, own: Option<Identity>) -> anyhow::Result<ClientConfig> {
    let builder = ClientConfig::builder();
    let builder = match ca {
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            for root in CertificateDer::pem_file_iter(ca)
                .with_context(|| format!("reading {}", ca.display()))?
            {
                roots.add(root.with_context(|| format!("reading {}", ca.display()))?)?;
            }
            builder.with_root_certificates(roots)
        }
        None => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyPeer::new())),
    };
    Ok(match own {
        Some((chain, key)) => {
            builder.with_client_auth_cert(chain, key).context("using the client certificate")?
        }
        None => builder.with_no_client_auth(),
    })
}

/// Takes any certificate but checks that the peer holds its key. A test tool reports whom it
/// talks to; it does not decide.
#[derive(Debug)]
struct AnyPeer(Arc<CryptoProvider>);

impl AnyPeer {
    fn new() -> Self {
        Self(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
    }
}

impl ClientCertVerifier for AnyPeer {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

impl ServerCertVerifier for AnyPeer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ClientCertVerifier::verify_tls12_signature(self, message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        ClientCertVerifier::verify_tls13_signature(self, message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ClientCertVerifier::supported_verify_schemes(self)
    }
}
