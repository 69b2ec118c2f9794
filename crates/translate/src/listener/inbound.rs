//! Listeners for traffic to the pod itself: `virtualInbound`, and listeners of ports that a Sidecar
//! binds for real.
//!
//! In: the ports that services or a Sidecar declare on the pod, and the mTLS mode of each. Out: one
//! listener with chains for every way in which traffic may arrive on each port.

use std::sync::Arc;

use ironsail_api::Diagnostic;
use ironsail_model::{Hashed, Protocol};
use ironsail_names::{ClusterName, INBOUND_PASSTHROUGH_CLUSTER, VIRTUAL_INBOUND};
use ironsail_proto::envoy::config::core::v3::TrafficDirection;
use ironsail_proto::envoy::config::listener::v3::{
    FilterChain, FilterChainMatch, Listener, ListenerFilter,
};
use ironsail_proto::envoy::extensions::transport_sockets::tls::v3::DownstreamTlsContext;

use super::{additional, exact_balance, server_tls::ServerTls};
use crate::filter::hcm::{Class, Manager, Routes};
use crate::filter::settings::{Interception, MeshTls, Settings, Side};
use crate::filter::{access, http, inspect, network, stats, wire};
use crate::policy::Guard;
use crate::{Translated, metadata, route, tls};

const CATCH_ALL_HTTP: &str = "virtualInbound-catchall-http";
const BLACK_HOLE: &str = "virtualInbound-blackhole";

/// Every protocol name by which a client of the mesh says what it sends in mTLS.
const MESH_ALPN: &[&str] =
    &["istio", "istio-peer-exchange", "istio-http/1.0", "istio-http/1.1", "istio-h2"];
const MESH_TCP_ALPN: &[&str] = &["istio-peer-exchange", "istio"];

/// All that an inbound listener is made of. Everything in it is resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inbound {
    pub settings: Arc<Hashed<Settings>>,
    pub kind: Kind,
    pub guard: Arc<Hashed<Guard>>,
    /// What came up when its ports were collected.
    pub told: Vec<Diagnostic>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `virtualInbound`: all ports that are reached by redirection.
    Virtual {
        ports: Vec<Port>,
        /// The mode of ports that nobody declares, by port; 0 stands for all others.
        passthrough: Vec<(u16, Mode)>,
    },
    /// A port that is bound for real.
    Bound(Box<Port>),
}

/// One declared port of the pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Port {
    /// On which the application listens; the name of the cluster has it.
    pub target: u16,
    /// As clients know it; traces and names of virtual hosts have it.
    pub number: u16,
    pub protocol: Protocol,
    /// By which traces name the destination.
    pub host: String,
    /// Addresses, the first of which is in the name.
    pub binds: Vec<String>,
    pub mode: Mode,
    /// TLS of the user's own, in the place of mTLS.
    pub tls: Option<ServerTls>,
    /// The Sidecar that declared it, as a path.
    pub config: Option<String>,
    /// For statistics, if the mesh names them by a pattern.
    pub stat_name: Option<String>,
}

/// What is let in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    Disable,
    #[default]
    Permissive,
    Strict,
}

/// How a chain treats what fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proto {
    Http,
    Tcp,
    Auto,
}

/// One way for traffic to arrive.
struct Way {
    protocols: &'static [&'static str],
    transport: &'static str,
    proto: Proto,
    terminates: bool,
}

/// A port, or the rest of all ports.
struct Target<'a> {
    port: u16,
    number: u16,
    cluster: String,
    stat_prefix: String,
    tcp_stat_prefix: String,
    host: &'a str,
    http2: bool,
    grpc_web: bool,
    names: Names<'a>,
    config: Option<&'a str>,
}

enum Names<'a> {
    Passthrough,
    Bind(&'a str),
}

impl Inbound {
    pub fn name(&self) -> String {
        match &self.kind {
            Kind::Virtual { .. } => VIRTUAL_INBOUND.to_owned(),
            Kind::Bound(port) => port.name(),
        }
    }

    pub(super) fn translate(&self, stages: &super::Stages) -> Translated<Listener> {
        Translated { value: self.build(stages), diagnostics: self.told.clone() }
    }

    fn build(&self, stages: &super::Stages) -> Listener {
        let settings: &Settings = &self.settings;
        match &self.kind {
            Kind::Virtual { ports, passthrough } => {
                let mut chains = vec![black_hole(settings, stages)];
                for (port, mode) in passthrough {
                    let target = Target::passthrough(*port);
                    let ways = ways(*mode, Proto::Auto, settings.http10);
                    let tls = mesh_tls(&settings.mtls, *mode);
                    chains.extend(target.chains(settings, stages, &ways, tls.as_ref()));
                }
                for port in ports {
                    chains.extend(port.chains(settings, stages));
                }
                let binds: Vec<&str> = settings.family.wildcards().to_vec();
                listener(settings, &self.name(), &binds, settings.inbound_port, false, chains)
            }
            Kind::Bound(port) => {
                let binds: Vec<&str> = port.binds.iter().map(String::as_str).collect();
                let chains = port.chains(settings, stages);
                listener(settings, &self.name(), &binds, port.target, true, chains)
            }
        }
    }
}

fn listener(
    settings: &Settings,
    name: &str,
    binds: &[&str],
    port: u16,
    bound: bool,
    chains: Vec<FilterChain>,
) -> Listener {
    let tproxy = !bound && settings.interception == Interception::Tproxy;
    Listener {
        name: name.to_owned(),
        address: binds.first().map(|bind| wire::address(bind, port)),
        additional_addresses: additional(binds, port),
        traffic_direction: TrafficDirection::Inbound.into(),
        continue_on_listener_filters_timeout: true,
        connection_balance_config: exact_balance(settings.exact_balance_inbound),
        transparent: tproxy.then(|| wire::flag(true)).flatten(),
        access_log: access::listener(settings, Side::Server),
        listener_filters: listener_filters(bound, tproxy, &chains),
        listener_filters_timeout: wire::span(settings.detection_timeout),
        max_connections_to_accept_per_socket_event: wire::number(1),
        filter_chains: chains,
        ..Default::default()
    }
}

fn listener_filters(bound: bool, tproxy: bool, chains: &[FilterChain]) -> Vec<ListenerFilter> {
    let mut filters = Vec::new();
    if !bound {
        filters.push(inspect::original_dst());
    }
    if tproxy {
        filters.push(inspect::original_src());
    }
    filters.extend(inspect::for_chains(chains));
    filters
}

impl Port {
    pub fn name(&self) -> String {
        format!("{}_{}", self.bind(), self.target)
    }

    fn bind(&self) -> &str {
        self.binds.first().map_or("0.0.0.0", String::as_str)
    }

    fn chains(&self, settings: &Settings, stages: &super::Stages) -> Vec<FilterChain> {
        let cluster = ClusterName::inbound(self.target).to_string();
        // TLS of the user's own is terminated, so what it carries is looked at.
        let own = self.tls.as_ref().filter(|_| self.mode == Mode::Disable);
        let protocol = match (own, self.protocol) {
            (Some(_), Protocol::Https) => Protocol::Http,
            (Some(_), Protocol::Tls) => Protocol::Tcp,
            (_, protocol) => protocol,
        };
        let target = Target {
            port: self.target,
            number: self.number,
            stat_prefix: format!("inbound_{}", self.name()),
            tcp_stat_prefix: self.stat_name.clone().unwrap_or_else(|| cluster.clone()),
            cluster,
            host: &self.host,
            http2: protocol.is_http2(),
            grpc_web: protocol == Protocol::GrpcWeb,
            names: Names::Bind(self.bind()),
            config: self.config.as_deref(),
        };
        let proto = match protocol {
            p if p.is_http() => Proto::Http,
            Protocol::Auto => Proto::Auto,
            _ => Proto::Tcp,
        };
        match own {
            Some(own) => {
                let way = Way { protocols: &[], transport: inspect::TLS, proto, terminates: true };
                target.chains(settings, stages, &[way], Some(&own.context(false)))
            }
            None => {
                let tls = mesh_tls(&settings.mtls, self.mode);
                let ways = ways(self.mode, proto, settings.http10);
                target.chains(settings, stages, &ways, tls.as_ref())
            }
        }
    }
}

impl Target<'_> {
    fn passthrough(port: u16) -> Self {
        Self {
            port,
            number: 0,
            cluster: INBOUND_PASSTHROUGH_CLUSTER.into(),
            stat_prefix: INBOUND_PASSTHROUGH_CLUSTER.into(),
            tcp_stat_prefix: INBOUND_PASSTHROUGH_CLUSTER.into(),
            host: "",
            http2: false,
            grpc_web: false,
            names: Names::Passthrough,
            config: None,
        }
    }

    fn chains(
        &self,
        settings: &Settings,
        stages: &super::Stages,
        ways: &[Way],
        tls: Option<&DownstreamTlsContext>,
    ) -> Vec<FilterChain> {
        ways.iter().map(|way| self.chain(settings, stages, way, tls)).collect()
    }

    fn chain(
        &self,
        settings: &Settings,
        stages: &super::Stages,
        way: &Way,
        tls: Option<&DownstreamTlsContext>,
    ) -> FilterChain {
        let name = match (&self.names, way.proto) {
            (Names::Passthrough, Proto::Http) => CATCH_ALL_HTTP.to_owned(),
            (Names::Passthrough, _) => VIRTUAL_INBOUND.to_owned(),
            (Names::Bind(bind), _) => format!("{bind}_{}", self.port),
        };
        let filters = match way.proto {
            Proto::Http => {
                let mut filters = stages.inbound_network.exchange.clone();
                filters.push(self.manager(&stages.inbound_http).filter(settings));
                filters
            }
            Proto::Tcp | Proto::Auto => {
                let tcp = network::Tcp {
                    stat_prefix: self.tcp_stat_prefix.clone(),
                    side: Side::Server,
                    service: stats::service(self.host),
                    ..network::Tcp::to(self.cluster.clone())
                };
                network::stack(settings, tcp, &stages.inbound_network)
            }
        };
        let rule = FilterChainMatch {
            destination_port: if self.port == 0 { None } else { wire::number(self.port.into()) },
            transport_protocol: way.transport.to_owned(),
            application_protocols: tls::alpn(way.protocols),
            ..Default::default()
        };
        FilterChain {
            name,
            filter_chain_match: Some(rule),
            filters,
            transport_socket: tls.filter(|_| way.terminates).map(tls::socket),
            metadata: self.config.map(metadata::config),
            ..Default::default()
        }
    }

    fn manager<'a>(&self, slots: &'a http::Slots) -> Manager<'a> {
        let routes = route::inbound::configuration(&self.cluster, self.host, self.number);
        Manager {
            class: Class::SidecarInbound,
            stat_prefix: self.stat_prefix.clone(),
            routes: Routes::Inline(Box::new(routes)),
            grpc_web: self.grpc_web,
            http2: self.http2,
            absolute_url: false,
            slots,
        }
    }
}

/// All ways in which traffic may arrive, as Istio has them.
fn ways(mode: Mode, proto: Proto, http10: bool) -> Vec<Way> {
    let mtls =
        |protocols, proto| Way { protocols, transport: inspect::TLS, proto, terminates: true };
    let plain =
        |protocols, proto| Way { protocols, transport: inspect::RAW, proto, terminates: false };
    // TLS that is none of ours passes to the application as it is.
    let foreign =
        || Way { protocols: &[], transport: inspect::TLS, proto: Proto::Tcp, terminates: false };
    let sniffed = || plain(inspect::plain_http(http10), Proto::Http);
    match (proto, mode) {
        (Proto::Auto, Mode::Permissive) => vec![
            mtls(tls::ALPN_MESH_HTTP_MATCH, Proto::Http),
            sniffed(),
            mtls(MESH_TCP_ALPN, Proto::Tcp),
            plain(&[], Proto::Tcp),
            foreign(),
        ],
        (Proto::Auto, Mode::Strict) => {
            vec![mtls(tls::ALPN_MESH_HTTP_MATCH, Proto::Http), mtls(&[], Proto::Tcp)]
        }
        (Proto::Auto, Mode::Disable) => vec![sniffed(), plain(&[], Proto::Tcp)],
        (Proto::Http, Mode::Permissive) => {
            vec![mtls(MESH_ALPN, Proto::Http), plain(&[], Proto::Http)]
        }
        (Proto::Tcp, Mode::Permissive) => {
            vec![mtls(MESH_ALPN, Proto::Tcp), plain(&[], Proto::Tcp), foreign()]
        }
        (proto, Mode::Strict) => vec![mtls(&[], proto)],
        // Without mTLS nothing is inspected, so TLS arrives as any other bytes.
        (proto, Mode::Disable) => vec![plain(&[], proto)],
    }
}

/// The server half of mTLS, or none where there is no mTLS.
fn mesh_tls(mesh: &MeshTls, mode: Mode) -> Option<DownstreamTlsContext> {
    if mode == Mode::Disable {
        return None;
    }
    let mut context =
        tls::mesh_server(mesh.trust_domains.iter().map(String::as_str), tls::ALPN_HTTP);
    super::server_tls::apply_mesh(&mut context, mesh);
    Some(context)
}

/// Nothing may be sent to the listener's own port: it would come back for ever.
fn black_hole(settings: &Settings, stages: &super::Stages) -> FilterChain {
    let mut filters = stages.inbound_network.exchange.clone();
    filters.extend(stages.inbound_network.statistics.iter().cloned());
    filters.push(network::black_hole());
    FilterChain {
        name: BLACK_HOLE.into(),
        filter_chain_match: Some(FilterChainMatch {
            destination_port: wire::number(settings.inbound_port.into()),
            ..Default::default()
        }),
        filters,
        ..Default::default()
    }
}
