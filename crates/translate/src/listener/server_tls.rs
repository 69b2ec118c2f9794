//! TLS that a listener terminates: the mesh's own with its settings, or a user's with credentials.
//!
//! In: resolved settings. Out: Envoy's contexts. Credentials come by SDS: from the control plane by
//! the credential's name, from the agent by the files' names.

use ironsail_api::istio::networking::{ServerTlsMode, ServerTlsSettings, TlsProtocol as Protocol};
use ironsail_api::mesh::MeshConfig;
use ironsail_proto::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, DownstreamTlsContext, SdsSecretConfig,
    TlsParameters, common_tls_context::ValidationContextType, tls_parameters::TlsProtocol,
};
use ironsail_proto::google::protobuf::BoolValue;

use crate::compliance::Compliance;
use crate::filter::settings::MeshTls;
use crate::tls;

/// Behind the name of a credential: only the roots of it.
const CA_SUFFIX: &str = "-cacert";

/// What Istio's sidecars offer besides TLS 1.3's own.
const MESH_CIPHERS: &[&str] = &[
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "AES256-GCM-SHA384",
    "AES128-GCM-SHA256",
];

/// TLS of a Gateway's server, or of a Sidecar's ingress port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServerTls {
    pub mode: ServerMode,
    pub credential: Credential,
    /// Further Secrets, with keys of other kinds.
    pub more: Vec<String>,
    /// A Secret with the roots of clients, if they are not with the certificate.
    pub roots: String,
    pub subject_alt_names: Vec<String>,
    /// Hashes that a client's certificate must have: of the key, of the whole.
    pub spki: Vec<String>,
    pub hashes: Vec<String>,
    /// As Envoy numbers them; 0 leaves it to Envoy.
    pub min_version: Version,
    pub max_version: Version,
    pub cipher_suites: Vec<String>,
    pub curves: Vec<String>,
    pub compliance: Compliance,
}

/// What the mesh says about TLS of servers that do not say it themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct TlsDefaults<'a> {
    pub curves: &'a [String],
    pub cipher_suites: &'a [String],
    pub compliance: Compliance,
}

impl<'a> TlsDefaults<'a> {
    pub fn of(config: &'a MeshConfig) -> Self {
        let tls = config.tls_defaults.as_ref();
        Self {
            curves: tls.map_or(&[], |tls| &tls.ecdh_curves),
            cipher_suites: tls.map_or(&[], |tls| &tls.cipher_suites),
            compliance: Compliance::of(config),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerMode {
    Simple,
    Mutual,
    OptionalMutual,
    IstioMutual,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    #[default]
    Auto,
    V10,
    V11,
    V12,
    V13,
}

/// Where certificate, key and roots are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Credential {
    /// Of a Secret: the control plane serves it.
    Name(String),
    /// Files beside the proxy: the agent serves them.
    Files { certificate: String, key: String, roots: String },
    /// The workload's own.
    Workload,
}

impl ServerTls {
    /// None if nothing is terminated.
    pub fn of(tls: &ServerTlsSettings, mesh: &TlsDefaults<'_>) -> Option<Self> {
        let mode = match tls.mode {
            ServerTlsMode::Passthrough | ServerTlsMode::AutoPassthrough => return None,
            ServerTlsMode::Simple => ServerMode::Simple,
            ServerTlsMode::Mutual => ServerMode::Mutual,
            ServerTlsMode::IstioMutual => ServerMode::IstioMutual,
            ServerTlsMode::OptionalMutual => ServerMode::OptionalMutual,
        };
        let names: Vec<&String> = tls
            .credential_names
            .iter()
            .chain(Some(&tls.credential_name))
            .filter(|n| !n.is_empty())
            .collect();
        let credential = match (mode, names.first()) {
            (ServerMode::IstioMutual, _) => Credential::Workload,
            (_, Some(name)) => Credential::Name(name.to_string()),
            (_, None) => Credential::Files {
                certificate: tls.server_certificate.clone(),
                key: tls.private_key.clone(),
                roots: tls.ca_certificates.clone(),
            },
        };
        let more = names.iter().skip(1).map(ToString::to_string).collect();
        Some(Self {
            mode,
            credential,
            more,
            roots: tls.ca_cert_credential_name.clone(),
            subject_alt_names: tls.subject_alt_names.clone(),
            spki: tls.verify_certificate_spki.clone(),
            hashes: tls.verify_certificate_hash.clone(),
            min_version: Version::of(tls.min_protocol_version),
            max_version: Version::of(tls.max_protocol_version),
            cipher_suites: match tls.cipher_suites.is_empty() {
                true => mesh.cipher_suites.to_vec(),
                false => tls.cipher_suites.clone(),
            },
            curves: match tls.ecdh_curves.is_empty() {
                true => mesh.curves.to_vec(),
                false => tls.ecdh_curves.clone(),
            },
            compliance: mesh.compliance,
        })
    }

    /// `plain_tcp`: what is inside is not HTTP.
    pub fn context(&self, plain_tcp: bool) -> DownstreamTlsContext {
        let requires = matches!(self.mode, ServerMode::Mutual | ServerMode::IstioMutual);
        let validates = requires || self.mode == ServerMode::OptionalMutual;
        let mut common = match (&self.credential, self.mode) {
            (_, ServerMode::IstioMutual) | (Credential::Workload, _) => self.workload(validates),
            (Credential::Name(name), _) => {
                let name = secret_name(name);
                let roots = validates.then(|| match self.roots.as_str() {
                    "" => tls::control_plane_secret(&format!("{name}{CA_SUFFIX}")),
                    roots => {
                        tls::control_plane_secret(&format!("{}{CA_SUFFIX}", secret_name(roots)))
                    }
                });
                let mut common = self.secrets(tls::control_plane_secret(&name), roots);
                let more =
                    self.more.iter().map(|name| tls::control_plane_secret(&secret_name(name)));
                common.tls_certificate_sds_secret_configs.extend(more);
                common
            }
            (Credential::Files { certificate, key, roots }, _) => {
                let own = format!("file-cert:{certificate}~{key}");
                let roots = validates.then(|| format!("file-root:{roots}"));
                self.secrets(tls::agent_secret(&own), roots.map(|r| tls::agent_secret(&r)))
            }
        };
        common.alpn_protocols = match plain_tcp && self.mode != ServerMode::IstioMutual {
            true => Vec::new(),
            false => tls::alpn(tls::ALPN_HTTP),
        };
        if self.mode != ServerMode::IstioMutual {
            self.parameters(&mut common);
        }
        self.compliance.enforce(&mut common);
        DownstreamTlsContext {
            common_tls_context: Some(common),
            require_client_certificate: Some(BoolValue { value: requires }),
            ..Default::default()
        }
    }

    fn workload(&self, validates: bool) -> CommonTlsContext {
        let roots = validates.then(|| tls::agent_secret(tls::SDS_ROOT));
        self.secrets(tls::agent_secret(tls::SDS_DEFAULT), roots)
    }

    fn secrets(&self, own: SdsSecretConfig, roots: Option<SdsSecretConfig>) -> CommonTlsContext {
        let sans: Vec<_> = self.subject_alt_names.iter().map(|n| tls::san(n)).collect();
        let mut validation = roots.map(|roots| tls::combined(roots, sans));
        if let Some(ValidationContextType::CombinedValidationContext(combined)) = &mut validation {
            let rules = combined
                .default_validation_context
                .get_or_insert_with(CertificateValidationContext::default);
            rules.verify_certificate_spki.clone_from(&self.spki);
            rules.verify_certificate_hash.clone_from(&self.hashes);
        }
        CommonTlsContext {
            tls_certificate_sds_secret_configs: vec![own],
            validation_context_type: validation,
            ..Default::default()
        }
    }

    fn parameters(&self, common: &mut CommonTlsContext) {
        let own = TlsParameters {
            tls_minimum_protocol_version: self.min_version.wire().into(),
            tls_maximum_protocol_version: self.max_version.wire().into(),
            cipher_suites: self.cipher_suites.clone(),
            ecdh_curves: self.curves.clone(),
            ..Default::default()
        };
        common.tls_params = (own != TlsParameters::default()).then_some(own);
    }
}

/// `NAME` is a Secret of the gateway's namespace; with a scheme it says itself what it is.
fn secret_name(credential: &str) -> String {
    match credential.contains("://") {
        true => credential.to_owned(),
        false => format!("kubernetes://{credential}"),
    }
}

impl Version {
    fn of(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Auto => Self::Auto,
            Protocol::V1_0 => Self::V10,
            Protocol::V1_1 => Self::V11,
            Protocol::V1_2 => Self::V12,
            Protocol::V1_3 => Self::V13,
        }
    }

    fn wire(self) -> TlsProtocol {
        match self {
            Self::Auto => TlsProtocol::TlsAuto,
            Self::V10 => TlsProtocol::TlSv10,
            Self::V11 => TlsProtocol::TlSv11,
            Self::V12 => TlsProtocol::TlSv12,
            Self::V13 => TlsProtocol::TlSv13,
        }
    }
}

/// What the mesh says about the mTLS of all its servers.
pub(super) fn apply_mesh(context: &mut DownstreamTlsContext, mesh: &MeshTls) {
    let common = context.common_tls_context.get_or_insert_with(CommonTlsContext::default);
    let params = common.tls_params.get_or_insert_with(TlsParameters::default);
    params.cipher_suites = match mesh.cipher_suites.is_empty() {
        true => tls::alpn(MESH_CIPHERS),
        false => mesh.cipher_suites.clone(),
    };
    if mesh.tls13_only {
        params.tls_minimum_protocol_version = TlsProtocol::TlSv13.into();
    }
    mesh.compliance.enforce(common);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(mode: ServerMode, credential: Credential) -> ServerTls {
        ServerTls {
            mode,
            credential,
            more: Vec::new(),
            roots: String::new(),
            subject_alt_names: Vec::new(),
            spki: Vec::new(),
            hashes: Vec::new(),
            min_version: Version::Auto,
            max_version: Version::Auto,
            cipher_suites: Vec::new(),
            curves: Vec::new(),
            compliance: Compliance::None,
        }
    }

    fn secrets(tls: &ServerTls) -> (Vec<String>, Option<String>, bool) {
        let context = tls.context(false);
        let common = context.common_tls_context.unwrap();
        let own = common.tls_certificate_sds_secret_configs.iter().map(|s| s.name.clone());
        let roots = match common.validation_context_type {
            Some(ValidationContextType::CombinedValidationContext(c)) => {
                c.validation_context_sds_secret_config.map(|s| s.name)
            }
            _ => None,
        };
        (own.collect(), roots, context.require_client_certificate.unwrap().value)
    }

    #[test]
    fn credentials_are_named_as_istio_names_them() {
        let name = || Credential::Name("web".into());
        let own = || vec!["kubernetes://web".to_owned()];
        assert_eq!(secrets(&server(ServerMode::Simple, name())), (own(), None, false));
        let roots = || Some("kubernetes://web-cacert".to_owned());
        assert_eq!(secrets(&server(ServerMode::Mutual, name())), (own(), roots(), true));
        assert_eq!(secrets(&server(ServerMode::OptionalMutual, name())), (own(), roots(), false));
        let files = Credential::Files {
            certificate: "/c.pem".into(),
            key: "/k.pem".into(),
            roots: "/r.pem".into(),
        };
        assert_eq!(
            secrets(&server(ServerMode::Mutual, files)),
            (vec!["file-cert:/c.pem~/k.pem".into()], Some("file-root:/r.pem".into()), true)
        );
        assert_eq!(
            secrets(&server(ServerMode::IstioMutual, Credential::Workload)),
            (vec!["default".into()], Some("ROOTCA".into()), true)
        );
    }
}
