//! Clusters: the endpoints that a proxy may choose from, and what it says to each.

use std::net::IpAddr;

use ironsail_proto::envoy::config::cluster::v3::Cluster;
use ironsail_proto::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use ironsail_proto::envoy::config::core::v3::{
    HealthStatus, Metadata, SocketAddress, TransportSocket, address, socket_address::PortSpecifier,
    transport_socket,
};
use ironsail_proto::envoy::config::endpoint::v3::{LbEndpoint, lb_endpoint::HostIdentifier};
use ironsail_proto::envoy::extensions::transport_sockets::proxy_protocol::v3::ProxyProtocolUpstreamTransport;
use ironsail_proto::envoy::extensions::transport_sockets::tls::v3::{
    CommonTlsContext, UpstreamTlsContext, common_tls_context::ValidationContextType,
};
use ironsail_proto::envoy::r#type::matcher::v3::StringMatcher;
use ironsail_proto::google::protobuf::{Struct, value::Kind};
use ironsail_proto::unpack;

use crate::config::{Config, Health};

const SOCKET_MATCH: &str = "envoy.transport_socket_match";

/// How a proxy speaks to an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Tls {
    Plain,
    /// The mesh's own mTLS.
    Mesh {
        sni: String,
        alpn: Vec<String>,
        names: Vec<StringMatcher>,
    },
    /// What a DestinationRule asks for.
    Own {
        sni: String,
        alpn: Vec<String>,
    },
}

/// One endpoint.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: String,
    pub(crate) ip: Option<IpAddr>,
    pub(crate) port: u16,
    pub(crate) tls: Tls,
    /// Why it is not used.
    pub(crate) unusable: Option<&'static str>,
}

pub(crate) fn discovery(cluster: &Cluster) -> Option<DiscoveryType> {
    match cluster.cluster_discovery_type.as_ref() {
        None => Some(DiscoveryType::Static),
        Some(ClusterDiscoveryType::Type(kind)) => DiscoveryType::try_from(*kind).ok(),
        Some(ClusterDiscoveryType::ClusterType(_)) => None,
    }
}

/// All endpoints of a cluster, with those that are not used.
pub(crate) fn endpoints(config: &Config, cluster: &Cluster) -> Vec<Endpoint> {
    let asked = cluster.eds_cluster_config.as_ref().map(|eds| eds.service_name.as_str());
    let asked = asked.filter(|name| !name.is_empty()).unwrap_or(&cluster.name);
    let assignment = config.endpoints.get(asked).or(cluster.load_assignment.as_ref());
    let all = assignment.into_iter().flat_map(|one| &one.endpoints).flat_map(|l| &l.lb_endpoints);
    all.filter_map(|one| endpoint(config, cluster, one)).collect()
}

fn endpoint(config: &Config, cluster: &Cluster, one: &LbEndpoint) -> Option<Endpoint> {
    let Some(HostIdentifier::Endpoint(host)) = &one.host_identifier else { return None };
    let address::Address::SocketAddress(socket) = host.address.as_ref()?.address.as_ref()? else {
        return None;
    };
    let port = port(socket)?;
    let address = match socket.address.contains(':') {
        true => format!("[{}]:{port}", socket.address),
        false => format!("{}:{port}", socket.address),
    };
    let found = config.health.get(&(cluster.name.clone(), format!("{}:{port}", socket.address)));
    let said = |health| found.is_some_and(|found| found.contains(&health));
    let told = !matches!(
        HealthStatus::try_from(one.health_status),
        Ok(HealthStatus::Unknown | HealthStatus::Healthy | HealthStatus::Degraded)
    );
    let unusable = if said(Health::Ejected) {
        Some("ejected by outlier detection")
    } else if said(Health::Checked) {
        Some("fails its health check")
    } else if told || said(Health::Told) {
        Some("not ready")
    } else {
        None
    };
    let tls = tls(socket_of(cluster, one.metadata.as_ref()));
    Some(Endpoint { ip: socket.address.parse().ok(), address, port, tls, unusable })
}

pub(crate) fn port(socket: &SocketAddress) -> Option<u16> {
    match socket.port_specifier.as_ref()? {
        PortSpecifier::PortValue(port) => u16::try_from(*port).ok(),
        PortSpecifier::NamedPort(_) => None,
    }
}

/// The first transport socket whose labels the endpoint has.
fn socket_of<'a>(cluster: &'a Cluster, metadata: Option<&Metadata>) -> Option<&'a TransportSocket> {
    let own = metadata.and_then(|metadata| metadata.filter_metadata.get(SOCKET_MATCH));
    let fits = |wanted: &Struct| {
        wanted
            .fields
            .iter()
            .all(|(key, value)| own.and_then(|own| own.fields.get(key)) == Some(value))
    };
    let mut matches = cluster.transport_socket_matches.iter();
    let found = matches.find(|one| fits(&one.r#match.clone().unwrap_or_default()));
    match found {
        Some(found) => found.transport_socket.as_ref(),
        None => cluster.transport_socket.as_ref(),
    }
}

/// How the proxy speaks where endpoints are not listed.
pub(crate) fn usual_tls(cluster: &Cluster) -> Tls {
    tls(cluster.transport_socket.as_ref())
}

fn tls(socket: Option<&TransportSocket>) -> Tls {
    let Some(socket) = socket else { return Tls::Plain };
    let Some(transport_socket::ConfigType::TypedConfig(config)) = &socket.config_type else {
        return Tls::Plain;
    };
    if let Ok(wrapped) = unpack::<ProxyProtocolUpstreamTransport>(config) {
        return tls(wrapped.transport_socket.as_ref());
    }
    let Ok(context) = unpack::<UpstreamTlsContext>(config) else { return Tls::Plain };
    let common = context.common_tls_context.unwrap_or_default();
    let (sni, alpn) = (context.sni.clone(), common.alpn_protocols.clone());
    let own = &common.tls_certificate_sds_secret_configs;
    match own.iter().any(|secret| secret.name == "default") {
        true => Tls::Mesh { sni, alpn, names: names(&common) },
        false => Tls::Own { sni, alpn },
    }
}

fn names(common: &CommonTlsContext) -> Vec<StringMatcher> {
    let rules = match &common.validation_context_type {
        Some(ValidationContextType::CombinedValidationContext(both)) => {
            both.default_validation_context.as_ref()
        }
        Some(ValidationContextType::ValidationContext(one)) => Some(one),
        _ => None,
    };
    let all = rules.into_iter().flat_map(|rules| &rules.match_typed_subject_alt_names);
    all.filter_map(|name| name.matcher.clone()).collect()
}

/// A text below `istio` in metadata.
pub(crate) fn about<'a>(metadata: Option<&'a Metadata>, key: &str) -> Option<&'a str> {
    let fields = metadata?.filter_metadata.get("istio")?;
    match fields.fields.get(key)?.kind.as_ref()? {
        Kind::StringValue(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ironsail_proto::from_json;
    use serde_json::json;

    fn cluster() -> Cluster {
        let secret = json!({"name": "default"});
        let tls = json!({"name": "tls", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "sni": "s", "common_tls_context": {"alpn_protocols": ["istio"],
                "tls_certificate_sds_secret_configs": [secret]}}});
        from_json(&json!({
            "name": "c",
            "transport_socket_matches": [
                {"name": "mesh", "match": {"tlsMode": "istio"}, "transport_socket": tls},
                {"name": "plain", "match": {}, "transport_socket": {"name": "raw"}},
            ],
            "load_assignment": {"cluster_name": "c", "endpoints": [{"lb_endpoints": [
                {"endpoint": {"address": {"socket_address": {"address": "10.0.0.1", "port_value": 80}}},
                 "metadata": {"filter_metadata": {"envoy.transport_socket_match": {"tlsMode": "istio"}}}},
                {"endpoint": {"address": {"socket_address": {"address": "10.0.0.2", "port_value": 80}}},
                 "health_status": "UNHEALTHY"},
            ]}]}
        }))
        .unwrap()
    }

    #[test]
    fn labels_of_an_endpoint_choose_how_it_is_spoken_to() {
        let mut config = Config::default();
        let found = endpoints(&config, &cluster());
        assert!(matches!(&found[0].tls, Tls::Mesh { sni, .. } if sni == "s"));
        assert_eq!((found[0].unusable, found[1].unusable), (None, Some("not ready")));
        assert_eq!(found[1].tls, Tls::Plain);
        let key = ("c".to_owned(), "10.0.0.1:80".to_owned());
        config.health.insert(key, [Health::Ejected].into());
        assert!(endpoints(&config, &cluster())[0].unusable.is_some());
    }
}
