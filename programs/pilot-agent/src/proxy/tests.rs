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

    /// The list of certificates with these serial numbers as taken back.
    pub(crate) fn crl(&self, serials: &[u64]) -> String {
        let revoked = |serial: &u64| rcgen::RevokedCertParams {
            serial_number: (*serial).into(),
            revocation_time: rcgen::date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = rcgen::CertificateRevocationListParams {
            this_update: rcgen::date_time_ymd(2024, 1, 1),
            next_update: rcgen::date_time_ymd(4000, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: rcgen::KeyIdMethod::Sha256,
        };
        params.signed_by(&self.0).unwrap().pem().unwrap()
    }

    pub(crate) fn credential(&self, name: &str) -> ironsail_identity::Credential {
        let (chain, key) = self.leaf(name);
        ironsail_identity::Credential::from_pem(chain.as_bytes(), key.as_bytes()).unwrap()
    }

    pub(crate) fn bundle(&self) -> ironsail_identity::RootBundle {
        ironsail_identity::RootBundle::from_pem(self.root().as_bytes()).unwrap()
    }
}
