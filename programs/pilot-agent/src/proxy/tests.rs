//! For tests: a root of their own, and certificates of it.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose, SanType,
};

/// A root that signs whatever a test wants.
pub(crate) struct Mint(CertifiedIssuer<'static, KeyPair>);

impl Mint {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn root(&self) -> String {
        self.0.pem()
    }

    /// Certificate and key for a name, or for a workload if it is `spiffe://…`.
    pub(crate) fn leaf(&self, name: &str) -> (String, String) {
        let name = match name.starts_with("spiffe://") {
            true => SanType::URI(name.try_into().unwrap()),
            false => SanType::DnsName(name.try_into().unwrap()),
        };
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![name];
        let key = KeyPair::generate().unwrap();
        let leaf = params.signed_by(&key, &self.0).unwrap();
        (leaf.pem(), key.serialize_pem())
    }

    pub(crate) fn credential(&self, name: &str) -> ironsail_identity::Credential {
        let (chain, key) = self.leaf(name);
        ironsail_identity::Credential::from_pem(chain.as_bytes(), key.as_bytes()).unwrap()
    }

    pub(crate) fn bundle(&self) -> ironsail_identity::RootBundle {
        ironsail_identity::RootBundle::from_pem(self.root().as_bytes()).unwrap()
    }
}
