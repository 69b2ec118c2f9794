//! Certificates for tests: an authority of a test's own, and what it issues.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// Somebody who issues certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The root, as PEM.
    pub root: String,
}

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let root = params.self_signed(&key).expect("a root").pem();
        Self { issuer: Issuer::new(params, key), root }
    }

    /// For these names; the first is the common name too.
    pub fn issue(&self, names: &[&str]) -> Issued {
        let key = KeyPair::generate().expect("a key");
        let all = names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let mut params = CertificateParams::new(all).expect("names of hosts");
        params.distinguished_name.push(DnType::CommonName, names[0]);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Issued { certificate, key: key.serialize_pem() }
    }
}
