//! The endpoints of one port and subset as one proxy class uses them.
//!
//! In: a service's endpoints, labels of a subset, what decides about mTLS, health and preference.
//! Out: Envoy's endpoints by locality. Used for load assignments and for clusters that embed theirs.

use std::collections::BTreeMap;

use ironsail_api::ClusterId;
use ironsail_model::{Address, Endpoint, Health, TlsMode, Workload};
use ironsail_names::Locality;
use ironsail_proto::envoy::config::core::v3::HealthStatus;
use ironsail_proto::envoy::config::endpoint::v3::{
    self as envoy, LbEndpoint, LocalityLbEndpoints, lb_endpoint::HostIdentifier,
};
use ironsail_proto::google::protobuf::UInt32Value;

use super::Preference;
use super::locality::{self, Group, Member, Topology, weight_of};
use super::network::{Network, Remote};
use crate::mtls::{Mode, Policies};
use crate::{Key, address, metadata};

/// Whether an endpoint is marked for mTLS.
#[derive(Clone, Debug)]
pub(crate) enum Tls<'a> {
    /// A rule decides for all of them.
    Fixed(bool),
    /// A sidecar in front and no policy against it.
    ByPolicy(Policies<'a>),
}

#[derive(Clone, Debug)]
pub(crate) struct Selection<'a> {
    pub(crate) endpoints: &'a [Endpoint],
    /// Of all endpoints of the service.
    pub(crate) digest: u64,
    pub(crate) subset: Option<&'a BTreeMap<String, String>>,
    pub(crate) tls: Tls<'a>,
    /// Sessions stick to hosts, so those about to end are kept.
    pub(crate) draining: bool,
    /// Names may stand beside addresses.
    pub(crate) names: bool,
    /// Only who takes mTLS, on the proxy's own network.
    pub(crate) only_mtls: bool,
    /// Only who runs on this node.
    pub(crate) node: Option<&'a str>,
    pub(crate) network: Network<'a>,
    /// Endpoints of this cluster only.
    pub(crate) cluster: Option<&'a ClusterId>,
    pub(crate) preference: Option<(Preference, Topology<'a>)>,
}

impl<'a> Selection<'a> {
    pub(crate) fn build(&self) -> Vec<LocalityLbEndpoints> {
        let mut places: BTreeMap<&'a Locality, (Vec<Member<'a>>, Remote<'a>)> = BTreeMap::new();
        let scale = self.network.scale();
        for endpoint in self.endpoints.iter().filter(|e| self.takes(e)) {
            let workload = &endpoint.workload;
            let (near, far) = places.entry(&workload.locality).or_default();
            let mtls = self.mtls(endpoint);
            match self.network.way_to(workload) {
                None => near.push(Member {
                    topology: topology(workload),
                    endpoint: one(endpoint, mtls, scale),
                }),
                // Gateways between networks route by a server name, which only mTLS has.
                Some(way) if mtls && !self.only_mtls => {
                    far.add(workload, way, weight(endpoint, scale));
                }
                Some(_) => {}
            }
        }
        let groups = places.into_iter().map(|(locality, (mut members, far))| {
            members.extend(far.into_members());
            Group { locality, weight: weight_of(&members), members, priority: 0 }
        });
        let mut groups: Vec<Group<'a>> = groups.filter(|g| !g.members.is_empty()).collect();
        if let Some((preference, own)) = &self.preference {
            locality::apply(&mut groups, own, preference);
        }
        groups.into_iter().map(Into::into).collect()
    }

    /// How many endpoints there are.
    pub(crate) fn count(&self) -> usize {
        self.endpoints.iter().filter(|e| self.takes(e)).count()
    }

    fn takes(&self, endpoint: &Endpoint) -> bool {
        let healthy = match endpoint.health {
            Health::Healthy => true,
            Health::Draining => self.draining,
            Health::Unhealthy | Health::Terminating => false,
        };
        let named = matches!(endpoint.address, Address::Name(_));
        let labels = &endpoint.workload.labels;
        let in_subset = self.subset.is_none_or(|wanted| {
            wanted.iter().all(|(name, value)| labels.get(name) == Some(value))
        });
        let visible = self.network.sees(&endpoint.workload.network);
        let near = self.node.is_none_or(|node| *endpoint.workload.node == *node)
            && self.cluster.is_none_or(|cluster| endpoint.workload.cluster == *cluster);
        let protected = !self.only_mtls || self.mtls(endpoint);
        healthy && (self.names || !named) && in_subset && visible && near && protected
    }

    fn mtls(&self, endpoint: &Endpoint) -> bool {
        let workload = &endpoint.workload;
        match &self.tls {
            Tls::Fixed(mtls) => *mtls,
            Tls::ByPolicy(policies) => {
                workload.tls == TlsMode::Istio
                    && policies.mode(&workload.labels, endpoint.port) != Mode::Disable
            }
        }
    }

    pub(crate) fn write(&self, key: Key) -> Key {
        let key = key
            .digest(self.digest)
            .maybe(self.subset, |k, labels| k.each(labels, |k, (a, b)| k.text(a).text(b)))
            .flag(self.draining)
            .flag(self.names)
            .flag(self.only_mtls)
            .maybe(self.node, Key::text)
            .maybe(self.cluster, |k, cluster| k.text(cluster.as_str()));
        let key = self.network.write(key);
        let key = match &self.tls {
            Tls::Fixed(mtls) => key.flag(true).flag(*mtls),
            Tls::ByPolicy(policies) => policies.write(key.flag(false)),
        };
        key.maybe(self.preference.as_ref(), |k, (preference, own)| preference.write(k, own))
    }
}

fn weight(endpoint: &Endpoint, scale: u32) -> u32 {
    endpoint.weight.max(1).saturating_mul(scale)
}

fn one(endpoint: &Endpoint, mtls: bool, scale: u32) -> LbEndpoint {
    let workload = &endpoint.workload;
    let who = format!(
        "{};{};{};{};{}",
        workload.name,
        workload.namespace,
        workload.canonical_name,
        workload.canonical_revision,
        workload.cluster
    );
    let health = match endpoint.health {
        Health::Draining => HealthStatus::Draining,
        _ => HealthStatus::Healthy,
    };
    LbEndpoint {
        health_status: health.into(),
        metadata: Some(metadata::endpoint(&who, mtls)),
        load_balancing_weight: Some(UInt32Value { value: weight(endpoint, scale) }),
        host_identifier: Some(host(&endpoint.address, endpoint.port)),
    }
}

pub(super) fn host(address: &Address, port: u16) -> HostIdentifier {
    let address = match address {
        Address::Ip(ip) => address::tcp(&ip.to_string(), port),
        Address::Name(name) => address::tcp(name, port),
        Address::Unix(path) => address::pipe(path),
    };
    HostIdentifier::Endpoint(envoy::Endpoint { address: Some(address), ..Default::default() })
}

pub(super) fn topology(workload: &Workload) -> Topology<'_> {
    Topology {
        labels: &workload.labels,
        locality: &workload.locality,
        network: &workload.network,
        cluster: workload.cluster.as_str(),
        node: &workload.node,
    }
}
