//! Listeners for traffic that leaves the pod: one for each port of HTTP, one for each virtual address
//! of TCP, and `virtualOutbound`, which gets everything and hands it to them.
//!
//! In: what services claim on one address and port, in their order. Out: one listener whose chains
//! tell the claims apart; what cannot be told apart goes to the oldest, and the others are told.

use std::sync::Arc;

use ironsail_api::{Code, Diagnostic, ObjectKey, Severity};
use ironsail_model::{GatewayRef, Hashed, Protocol};
use ironsail_names::{ClusterDomain, Hostname, VIRTUAL_OUTBOUND};
use ironsail_proto::envoy::config::core::v3::TrafficDirection;
use ironsail_proto::envoy::config::listener::v3::{FilterChain, FilterChainMatch, Listener};

use super::chain::Chain;
use super::tcp::{self, Context, Own, Rule, Source, Targets};
use super::{Stages, additional, exact_balance};
use crate::Translated;
use crate::filter::hcm::{Class, Manager, Routes};
use crate::filter::settings::{Interception, Settings, Side};
use crate::filter::{access, inspect, network, wire};
use crate::problem::CONFLICT;
use crate::route::Client;

const CATCH_ALL_TCP: &str = "virtualOutbound-catchall-tcp";
const BLACK_HOLE: &str = "virtualOutbound-blackhole";
const PASSTHROUGH: &str = "PassthroughFilterChain";
/// The routes of the listener for clients that know they use a proxy.
pub(crate) const HTTP_PROXY: &str = "http_proxy";

/// All that one outbound listener is made of.
#[derive(Clone, Debug, Hash)]
pub struct Outbound<'a> {
    pub(super) settings: Arc<Hashed<Settings>>,
    /// The first is in the name.
    pub(super) binds: Vec<String>,
    pub(super) port: u16,
    /// Bound for real; else found by the original destination.
    pub(super) bound: bool,
    pub(super) claims: Vec<Claim>,
    pub(super) sources: Vec<Source<'a>>,
    pub(super) targets: Targets,
    pub(super) client: Client,
    pub(super) domain: ClusterDomain,
    /// Services that cannot be had here, and why.
    pub(super) refused: Vec<(ObjectKey, String)>,
}

/// What one service wants of the listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Claim {
    /// All services of HTTP on the port share one: their routes tell them apart.
    Http(HttpClaim),
    Tcp(TcpClaim),
    /// The first bytes tell.
    Auto(TcpClaim, HttpClaim),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct HttpClaim {
    pub(super) routes: String,
    pub(super) grpc_web: bool,
    /// For clients that know they use a proxy.
    pub(super) proxy: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TcpClaim {
    pub(super) host: Hostname,
    pub(super) name: Arc<str>,
    pub(super) namespace: String,
    pub(super) port_name: Arc<str>,
    pub(super) protocol: Protocol,
    pub(super) ports: Vec<u16>,
    pub(super) rule: Rule,
    pub(super) ranges: Vec<String>,
    pub(super) sni: Vec<String>,
    /// Looked up by the server name.
    pub(super) dynamic: bool,
    /// Whom to tell if somebody else has the place.
    pub(super) owner: Option<ObjectKey>,
}

impl Outbound<'_> {
    pub fn name(&self) -> String {
        format!("{}_{}", self.bind(), self.port)
    }

    fn bind(&self) -> &str {
        self.binds.first().map_or("", String::as_str)
    }

    pub(super) fn translate(&self, stages: &Stages) -> Translated<Listener> {
        let mut found: Vec<Diagnostic> = self
            .refused
            .iter()
            .map(|(owner, why)| tell(owner, format!("listener {}: {why}", self.name())))
            .collect();
        let mut chains: Vec<Chain> = Vec::new();
        for claim in &self.claims {
            let (new, owner) = self.chains(claim, stages, &mut found);
            for chain in new {
                match chains.iter().any(|have| have.clashes_with(&chain)) {
                    false => chains.push(chain),
                    true => found.extend(owner.map(|owner| {
                        let name = self.name();
                        tell(owner, format!("an older service has listener {name}; this one is not reached there"))
                    })),
                }
            }
        }
        let value = self.listener(chains, stages);
        Translated { value, diagnostics: found }
    }

    fn chains<'s>(
        &'s self,
        claim: &'s Claim,
        stages: &Stages,
        found: &mut Vec<Diagnostic>,
    ) -> (Vec<Chain>, Option<&'s ObjectKey>) {
        match claim {
            Claim::Http(http) => {
                let wildcard = self.bind() == self.settings.family.wildcard() && !http.proxy;
                (vec![self.http(http, wildcard, stages)], None)
            }
            Claim::Tcp(tcp) => (self.tcp(tcp, stages, found), tcp.owner.as_ref()),
            Claim::Auto(tcp, http) => {
                let mut chains = self.tcp(tcp, stages, found);
                chains.push(self.http(http, true, stages));
                (chains, tcp.owner.as_ref())
            }
        }
    }

    fn http(&self, claim: &HttpClaim, sniffs: bool, stages: &Stages) -> Chain {
        let manager = Manager {
            class: Class::SidecarOutbound,
            stat_prefix: format!("outbound_{}", self.name()),
            routes: Routes::Rds(claim.routes.clone()),
            grpc_web: claim.grpc_web,
            http2: false,
            absolute_url: claim.proxy,
            slots: &stages.outbound_http,
        };
        let protocols = if sniffs { inspect::plain_http(self.settings.http10) } else { &[] };
        Chain {
            protocols: protocols.iter().map(|&p| p.to_owned()).collect(),
            transport: if sniffs { inspect::RAW } else { "" },
            filters: vec![manager.filter(&self.settings)],
            ..Default::default()
        }
    }

    fn tcp(&self, claim: &TcpClaim, stages: &Stages, found: &mut Vec<Diagnostic>) -> Vec<Chain> {
        let context = Context {
            settings: &self.settings,
            slots: &stages.outbound_network,
            port: self.port,
            port_name: &claim.port_name,
            gateway: &GatewayRef::Mesh,
            client: &self.client,
            domain: &self.domain,
            sources: &self.sources,
            targets: &self.targets,
        };
        let own = Own {
            host: &claim.host,
            name: &claim.name,
            namespace: &claim.namespace,
            ports: &claim.ports,
            rule: &claim.rule,
            ranges: &claim.ranges,
            sni: &claim.sni,
            dynamic: claim.dynamic,
        };
        match claim.protocol.is_tls() {
            true => context.tls_chains(&own, found),
            false => context.tcp_chains(&own, found),
        }
    }

    fn listener(&self, chains: Vec<Chain>, stages: &Stages) -> Listener {
        let http = chains.iter().any(|chain| !chain.protocols.is_empty());
        let tls = chains.iter().any(|chain| !chain.sni.is_empty());
        let mut listener_filters = Vec::new();
        // Envoy adds the TLS inspector by itself, and complains, where protocols are matched.
        if tls || http {
            listener_filters.push(inspect::tls_inspector());
        }
        if http {
            listener_filters.push(inspect::http_inspector());
        }
        let binds: Vec<&str> = self.binds.iter().map(String::as_str).collect();
        let mut out = Listener {
            name: self.name(),
            address: Some(wire::address(self.bind(), self.port)),
            additional_addresses: additional(&binds, self.port),
            traffic_direction: TrafficDirection::Outbound.into(),
            continue_on_listener_filters_timeout: true,
            connection_balance_config: exact_balance(self.settings.exact_balance_outbound),
            bind_to_port: if self.bound { None } else { wire::flag(false) },
            listener_filters,
            listener_filters_timeout: match http {
                true => wire::span(self.settings.detection_timeout),
                false => wire::never(),
            },
            ..Default::default()
        };
        // What matches everything is tried last, so that nothing gets lost on the way to it.
        for chain in chains {
            match chain.matches_all() {
                true => out.default_filter_chain = Some(chain.build()),
                false => out.filter_chains.push(chain.build()),
            }
        }
        match out.default_filter_chain.take() {
            Some(chain) if out.filter_chains.is_empty() => out.filter_chains.push(chain),
            Some(chain) => out.default_filter_chain = Some(chain),
            None => {
                out.default_filter_chain = Some(FilterChain {
                    name: PASSTHROUGH.into(),
                    filter_chain_match: Some(FilterChainMatch::default()),
                    filters: egress(&self.settings, stages),
                    ..Default::default()
                });
            }
        }
        out
    }
}

fn tell(owner: &ObjectKey, message: String) -> Diagnostic {
    let code = if owner.kind.is_istio() { CONFLICT } else { Code::DOUBTFUL };
    Diagnostic {
        code,
        severity: Severity::Warning,
        kind: owner.kind,
        namespace: owner.namespace.to_string(),
        name: owner.name.to_string(),
        field: None,
        message,
    }
}

/// To where unknown traffic goes.
fn egress(
    settings: &Settings,
    stages: &Stages,
) -> Vec<ironsail_proto::envoy::config::listener::v3::Filter> {
    let tcp = network::Tcp::to(settings.egress.cluster());
    let mut filters = stages.outbound_network.statistics.clone();
    filters.push(network::proxy(settings, tcp));
    filters
}

/// `virtualOutbound`: bound for real, and hands connections to the listener of their destination.
pub(super) fn virtual_outbound(settings: &Settings, stages: &Stages) -> Listener {
    let mut sink = stages.outbound_network.statistics.clone();
    sink.push(network::black_hole());
    // Nothing may be sent to the listener's own port: it would come back for ever.
    let own_port = FilterChain {
        name: BLACK_HOLE.into(),
        filter_chain_match: Some(FilterChainMatch {
            destination_port: wire::number(settings.outbound_port.into()),
            ..Default::default()
        }),
        filters: sink,
        ..Default::default()
    };
    let rest = FilterChain {
        name: CATCH_ALL_TCP.into(),
        filters: egress(settings, stages),
        ..Default::default()
    };
    let wildcards = settings.family.wildcards();
    Listener {
        name: VIRTUAL_OUTBOUND.into(),
        address: Some(wire::address(settings.family.wildcard(), settings.outbound_port)),
        additional_addresses: additional(wildcards, settings.outbound_port),
        transparent: (settings.interception == Interception::Tproxy)
            .then(|| wire::flag(true))
            .flatten(),
        use_original_dst: wire::flag(true),
        traffic_direction: TrafficDirection::Outbound.into(),
        filter_chains: vec![own_port, rest],
        access_log: access::listener(settings, Side::Client),
        ..Default::default()
    }
}

/// Whether `tcp` routes of a VirtualService can matter to a claim at all.
pub(super) fn has_connection_routes(
    spec: &ironsail_api::istio::networking::VirtualService,
) -> bool {
    !spec.tls.is_empty() || !spec.tcp.is_empty()
}

/// Whether the client's labels are needed.
pub(super) fn asks_for_source(sources: &[Source<'_>]) -> bool {
    sources.iter().any(|source| tcp::asks_for_source(&source.0.spec))
}
