//! Endpoints on other networks, which are reached through gateways.
//!
//! In: the proxy's network, the gateways of all networks. Out: endpoints of gateways, each with the
//! weight of what lies behind it, shared among the gateways of a network.

use std::collections::BTreeMap;

use ironsail_model::{NetworkGateway, NetworkGateways, Workload};
use ironsail_proto::envoy::config::core::v3::HealthStatus;
use ironsail_proto::envoy::config::endpoint::v3::LbEndpoint;
use ironsail_proto::google::protobuf::UInt32Value;

use super::locality::Member;
use super::selection::{host, topology};
use crate::{Key, metadata};

/// Where the proxy is, and what it wants to see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network<'a> {
    pub(crate) own: &'a str,
    /// Networks that it wants endpoints of; empty: all.
    pub(crate) view: &'a [String],
    pub(crate) gateways: &'a NetworkGateways,
}

impl<'a> Network<'a> {
    pub(crate) fn sees(&self, network: &str) -> bool {
        self.view.is_empty() || network.is_empty() || self.view.iter().any(|n| n == network)
    }

    /// The gateways on the way; None if there is a direct one.
    pub(crate) fn way_to(&self, workload: &Workload) -> Option<Vec<&'a NetworkGateway>> {
        let network = &workload.network;
        if network.is_empty() || self.own.is_empty() || &**network == self.own {
            return None;
        }
        let all = self.gateways.get(network)?;
        // A gateway of the endpoint's own cluster is the shorter way.
        let same = |g: &&NetworkGateway| g.cluster.as_ref() == Some(&workload.cluster);
        let own: Vec<&NetworkGateway> = all.iter().filter(same).collect();
        Some(if own.is_empty() { all.iter().collect() } else { own })
    }

    /// By what all weights are multiplied, so that they can be shared among gateways.
    pub(crate) fn scale(&self) -> u32 {
        let counts =
            self.gateways.values().map(|list| u32::try_from(list.len()).unwrap_or(u32::MAX));
        counts.fold(1, |all, count| all.saturating_mul(count / gcd(all, count).max(1)).max(1))
    }

    pub(crate) fn write(&self, key: Key) -> Key {
        let key = key.each(self.view, |k, n| k.text(n)).flag(self.gateways.is_empty());
        if self.gateways.is_empty() {
            return key;
        }
        key.text(self.own).each(self.gateways, |k, (name, list)| {
            k.text(name).each(list, |k, g| {
                let cluster = g.cluster.as_ref().map_or("", |c| c.as_str());
                k.display(&g.address).number(g.port.into()).text(cluster)
            })
        })
    }
}

/// What goes through gateways, in one locality.
#[derive(Default)]
pub(crate) struct Remote<'a>(BTreeMap<&'a NetworkGateway, (&'a Workload, u32)>);

impl<'a> Remote<'a> {
    pub(crate) fn add(
        &mut self,
        workload: &'a Workload,
        way: Vec<&'a NetworkGateway>,
        weight: u32,
    ) {
        let share = weight / u32::try_from(way.len()).unwrap_or(1).max(1);
        for gateway in way {
            let (_, sum) = self.0.entry(gateway).or_insert((workload, 0));
            *sum = sum.saturating_add(share);
        }
    }

    pub(crate) fn into_members(self) -> impl Iterator<Item = Member<'a>> {
        self.0.into_iter().map(|(gateway, (workload, weight))| {
            let who = format!(";;;;{}", gateway.cluster.as_ref().map_or("", |c| c.as_str()));
            let endpoint = LbEndpoint {
                health_status: HealthStatus::Healthy.into(),
                metadata: Some(metadata::endpoint(&who, true)),
                load_balancing_weight: Some(UInt32Value { value: weight.max(1) }),
                host_identifier: Some(host(&gateway.address, gateway.port)),
            };
            Member { topology: topology(workload), endpoint }
        })
    }
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}
