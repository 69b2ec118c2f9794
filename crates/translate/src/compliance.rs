//! What a policy of compliance (`COMPLIANCE_POLICY`) leaves of TLS settings, whoever made them.

use ironsail_api::mesh::MeshConfig;
use ironsail_proto::envoy::extensions::transport_sockets::tls::v3::{
    CommonTlsContext, TlsParameters, tls_parameters::TlsProtocol,
};

/// What FIPS 140-2 approves of, of what Envoy has for TLS 1.2.
const FIPS_CIPHERS: [&str; 4] = [
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
];

/// Rules that hold for every connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compliance {
    #[default]
    None,
    /// `fips-140-2`: TLS 1.2 with approved ciphers over P-256.
    Fips,
    /// `pqc`: TLS 1.3 with a key exchange that quantum computers do not break.
    Pqc,
}

impl Compliance {
    /// What is none of the policies has no effect; whoever starts the control plane is told.
    pub fn of(config: &MeshConfig) -> Self {
        match config.compliance_policy.as_str() {
            "fips-140-2" => Self::Fips,
            "pqc" => Self::Pqc,
            _ => Self::None,
        }
    }

    pub(crate) fn enforce(self, context: &mut CommonTlsContext) {
        if self != Self::None {
            self.limit(context.tls_params.get_or_insert_with(TlsParameters::default));
        }
    }

    fn limit(self, params: &mut TlsParameters) {
        let (version, curve) = match self {
            Self::None => return,
            Self::Fips => (TlsProtocol::TlSv12, "P-256"),
            Self::Pqc => (TlsProtocol::TlSv13, "X25519MLKEM768"),
        };
        params.tls_minimum_protocol_version = version.into();
        params.tls_maximum_protocol_version = version.into();
        params.ecdh_curves = vec![curve.to_owned()];
        if self == Self::Fips {
            params.cipher_suites.retain(|cipher| FIPS_CIPHERS.contains(&cipher.as_str()));
            if params.cipher_suites.is_empty() {
                params.cipher_suites = crate::tls::alpn(&FIPS_CIPHERS);
            }
        } else {
            // Of TLS 1.3 there are no ciphers to choose from.
            params.cipher_suites.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_leaves_only_what_it_allows() {
        let wide = TlsParameters {
            tls_minimum_protocol_version: TlsProtocol::TlSv10.into(),
            cipher_suites: vec!["AES128-SHA".into(), FIPS_CIPHERS[1].into()],
            ecdh_curves: vec!["X25519".into()],
            ..Default::default()
        };
        let limited = |policy: &str| {
            let config =
                MeshConfig { compliance_policy: policy.to_owned(), ..MeshConfig::default() };
            let tls_params = Some(wide.clone());
            let mut context = CommonTlsContext { tls_params, ..Default::default() };
            Compliance::of(&config).enforce(&mut context);
            context.tls_params.unwrap()
        };
        assert_eq!(limited(""), wide);
        let fips = limited("fips-140-2");
        assert_eq!(fips.cipher_suites, [FIPS_CIPHERS[1]]);
        assert_eq!((fips.ecdh_curves.len(), &*fips.ecdh_curves[0]), (1, "P-256"));
        let twelve: i32 = TlsProtocol::TlSv12.into();
        assert_eq!(fips.tls_maximum_protocol_version, twelve);
        let pqc = limited("pqc");
        assert_eq!(pqc.ecdh_curves, ["X25519MLKEM768"]);
        let thirteen: i32 = TlsProtocol::TlSv13.into();
        assert_eq!(pqc.tls_minimum_protocol_version, thirteen);
        let mut none = CommonTlsContext::default();
        Compliance::Fips.enforce(&mut none);
        assert_eq!(none.tls_params.unwrap().cipher_suites.len(), 4);
    }
}
