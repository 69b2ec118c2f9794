//! From addresses back to names.
//!
//! In: names under in-addr.arpa and ip6.arpa; out: the Service or the endpoint of a headless
//! Service with that address. Other addresses inside the cluster have no name; the rest of the world
//! is somebody else's.

use std::net::IpAddr;

use ipnet::IpNet;
use ironsail_dns::rdata::PTR;
use ironsail_dns::{Answer, Name, RData, RecordType};

use super::Names;
use super::service::is_ready;
use crate::model::{Kind, Model};

impl Names {
    pub(super) fn reverse(&self, name: &Name, kind: RecordType) -> Answer {
        let Some(ip) = address(name) else { return Answer::NotMine };
        let model = self.0.model.read();
        let targets = self.names_at(&model, ip);
        if targets.is_empty() {
            // Private addresses are ours alone: no server elsewhere could know them.
            return if is_private(ip) { Answer::NxDomain } else { Answer::NotMine };
        }
        if !matches!(kind, RecordType::PTR | RecordType::ANY) {
            return Answer::NoData;
        }
        let records = targets.into_iter().map(|t| self.record(name, RData::PTR(PTR(t))));
        Answer::records(records.collect())
    }

    fn names_at(&self, model: &Model, ip: IpAddr) -> Vec<Name> {
        let mut names = Vec::new();
        for (key, service) in model.services() {
            match service.kind {
                Kind::Addressed if service.cluster_ips.contains(&ip) => {
                    names.extend(self.name_of(key, None));
                }
                Kind::Headless => {
                    let endpoints = model.slices(key).flat_map(|s| &s.endpoints);
                    for endpoint in endpoints.filter(|e| e.address == ip && is_ready(e, service)) {
                        names.extend(self.name_of(key, Some(&endpoint.label())));
                    }
                }
                _ => {}
            }
        }
        names.sort();
        names.dedup();
        names
    }
}

/// The one address that a reverse name stands for.
fn address(name: &Name) -> Option<IpAddr> {
    match name.parse_arpa_name().ok()? {
        IpNet::V4(net) if net.prefix_len() == 32 => Some(net.addr().into()),
        IpNet::V6(net) if net.prefix_len() == 128 => Some(net.addr().into()),
        _ => None,
    }
}

fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private() || ip.is_loopback() || ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_loopback() || ip.is_unicast_link_local(),
    }
}
