//! TLS contexts of both sides of a proxy, and where it gets their secrets.
//!
//! In: names of secrets, server names, names that a peer may have. Out: Envoy's contexts and transport
//! sockets. `default` and `ROOTCA` come from the agent beside the proxy; credentials of gateways come
//! from the control plane itself. The protocol `istio-peer-exchange` is never offered: it needs a
//! filter that stock Envoy does not have.

use std::net::IpAddr;

use ironsail_proto::envoy::config::core::v3::{
    AggregatedConfigSource, ApiConfigSource, ApiVersion, ConfigSource, GrpcService,
    TransportSocket, api_config_source::ApiType, config_source::ConfigSourceSpecifier,
    grpc_service, transport_socket::ConfigType,
};
use ironsail_proto::envoy::extensions::transport_sockets::raw_buffer::v3::RawBuffer;
use ironsail_proto::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, DownstreamTlsContext, SdsSecretConfig,
    SubjectAltNameMatcher, TlsParameters, UpstreamTlsContext,
    common_tls_context::{CombinedCertificateValidationContext, ValidationContextType},
    subject_alt_name_matcher::SanType,
    tls_parameters::TlsProtocol,
};
use ironsail_proto::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
use ironsail_proto::google::protobuf::{BoolValue, Duration};
use ironsail_proto::{Name, pack};

/// The workload's own certificate, from its agent.
pub const SDS_DEFAULT: &str = "default";
/// The roots that the mesh trusts, from the agent.
pub const SDS_ROOT: &str = "ROOTCA";
/// The cluster of the proxy's bootstrap behind which the agent serves secrets.
pub const SDS_CLUSTER: &str = "sds-grpc";

pub const TLS_SOCKET: &str = "envoy.transport_sockets.tls";
pub const RAW_SOCKET: &str = "envoy.transport_sockets.raw_buffer";

/// In-mesh traffic whose protocol on the wire is not fixed.
pub const ALPN_MESH: &[&str] = &["istio"];
/// In-mesh HTTP/2.
pub const ALPN_MESH_H2: &[&str] = &["istio", "h2"];
/// HTTP/2 to a server outside of the mesh.
pub const ALPN_H2: &[&str] = &["h2"];
/// What a server of HTTP offers.
pub const ALPN_HTTP: &[&str] = &["h2", "http/1.1"];
/// What the filter chain for HTTP in mTLS matches: a client of the mesh says so.
pub const ALPN_MESH_MATCH: &[&str] =
    &["istio", "istio-peer-exchange", "istio-http/1.0", "istio-http/1.1", "istio-h2"];
/// The same for HTTP.
pub const ALPN_MESH_HTTP_MATCH: &[&str] = &["istio-http/1.0", "istio-http/1.1", "istio-h2"];

/// Discovery through the stream that the proxy already has.
pub fn ads() -> ConfigSource {
    ConfigSource {
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        initial_fetch_timeout: Some(Duration { seconds: 0, nanos: 0 }),
        resource_api_version: ApiVersion::V3.into(),
        ..Default::default()
    }
}

/// A secret from the agent beside the proxy.
pub fn agent_secret(name: &str) -> SdsSecretConfig {
    let service = GrpcService {
        target_specifier: Some(grpc_service::TargetSpecifier::EnvoyGrpc(grpc_service::EnvoyGrpc {
            cluster_name: SDS_CLUSTER.into(),
            ..Default::default()
        })),
        ..Default::default()
    };
    let source = ApiConfigSource {
        api_type: ApiType::Grpc.into(),
        transport_api_version: ApiVersion::V3.into(),
        set_node_on_first_message_only: true,
        grpc_services: vec![service],
        ..Default::default()
    };
    SdsSecretConfig {
        name: name.to_owned(),
        sds_config: Some(ConfigSource {
            config_source_specifier: Some(ConfigSourceSpecifier::ApiConfigSource(source)),
            initial_fetch_timeout: Some(Duration { seconds: 0, nanos: 0 }),
            resource_api_version: ApiVersion::V3.into(),
            ..Default::default()
        }),
    }
}

/// A secret that the control plane serves: `kubernetes://NAME` and the like.
pub fn control_plane_secret(name: &str) -> SdsSecretConfig {
    let sds_config = ConfigSource { initial_fetch_timeout: None, ..ads() };
    SdsSecretConfig { name: name.to_owned(), sds_config: Some(sds_config) }
}

/// TLS 1.2 or later. Envoy's own lower bound for clients is the same; it is written for readers.
pub fn parameters() -> TlsParameters {
    TlsParameters {
        tls_minimum_protocol_version: TlsProtocol::TlSv12.into(),
        tls_maximum_protocol_version: TlsProtocol::TlSv13.into(),
        ..Default::default()
    }
}

/// How keys are exchanged between our own ends: so that a connection that somebody records today stays
/// unreadable when there are quantum computers; with the others for peers that cannot do that.
const MESH_CURVES: &[&str] = &["X25519MLKEM768", "X25519", "P-256"];

/// The same for the mesh's own mTLS.
pub fn mesh_parameters() -> TlsParameters {
    TlsParameters { ecdh_curves: alpn(MESH_CURVES), ..parameters() }
}

/// The owned form of an ALPN list.
pub fn alpn(protocols: &[&str]) -> Vec<String> {
    protocols.iter().map(|&p| p.to_owned()).collect()
}

/// A peer whose name is exactly `name`: an identity, an address, a mail address or a DNS name.
pub fn san(name: &str) -> SubjectAltNameMatcher {
    let kind = if name.contains("://") {
        SanType::Uri
    } else if name.parse::<IpAddr>().is_ok() {
        SanType::IpAddress
    } else if name.contains('@') {
        SanType::Email
    } else {
        SanType::Dns
    };
    matcher(kind, MatchPattern::Exact(name.to_owned()))
}

/// Any identity whose text starts with `prefix`, such as `spiffe://cluster.local/`.
pub fn san_prefix(prefix: &str) -> SubjectAltNameMatcher {
    matcher(SanType::Uri, MatchPattern::Prefix(prefix.to_owned()))
}

fn matcher(kind: SanType, pattern: MatchPattern) -> SubjectAltNameMatcher {
    SubjectAltNameMatcher {
        san_type: kind.into(),
        matcher: Some(StringMatcher { match_pattern: Some(pattern), ..Default::default() }),
        ..Default::default()
    }
}

/// A certificate from `own`, and peers that the roots from `root` vouch for and that `sans` match.
/// No `sans`: every name that the roots vouch for.
pub fn mutual(
    own: SdsSecretConfig,
    root: SdsSecretConfig,
    sans: Vec<SubjectAltNameMatcher>,
    alpn_protocols: Vec<String>,
) -> CommonTlsContext {
    CommonTlsContext {
        tls_params: Some(mesh_parameters()),
        tls_certificate_sds_secret_configs: vec![own],
        alpn_protocols,
        validation_context_type: Some(combined(root, sans)),
        ..Default::default()
    }
}

/// Peers that the roots from `root` vouch for and that `sans` match.
pub fn combined(root: SdsSecretConfig, sans: Vec<SubjectAltNameMatcher>) -> ValidationContextType {
    let rules =
        CertificateValidationContext { match_typed_subject_alt_names: sans, ..Default::default() };
    ValidationContextType::CombinedValidationContext(CombinedCertificateValidationContext {
        default_validation_context: Some(rules),
        validation_context_sds_secret_config: Some(root),
        ..Default::default()
    })
}

/// The client half of the mesh's own mTLS.
pub fn mesh_client<'a>(
    sni: &str,
    identities: impl IntoIterator<Item = &'a str>,
    protocols: &[&str],
) -> UpstreamTlsContext {
    let sans = identities.into_iter().map(san).collect();
    UpstreamTlsContext {
        common_tls_context: Some(mutual(
            agent_secret(SDS_DEFAULT),
            agent_secret(SDS_ROOT),
            sans,
            alpn(protocols),
        )),
        sni: sni.to_owned(),
        ..Default::default()
    }
}

/// The server half: a client certificate of one of `trust_domains` is required.
pub fn mesh_server<'a>(
    trust_domains: impl IntoIterator<Item = &'a str>,
    protocols: &[&str],
) -> DownstreamTlsContext {
    let sans = trust_domains.into_iter().map(|d| san_prefix(&format!("spiffe://{d}/"))).collect();
    DownstreamTlsContext {
        common_tls_context: Some(mutual(
            agent_secret(SDS_DEFAULT),
            agent_secret(SDS_ROOT),
            sans,
            alpn(protocols),
        )),
        require_client_certificate: Some(BoolValue { value: true }),
        ..Default::default()
    }
}

/// Either context as a transport socket.
pub fn socket<C: Name>(context: &C) -> TransportSocket {
    TransportSocket {
        name: TLS_SOCKET.into(),
        config_type: Some(ConfigType::TypedConfig(pack(context))),
    }
}

/// No TLS at all.
pub fn raw_socket() -> TransportSocket {
    TransportSocket {
        name: RAW_SOCKET.into(),
        config_type: Some(ConfigType::TypedConfig(pack(&RawBuffer {}))),
    }
}

/// Where a secret comes from.
pub use ironsail_proto::envoy::extensions::transport_sockets::tls::v3::SdsSecretConfig as SecretSource;

/// Of the secret with the roots that belong to a credential.
pub const CA_SUFFIX: &str = "-cacert";

/// A `credentialName` as a secret's name: a plain one is a Kubernetes Secret in the proxy's namespace.
pub fn credential(name: &str) -> String {
    if name.contains("://") { name.to_owned() } else { format!("kubernetes://{name}") }
}
