//! TLS to the upstream: what a rule asks for, or mTLS among the mesh's own workloads.
//!
//! In: the rule's settings, what is known of the peer, what the proxy is. Out: the draft with a
//! transport socket, or one for each kind of endpoint. With settings that cannot work no peer is
//! trusted; nothing falls back to plaintext.

use ironsail_api::istio::networking::{
    ClientTlsMode, ClientTlsSettings, ProxyProtocol, ProxyProtocolVersion,
};
use ironsail_proto::envoy::config::cluster::v3::cluster::TransportSocketMatch;
use ironsail_proto::envoy::config::core::v3::{
    DataSource, ProxyProtocolConfig, TransportSocket, data_source, proxy_protocol_config,
    transport_socket::ConfigType,
};
use ironsail_proto::envoy::extensions::transport_sockets::proxy_protocol::v3::ProxyProtocolUpstreamTransport;
use ironsail_proto::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, UpstreamTlsContext,
    common_tls_context::{CombinedCertificateValidationContext, ValidationContextType},
};
use ironsail_proto::google::protobuf::Struct;
use ironsail_proto::pack;

use super::defaults::Defaults;
use super::draft::{Discovery, Draft};
use crate::{metadata, tls};

/// The other side, as far as TLS cares.
pub(crate) struct Peer {
    /// Names the service at a gateway between networks.
    pub(crate) sni: String,
    /// Who may answer.
    pub(crate) identities: Vec<String>,
    /// Declared by a ServiceEntry, whose names hold for TLS of users too.
    pub(crate) entry: bool,
    /// mTLS without being asked.
    pub(crate) automatic: bool,
}

/// This side.
#[derive(Clone, Copy)]
pub(crate) struct Client {
    pub(crate) sidecar: bool,
    /// The rule names the workloads it is for.
    pub(crate) selected: bool,
}

/// Applies `settings`; a refusal says why no peer will be trusted.
pub(crate) fn apply(
    draft: &mut Draft,
    settings: Option<&ClientTlsSettings>,
    peer: &Peer,
    client: Client,
    mesh: &Defaults<'_>,
) -> Result<(), &'static str> {
    let Some(settings) = settings else {
        if peer.automatic {
            automatic(draft, peer, mesh);
        }
        return Ok(());
    };
    let made = context(draft, settings, peer, client, mesh);
    let refusal = made.as_ref().err().copied();
    if let Some(context) = made.unwrap_or_else(|_| Some(nobody())) {
        draft.cluster.transport_socket = Some(tls::socket(&context));
    }
    refusal.map_or(Ok(()), Err)
}

fn context(
    draft: &mut Draft,
    settings: &ClientTlsSettings,
    peer: &Peer,
    client: Client,
    mesh: &Defaults<'_>,
) -> Result<Option<UpstreamTlsContext>, &'static str> {
    Ok(Some(match settings.mode {
        ClientTlsMode::Disable => return Ok(None),
        ClientTlsMode::IstioMutual => {
            let sni = if settings.sni.is_empty() { &peer.sni } else { &settings.sni };
            let sans = match settings.subject_alt_names.is_empty() {
                true => &peer.identities,
                false => &settings.subject_alt_names,
            };
            mesh_context(draft, sni, sans, mesh)
        }
        ClientTlsMode::Simple | ClientTlsMode::Mutual => {
            let named = !settings.credential_name.is_empty();
            let public = settings.credential_name.starts_with("configmap://");
            if named && !public && client.sidecar && !client.selected {
                // Every sidecar in reach of the rule would wait for a Secret it may not read.
                return Err(
                    "credentialName counts for sidecars only in a rule with a workloadSelector",
                );
            }
            user_context(draft, settings, peer, mesh)?
        }
    }))
}

/// TLS in which no peer is the right one: what was to be encrypted must not go out in the clear.
fn nobody() -> UpstreamTlsContext {
    let name = tls::san("spiffe://invalid/the-settings-of-this-destination-cannot-work");
    let common = CommonTlsContext {
        tls_params: Some(tls::parameters()),
        validation_context_type: Some(tls::combined(tls::agent_secret(tls::SDS_ROOT), vec![name])),
        ..Default::default()
    };
    UpstreamTlsContext { common_tls_context: Some(common), ..Default::default() }
}

/// mTLS to the endpoints that take it, plaintext to the others.
fn automatic(draft: &mut Draft, peer: &Peer, mesh: &Defaults<'_>) {
    let socket = tls::socket(&mesh_context(draft, &peer.sni, &peer.identities, mesh));
    if draft.discovery == Discovery::OriginalDestination {
        // Endpoints are not known, so all of them were checked beforehand.
        draft.cluster.transport_socket = Some(socket);
        return;
    }
    draft.cluster.transport_socket_matches = vec![
        TransportSocketMatch {
            name: "tlsMode-istio".into(),
            r#match: Some(metadata::structure([(metadata::TLS_MODE, metadata::text("istio"))])),
            transport_socket: Some(socket),
        },
        TransportSocketMatch {
            name: "tlsMode-disabled".into(),
            r#match: Some(Struct::default()),
            transport_socket: Some(tls::raw_socket()),
        },
    ];
}

fn mesh_context(
    draft: &mut Draft,
    sni: &str,
    sans: &[String],
    mesh: &Defaults<'_>,
) -> UpstreamTlsContext {
    let protocols = if draft.http2().is_some() { tls::ALPN_MESH_H2 } else { tls::ALPN_MESH };
    let mut context = tls::mesh_client(sni, sans.iter().map(String::as_str), protocols);
    if let Some(common) = &mut context.common_tls_context {
        mesh.compliance.enforce(common);
    }
    context
}

fn user_context(
    draft: &mut Draft,
    settings: &ClientTlsSettings,
    peer: &Peer,
    mesh: &Defaults<'_>,
) -> Result<UpstreamTlsContext, &'static str> {
    let unverified = settings.insecure_skip_verify == Some(true);
    if settings.sni.is_empty() {
        draft.upstream_http().auto_sni = true;
        if settings.subject_alt_names.is_empty() && !unverified {
            draft.upstream_http().auto_san_validation = true;
        }
    }
    let sans = match settings.subject_alt_names.is_empty() && peer.entry {
        true => &peer.identities,
        false => &settings.subject_alt_names,
    };
    let mut common = CommonTlsContext { tls_params: Some(parameters(mesh)), ..Default::default() };
    let mutual = settings.mode == ClientTlsMode::Mutual;
    let secrets = secrets(settings, mutual)?;
    common.tls_certificate_sds_secret_configs.extend(secrets.own);
    let rules = CertificateValidationContext {
        match_typed_subject_alt_names: sans.iter().map(|s| tls::san(s)).collect(),
        crl: (!settings.ca_crl.is_empty()).then(|| file(&settings.ca_crl)),
        ..Default::default()
    };
    common.validation_context_type = Some(match unverified {
        true => ValidationContextType::ValidationContext(CertificateValidationContext::default()),
        false => {
            ValidationContextType::CombinedValidationContext(CombinedCertificateValidationContext {
                default_validation_context: Some(rules),
                validation_context_sds_secret_config: Some(secrets.root),
                ..Default::default()
            })
        }
    });
    mesh.compliance.enforce(&mut common);
    if draft.http2().is_some() {
        common.alpn_protocols = tls::alpn(tls::ALPN_H2);
    }
    Ok(UpstreamTlsContext {
        common_tls_context: Some(common),
        sni: settings.sni.clone(),
        ..Default::default()
    })
}

struct Secrets {
    own: Option<tls::SecretSource>,
    root: tls::SecretSource,
}

/// From the control plane if a credential is named; files of the pod are served by its agent, which
/// notices when they change.
fn secrets(settings: &ClientTlsSettings, mutual: bool) -> Result<Secrets, &'static str> {
    if !settings.credential_name.is_empty() {
        let name = tls::credential(&settings.credential_name);
        let public = name.starts_with("configmap://");
        let root = if public { name.clone() } else { format!("{name}{}", tls::CA_SUFFIX) };
        return Ok(Secrets {
            own: mutual.then(|| tls::control_plane_secret(&name)),
            root: tls::control_plane_secret(&root),
        });
    }
    let ClientTlsSettings { client_certificate, private_key, ca_certificates, .. } = settings;
    if mutual && (client_certificate.is_empty() || private_key.is_empty()) {
        return Err("mode MUTUAL needs clientCertificate and privateKey, or credentialName");
    }
    let roots = if ca_certificates.is_empty() { "system" } else { ca_certificates };
    let own = format!("file-cert:{client_certificate}~{private_key}");
    Ok(Secrets {
        own: mutual.then(|| tls::agent_secret(&own)),
        root: tls::agent_secret(&format!("file-root:{roots}")),
    })
}

fn parameters(
    mesh: &Defaults<'_>,
) -> ironsail_proto::envoy::extensions::transport_sockets::tls::v3::TlsParameters {
    let mut parameters = tls::parameters();
    parameters.ecdh_curves.extend_from_slice(mesh.ecdh_curves);
    parameters.cipher_suites.extend_from_slice(mesh.cipher_suites);
    parameters
}

fn file(path: &str) -> DataSource {
    let specifier = Some(data_source::Specifier::Filename(path.to_owned()));
    DataSource { specifier, ..Default::default() }
}

/// Puts PROXY protocol before whatever is sent.
pub(crate) fn announce(draft: &mut Draft, settings: &ProxyProtocol) {
    let cluster = &mut draft.cluster;
    if cluster.transport_socket.is_none() && cluster.transport_socket_matches.is_empty() {
        cluster.transport_socket = Some(tls::raw_socket());
    }
    let matches = cluster.transport_socket_matches.iter_mut().map(|m| &mut m.transport_socket);
    for socket in matches.chain([&mut cluster.transport_socket]) {
        *socket = socket.take().map(|inner| wrap(inner, settings.version));
    }
}

fn wrap(inner: TransportSocket, version: ProxyProtocolVersion) -> TransportSocket {
    let version = match version {
        ProxyProtocolVersion::V1 => proxy_protocol_config::Version::V1,
        ProxyProtocolVersion::V2 => proxy_protocol_config::Version::V2,
    };
    let config = ProxyProtocolUpstreamTransport {
        config: Some(ProxyProtocolConfig { version: version.into(), ..Default::default() }),
        transport_socket: Some(inner),
        ..Default::default()
    };
    TransportSocket {
        name: "envoy.transport_sockets.upstream_proxy_protocol".into(),
        config_type: Some(ConfigType::TypedConfig(pack(&config))),
    }
}
