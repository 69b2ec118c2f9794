//! Settings from the mesh configuration, the proxy's own, and what the proxy says of itself.

use std::collections::BTreeMap;
use std::time::Duration;

use ironsail_api::mesh::{
    AccessLogEncoding, ForwardClientCertDetails, MeshConfig, MeshTlsProtocol, NormalizationType,
    ProxyConfig, ProxyCustomTag, ProxyHeaders, ProxyTracing,
};
use ironsail_model::{Mesh, ProxyClass};

use super::{
    Access, AccessFormat, CertDetails, Egress, Family, ForwardedCert, Headers, Interception,
    MeshTls, PathNormalization, Server, Settings, Sided, Sink, Tag, Tracing,
};

/// Of all requests, in ten-thousandths of a percent, unless something else is said.
const SAMPLING: u32 = 10_000;

impl Settings {
    /// `egress` is decided by the proxy's scope.
    pub fn resolve(mesh: &Mesh, class: &ProxyClass, egress: Egress) -> Self {
        let config = &mesh.config;
        let own = match &class.proxy_config {
            Some(own) => config.default_config.clone().overlaid(own).value,
            None => config.default_config.clone(),
        };
        let port = |port: i32, default: u16| {
            u16::try_from(port).ok().filter(|p| *p > 0).unwrap_or(default)
        };
        Self {
            access: mesh_access(config),
            tracing: mesh_tracing(mesh, class),
            metrics: None,
            paths: paths(config),
            headers: headers(&own),
            family: family(class),
            interception: match class.interception {
                ironsail_model::proxy::Interception::Redirect => Interception::Redirect,
                ironsail_model::proxy::Interception::Tproxy => Interception::Tproxy,
                ironsail_model::proxy::Interception::None => Interception::None,
            },
            egress,
            outbound_port: port(config.proxy_listen_port, ironsail_names::port::OUTBOUND),
            inbound_port: port(config.proxy_inbound_listen_port, ironsail_names::port::INBOUND),
            detection_timeout: config.protocol_detection_timeout.unwrap_or_default(),
            idle_timeout: class.idle_timeout.as_deref().and_then(go_duration),
            http10: class.http10,
            exact_balance_inbound: flag(class, "INBOUND_LISTENER_EXACT_BALANCE"),
            exact_balance_outbound: flag(class, "OUTBOUND_LISTENER_EXACT_BALANCE"),
            unprivileged: class.unprivileged,
            mtls: mesh_tls(mesh),
            dynamic_names: false,
            outbound_stat_name: config.outbound_cluster_stat_name.clone(),
            inbound_stat_name: config.inbound_cluster_stat_name.clone(),
        }
    }
}

/// The addresses of a proxy, by which listeners are bound.
pub fn family(class: &ProxyClass) -> Family {
    match (class.ipv4, class.ipv6) {
        (true, true) => Family::Dual,
        (false, true) => Family::V6,
        (_, false) => Family::V4,
    }
}

fn flag(class: &ProxyClass, name: &str) -> bool {
    class.metadata.get(name).is_some_and(|value| value == "true" || value == "1")
}

/// `1h`, `1m30s`, `500ms`, as Go reads it.
fn go_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = 0.0;
    if rest.is_empty() || rest.len() > 40 {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let unit_end =
            rest[end..].find(|c: char| c.is_ascii_digit()).map_or(rest.len(), |i| end + i);
        let unit = match &rest[end..unit_end] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total += number * unit;
        rest = &rest[unit_end..];
    }
    Duration::try_from_secs_f64(total).ok()
}

/// The mesh's older settings of logs, which count while nobody names a provider.
fn mesh_access(config: &MeshConfig) -> Vec<Access> {
    let listeners = !config.disable_envoy_listener_log;
    let mut sinks = Vec::new();
    if !config.access_log_file.is_empty() {
        let path = config.access_log_file.clone();
        sinks.push(Sink::File { path, format: AccessFormat::of_mesh(config), omit_empty: false });
    }
    if config.enable_envoy_access_log_service {
        sinks.push(Sink::Service);
    }
    sinks.into_iter().map(|to| Access::to(to, listeners)).collect()
}

impl AccessFormat {
    /// What the mesh says, for whoever says nothing else.
    pub(crate) fn of_mesh(config: &MeshConfig) -> Self {
        let format = config.access_log_format.clone();
        match config.access_log_encoding {
            AccessLogEncoding::Text => Self::Text(format),
            AccessLogEncoding::Json => Self::Json(format),
        }
    }
}

/// Tracing as the mesh and the proxy's own configuration have it.
pub(crate) fn mesh_tracing(mesh: &Mesh, class: &ProxyClass) -> Sided<Option<Tracing>> {
    let config = &mesh.config;
    let own = match &class.proxy_config {
        Some(own) => config.default_config.clone().overlaid(own).value,
        None => config.default_config.clone(),
    };
    let tracing = config.enable_tracing.then(|| tracing(&own, class));
    Sided { client: tracing.clone(), server: tracing }
}

fn paths(config: &MeshConfig) -> PathNormalization {
    match config.path_normalization.as_ref().map(|p| p.normalization) {
        None | Some(NormalizationType::Default | NormalizationType::Base) => {
            PathNormalization::Base
        }
        Some(NormalizationType::None) => PathNormalization::None,
        Some(NormalizationType::MergeSlashes) => PathNormalization::MergeSlashes,
        Some(NormalizationType::DecodeAndMergeSlashes) => PathNormalization::DecodeAndMergeSlashes,
    }
}

/// Tags that say who the proxy is are read from the proxy's own node, so that all proxies of the mesh
/// can share one listener.
fn tracing(own: &ProxyConfig, class: &ProxyClass) -> Tracing {
    let settings = own.tracing.clone().unwrap_or_default();
    let mut tags = BTreeMap::new();
    if settings.enable_istio_tags != Some(false) {
        let node = |path: &[&str], default: &str| Tag::Node {
            path: path.iter().map(|&p| p.to_owned()).collect(),
            default: default.to_owned(),
        };
        let label = |name: &str, default: &str| node(&["LABELS", name], default);
        let mut add = |name: &str, tag| tags.insert(format!("istio.{name}"), tag);
        add("canonical_revision", label("service.istio.io/canonical-revision", "latest"));
        add("canonical_service", label("service.istio.io/canonical-name", "unknown"));
        add("mesh_id", node(&["MESH_ID"], "unknown"));
        add("namespace", node(&["NAMESPACE"], "default"));
        add("cluster_id", Tag::Literal(class.cluster.to_string()));
        for (policy, prefix) in [("allow", "istio_dry_run_allow_"), ("deny", "istio_dry_run_deny_")]
        {
            for (name, key) in
                [("name", "shadow_effective_policy_id"), ("result", "shadow_engine_result")]
            {
                let tag = Tag::DryRun(format!("{prefix}{key}"));
                add(&format!("authorization.dry_run.{policy}_policy.{name}"), tag);
            }
        }
    }
    tags.extend(
        settings.custom_tags.iter().filter_map(|(name, tag)| Some((name.clone(), custom(tag)?))),
    );
    Tracing {
        sampling: sampling(&settings),
        max_path_length: Some(settings.max_path_tag_length).filter(|length| *length > 0),
        tags,
        provider: None,
        by_request_id: true,
    }
}

fn sampling(settings: &ProxyTracing) -> u32 {
    let percent = settings.sampling;
    if percent <= 0.0 {
        return SAMPLING;
    }
    if percent > 100.0 {
        // Istio takes what is out of range for one percent.
        return 10_000;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and a million"
    )]
    let share = (percent * 10_000.0).round() as u32;
    share
}

fn custom(tag: &ProxyCustomTag) -> Option<Tag> {
    Some(match tag {
        ProxyCustomTag::Unset => return None,
        ProxyCustomTag::Literal(literal) => Tag::Literal(literal.value.clone()),
        ProxyCustomTag::Environment(from) => {
            Tag::Environment { name: from.name.clone(), default: from.default_value.clone() }
        }
        ProxyCustomTag::Header(from) => {
            Tag::Header { name: from.name.clone(), default: from.default_value.clone() }
        }
        ProxyCustomTag::Formatter(format) => Tag::Format(format.value.clone()),
    })
}

fn headers(own: &ProxyConfig) -> Headers {
    let mut out = Headers::default();
    if let Some(topology) = &own.gateway_topology {
        out.trusted_proxies = topology.num_trusted_proxies;
        out.proxy_protocol = topology.proxy_protocol.is_some();
        if let Some(cert) = forwarded(topology.forward_client_cert_details) {
            out.gateway = cert;
        }
    }
    let Some(said) = &own.proxy_headers else { return out };
    apply(&mut out, said);
    out
}

fn apply(out: &mut Headers, said: &ProxyHeaders) {
    let off = |switch: &Option<ironsail_api::mesh::HeaderSwitch>| {
        switch.as_ref().is_some_and(|s| s.disabled == Some(true))
    };
    out.attempt_count = !off(&said.attempt_count);
    out.request_id = !off(&said.request_id);
    out.debug = !off(&said.envoy_debug_headers);
    let on = |switch: &Option<ironsail_api::mesh::HeaderEnabled>| {
        switch.as_ref().is_some_and(|s| s.enabled == Some(true))
    };
    out.preserve_case = said.preserve_http1_header_case == Some(true);
    out.forwarded_host = on(&said.x_forwarded_host);
    out.forwarded_port = on(&said.x_forwarded_port);
    if let Some(server) = &said.server {
        out.server = match (server.disabled, server.value.as_str()) {
            (Some(true), _) => Server::PassThrough,
            (_, "") => Server::Default,
            (_, name) => Server::Name(name.to_owned()),
        };
    }
    if let Some(cert) = forwarded(said.forwarded_client_cert) {
        out.forwarded = cert;
    }
    if let Some(details) = &said.set_current_client_cert_details {
        out.details = CertDetails {
            subject: details.subject.unwrap_or(true),
            cert: details.cert.unwrap_or(false),
            chain: details.chain.unwrap_or(false),
            dns: details.dns.unwrap_or(true),
            uri: details.uri.unwrap_or(true),
        };
    }
}

fn forwarded(details: ForwardClientCertDetails) -> Option<ForwardedCert> {
    Some(match details {
        ForwardClientCertDetails::Undefined => return None,
        ForwardClientCertDetails::Sanitize => ForwardedCert::Sanitize,
        ForwardClientCertDetails::ForwardOnly => ForwardedCert::ForwardOnly,
        ForwardClientCertDetails::AppendForward => ForwardedCert::AppendForward,
        ForwardClientCertDetails::SanitizeSet => ForwardedCert::SanitizeSet,
        ForwardClientCertDetails::AlwaysForwardOnly => ForwardedCert::AlwaysForwardOnly,
    })
}

fn mesh_tls(mesh: &Mesh) -> MeshTls {
    let config = &mesh.config;
    let own = config.mesh_mtls.as_ref();
    MeshTls {
        // A root may vouch for more than one mesh.
        trust_domains: mesh.trust.iter().map(ToString::to_string).collect(),
        tls13_only: own.is_some_and(|tls| tls.min_protocol_version == MeshTlsProtocol::V1_3),
        cipher_suites: own.map(|tls| tls.cipher_suites.clone()).unwrap_or_default(),
        compliance: crate::compliance::Compliance::of(config),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        let ms = |text: &str| go_duration(text).map(|d| d.as_millis());
        assert_eq!(ms("1h"), Some(3_600_000));
        assert_eq!(ms("1m30s"), Some(90_000));
        assert_eq!(ms("1.5s"), Some(1500));
        assert_eq!(ms("500ms"), Some(500));
        for bad in ["", "1", "s", "1x", "1..0s", "-1s"] {
            assert_eq!(ms(bad), None, "{bad}");
        }
    }
}
