//! The names of one Service: its own, those of its endpoints and those of its ports.
//!
//! In: a Service that was found and what is asked of it; out: records.

use std::net::IpAddr;

use ironsail_dns::rdata::{CNAME, SRV};
use ironsail_dns::{Answer, Name, RData, Record, RecordType};

use super::Names;
use crate::model::{Endpoint, Key, Kind, Model, Service, ServicePort};

/// A question about a Service.
pub(super) struct Asked<'a> {
    pub(super) names: &'a Names,
    pub(super) model: &'a Model,
    /// The whole name that was asked for.
    pub(super) name: &'a Name,
    pub(super) key: &'a Key,
    pub(super) service: &'a Service,
    pub(super) kind: RecordType,
}

impl Asked<'_> {
    /// `service.namespace.svc…`
    pub(super) fn service(&self) -> Answer {
        match &self.service.kind {
            Kind::External(target) => self.external(target),
            Kind::Addressed if self.kind == RecordType::SRV => self.all_ports(),
            Kind::Addressed => {
                self.names.addresses(self.name, self.kind, &self.service.cluster_ips)
            }
            Kind::Headless => {
                let found: Vec<IpAddr> = self.ready().map(|e| e.address).collect();
                // The specification: without ready endpoints the name does not exist.
                if found.is_empty() {
                    Answer::NxDomain
                } else if self.kind == RecordType::SRV {
                    self.all_ports()
                } else {
                    self.names.addresses(self.name, self.kind, &dedup(found))
                }
            }
        }
    }

    /// One endpoint by its host name, or by its address with dashes.
    pub(super) fn host(&self, host: &str) -> Answer {
        let found = self.ready().filter(|e| e.label() == host).map(|e| e.address);
        let found: Vec<IpAddr> = found.collect();
        if found.is_empty() {
            return Answer::NxDomain;
        }
        self.names.addresses(self.name, self.kind, &dedup(found))
    }

    /// `_port._protocol.service…`
    pub(super) fn port(&self, port: &str, protocol: &str) -> Answer {
        let (Some(port), Some(protocol)) = (port.strip_prefix('_'), protocol.strip_prefix('_'))
        else {
            return Answer::NxDomain;
        };
        let matches = |p: &&ServicePort| {
            !p.name.is_empty()
                && p.name.eq_ignore_ascii_case(port)
                && p.protocol.is_some_and(|p| p.name() == protocol)
        };
        let found: Vec<_> = self.service.ports.iter().filter(matches).collect();
        if found.is_empty() || matches!(self.service.kind, Kind::External(_)) {
            return Answer::NxDomain;
        }
        match self.kind {
            RecordType::SRV | RecordType::ANY => self.ports(&found),
            _ => Answer::NoData,
        }
    }

    fn external(&self, target: &str) -> Answer {
        if let Ok(ip) = target.parse() {
            return self.names.addresses(self.name, self.kind, &[ip]);
        }
        let Ok(mut target) = Name::from_ascii(target) else { return Answer::NoData };
        target.set_fqdn(true);
        Answer::records(vec![self.names.record(self.name, RData::CNAME(CNAME(target)))])
    }

    fn all_ports(&self) -> Answer {
        self.ports(&self.service.ports.iter().collect::<Vec<_>>())
    }

    /// SRV records for ports, with the addresses of their targets.
    fn ports(&self, ports: &[&ServicePort]) -> Answer {
        let mut targets: Vec<(Name, u16, Vec<IpAddr>)> = Vec::new();
        for port in ports {
            if self.service.kind == Kind::Headless {
                targets.extend(self.endpoints_of(port));
            } else if let Some(host) = self.names.name_of(self.key, None) {
                targets.push((host, port.port, self.service.cluster_ips.clone()));
            }
        }
        if targets.is_empty() {
            return Answer::NxDomain;
        }
        let weight = u16::try_from((100 / targets.len()).max(1)).unwrap_or(1);
        let mut answers = Vec::new();
        let mut additionals: Vec<Record> = Vec::new();
        for (host, port, addresses) in targets {
            if let Answer::Records { answers, .. } =
                self.names.addresses(&host, RecordType::ANY, &addresses)
            {
                for record in answers {
                    if !additionals.contains(&record) {
                        additionals.push(record);
                    }
                }
            }
            let record = self.names.record(self.name, RData::SRV(SRV::new(0, weight, port, host)));
            // An endpoint with two addresses is one target.
            if !answers.contains(&record) {
                answers.push(record);
            }
        }
        Answer::Records { answers, additionals }
    }

    fn endpoints_of(&self, port: &ServicePort) -> Vec<(Name, u16, Vec<IpAddr>)> {
        let mut targets = Vec::new();
        for slice in self.model.slices(self.key) {
            let same =
                |p: &&crate::model::SlicePort| p.name == port.name && p.protocol == port.protocol;
            let Some(target) = slice.ports.iter().find(same) else { continue };
            for endpoint in slice.endpoints.iter().filter(|e| is_ready(e, self.service)) {
                let host = self.names.name_of(self.key, Some(&endpoint.label()));
                targets.extend(host.map(|host| (host, target.port, vec![endpoint.address])));
            }
        }
        targets
    }

    fn ready(&self) -> impl Iterator<Item = &Endpoint> {
        let endpoints = self.model.slices(self.key).flat_map(|s| &s.endpoints);
        endpoints.filter(|e| is_ready(e, self.service))
    }
}

pub(super) fn is_ready(endpoint: &Endpoint, service: &Service) -> bool {
    endpoint.ready || service.publish_not_ready
}

/// An endpoint may be in several slices, one for each set of ports.
fn dedup(mut addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}
