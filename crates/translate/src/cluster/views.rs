//! Which clusters a class of proxies has, and what each may depend on.

use std::collections::BTreeMap;
use std::sync::Arc;

use ironsail_api::Resource;
use ironsail_api::istio::networking::{IstioIngressListener, Sidecar, Subset};
use ironsail_model::proxy::Interception;
use ironsail_model::{
    MergedRule, Protocol, ProxyClass, ProxyKind, Resolution, Scope, Service, ServicePort, Snapshot,
    TlsMode,
};
use ironsail_names::{
    BLACK_HOLE_CLUSTER, ClusterName, Direction, INBOUND_PASSTHROUGH_CLUSTER, PASSTHROUGH_CLUSTER,
};

use super::draft::{Discovery, Family};
use super::inbound::{Inbound, Target, parse_target};
use super::outbound::{Outbound, discovery};
use super::policy::Policy;
use super::{ClusterView, Kind};
use crate::endpoint::{self, Selection};
use crate::listener;
use crate::mtls::{self, Mode};

/// All clusters of `class`.
pub fn views<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
) -> Vec<ClusterView<'a>> {
    let at = At { snapshot, scope, class };
    let mut kinds = Vec::new();
    for service in scope.services.iter() {
        kinds.extend(at.outbound(service));
    }
    kinds.extend(at.fixed());
    kinds.extend(at.inbound());
    kinds.into_iter().map(|kind| at.view(kind)).collect()
}

/// The clusters of one service: all that a change of the service or of who serves it may touch, beside
/// the workload's own ports.
pub fn of_service<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
    service: &'a Arc<Service>,
) -> impl Iterator<Item = ClusterView<'a>> {
    let at = At { snapshot, scope, class };
    at.outbound(service).map(move |kind| at.view(kind))
}

/// The cluster that is called `name`, if the class has it.
pub fn view<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
    name: &str,
) -> Option<ClusterView<'a>> {
    let at = At { snapshot, scope, class };
    if let BLACK_HOLE_CLUSTER | PASSTHROUGH_CLUSTER | INBOUND_PASSTHROUGH_CLUSTER = name {
        return at.fixed().into_iter().map(|k| at.view(k)).find(|v| v.name() == name);
    }
    let parsed: ClusterName = name.parse().or_else(|_| ClusterName::parse_sni(name)).ok()?;
    let found = match parsed.direction {
        Direction::Inbound => at.inbound(),
        Direction::Outbound => at.outbound(scope.service(parsed.host.as_ref()?)?).collect(),
        Direction::InboundVip => return None,
    };
    found.into_iter().map(|k| at.view(k)).find(|v| v.name() == name)
}

/// Who looks, and at what.
#[derive(Clone, Copy)]
struct At<'a> {
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
}

impl<'a> At<'a> {
    fn view(self, kind: Kind<'a>) -> ClusterView<'a> {
        let mesh = &self.snapshot.mesh;
        let gateway = self.class.kind == ProxyKind::Router;
        ClusterView { kind, mesh, mesh_digest: mesh.digest(), gateway }
    }

    fn sidecar(self) -> bool {
        !matches!(self.class.kind, ProxyKind::Router | ProxyKind::GrpcClient)
    }

    fn family(self) -> Family {
        match (self.class.ipv4, self.class.ipv6) {
            (true, true) => Family::Both,
            (false, true) => Family::V6,
            _ => Family::V4,
        }
    }

    fn fixed(self) -> Vec<Kind<'a>> {
        match self.class.kind {
            ProxyKind::Sidecar => {
                vec![Kind::BlackHole, Kind::Passthrough, Kind::InboundPassthrough(self.family())]
            }
            // A gateway has no traffic that was going somewhere else.
            ProxyKind::Router => vec![Kind::BlackHole],
            ProxyKind::Waypoint | ProxyKind::Ztunnel | ProxyKind::GrpcClient => Vec::new(),
        }
    }

    /// One for each port, and for each subset of it.
    fn outbound(self, service: &'a Arc<Service>) -> impl Iterator<Item = Kind<'a>> {
        let rule = self.scope.rule(self.snapshot, self.class, service);
        let called = service.resolution != Resolution::Alias;
        let passed_on = listener::passed_on(self.snapshot, self.class, service);
        let ports = service.ports.iter().filter(move |p| called && p.protocol != Protocol::Udp);
        ports.flat_map(move |port| {
            let subsets = rule.map_or(&[][..], |r| &r.spec.subsets);
            let all = std::iter::once(None).chain(subsets.iter().map(Some));
            all.flat_map(move |subset| {
                let one = self.one(service, port, rule, subset);
                let other = passed_on.then(|| Outbound { passed_on, ..one.clone() });
                std::iter::once(one).chain(other).map(|one| Kind::Outbound(Box::new(one)))
            })
        })
    }

    fn one(
        self,
        service: &'a Arc<Service>,
        port: &'a ServicePort,
        rule: Option<&'a Arc<MergedRule>>,
        subset: Option<&'a Subset>,
    ) -> Outbound<'a> {
        let policy = rule.map(|r| Policy::of(&r.spec, subset, port.number)).unwrap_or_default();
        let passthrough = policy.is_passthrough();
        let embeds = matches!(
            discovery(service, self.sidecar(), passthrough),
            Discovery::StrictDns | Discovery::LogicalDns
        );
        let inline = embeds.then(|| {
            let selection =
                endpoint::select(self.snapshot, self.class, service, port, rule, subset);
            Selection { names: true, ..selection }
        });
        let endpoints = self.snapshot.endpoints.get(&service.key);
        Outbound {
            service,
            port,
            subset,
            rule: rule.map(|r| &**r),
            identities: endpoints.filter(|_| !service.external).map(|e| &*e.identities),
            automatic: self.automatic(service, port, passthrough),
            inline,
            sidecar: self.sidecar(),
            passed_on: false,
            family: self.family(),
        }
    }

    /// Whether mTLS is used without being asked for.
    fn automatic(self, service: &Service, port: &ServicePort, passthrough: bool) -> bool {
        if service.external || self.snapshot.mesh.config.enable_auto_mtls == Some(false) {
            return false;
        }
        if service.resolution == Resolution::Passthrough || passthrough {
            // Envoy does not see which endpoint it will be, so all must take it.
            let all =
                self.snapshot.endpoints.get(&service.key).map_or(&[][..], |e| e.port(&port.name));
            if all.is_empty() || all.iter().any(|e| e.workload.tls != TlsMode::Istio) {
                return false;
            }
        }
        mtls::policies(self.snapshot, service.namespace()).namespace_mode() != Mode::Disable
    }

    fn inbound(self) -> Vec<Kind<'a>> {
        if self.class.kind != ProxyKind::Sidecar {
            return Vec::new();
        }
        let sidecar = self.scope.sidecar.as_ref();
        match sidecar.filter(|s| !s.spec.ingress.is_empty()) {
            Some(sidecar) => {
                let listeners = sidecar.spec.ingress.iter();
                listeners.filter_map(|listener| self.of_listener(sidecar, listener)).collect()
            }
            None if self.class.interception == Interception::None => Vec::new(),
            None => self.of_services(sidecar),
        }
    }

    fn of_services(self, sidecar: Option<&'a Arc<Resource<Sidecar>>>) -> Vec<Kind<'a>> {
        let mut ports: BTreeMap<u16, Vec<(&'a Service, &'a ServicePort)>> = BTreeMap::new();
        for own in &self.scope.instances {
            let Some(port) = own.service.port(own.port) else { continue };
            ports.entry(own.target).or_default().push((&own.service, port));
        }
        let local = super::defaults::inbound_to_localhost(&self.snapshot.mesh.config);
        let pool = sidecar.and_then(|s| s.spec.inbound_connection_pool.as_ref());
        let each = ports.into_iter().map(|(number, services)| {
            let target = match local {
                true => Target::Tcp(self.localhost(), number),
                false => Target::Original,
            };
            let (service, port) = services[0];
            Kind::Inbound(Box::new(Inbound {
                port: number,
                protocol: port.protocol,
                rule: self.scope.rule(self.snapshot, self.class, service).map(|r| &**r),
                services,
                pool,
                pool_digest: pool.and(sidecar).map_or(0, |s| s.digest),
                target,
                fallback: None,
                family: self.family(),
            }))
        });
        each.collect()
    }

    fn of_listener(
        self,
        sidecar: &'a Arc<Resource<Sidecar>>,
        listener: &'a IstioIngressListener,
    ) -> Option<Kind<'a>> {
        let port = listener.port.as_ref()?;
        let number = u16::try_from(port.number).ok()?;
        let instances = self.scope.instances.iter().filter(|i| i.target == number);
        let own = instances.filter_map(|i| Some((&*i.service, i.service.port(i.port)?)));
        let services: Vec<(&Service, &ServicePort)> = own.take(1).collect();
        let pool = listener.connection_pool.as_ref();
        let pool = pool.or(sidecar.spec.inbound_connection_pool.as_ref());
        let fallback = services.is_empty();
        let names = (sidecar.meta.name.as_str(), sidecar.meta.namespace.as_str());
        Some(Kind::Inbound(Box::new(Inbound {
            port: number,
            protocol: Protocol::parse(&port.protocol).unwrap_or_default(),
            rule: services
                .first()
                .and_then(|(s, _)| self.scope.rule(self.snapshot, self.class, s))
                .map(|r| &**r),
            services,
            pool,
            pool_digest: pool.map_or(0, |_| sidecar.digest),
            target: parse_target(&listener.default_endpoint)?,
            fallback: fallback.then_some(names),
            family: self.family(),
        })))
    }

    fn localhost(self) -> std::net::IpAddr {
        match self.family() {
            Family::V6 => std::net::Ipv6Addr::LOCALHOST.into(),
            Family::V4 | Family::Both => std::net::Ipv4Addr::LOCALHOST.into(),
        }
    }
}
