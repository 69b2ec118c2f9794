//! The names of Services and pods, after Kubernetes' DNS specification.
//!
//! In: a name and a record type; out: what the model says of it. Never waits.

mod reverse;
mod service;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ironsail_dns::rdata::{A, AAAA, NS, SOA, TXT};
use ironsail_dns::{Answer, Lookup, Name, RData, Record, RecordType};
use parking_lot::RwLock;

use crate::model::{Key, Model};
use crate::{Config, Error};

use service::Asked;

/// The version of the specification that is spoken.
const VERSION: &str = "1.1.0";

/// The names of one cluster. Cheap to clone.
#[derive(Clone)]
pub struct Names(Arc<Inner>);

struct Inner {
    model: Arc<RwLock<Model>>,
    zone: Name,
    ttl: u32,
    outside: HashMap<Name, Vec<IpAddr>>,
    /// Turns the order of addresses on with every answer, so that clients spread.
    turn: AtomicUsize,
}

impl Names {
    pub(crate) fn new(model: Arc<RwLock<Model>>, config: &Config) -> Result<Self, Error> {
        let parse = |text: &str| -> Result<Name, Error> {
            let name = Name::from_ascii(text.to_ascii_lowercase());
            let mut name = name.map_err(|source| Error::Domain {
                domain: text.to_owned(),
                source: source.into(),
            })?;
            name.set_fqdn(true);
            Ok(name)
        };
        let mut outside = HashMap::new();
        for (name, addresses) in &config.outside_names {
            outside.insert(parse(name)?, addresses.clone());
        }
        let zone = parse(&config.cluster_domain)?;
        let turn = AtomicUsize::new(0);
        Ok(Self(Arc::new(Inner { model, zone, ttl: config.ttl, outside, turn })))
    }

    fn record(&self, name: &Name, data: RData) -> Record {
        Record::from_rdata(name.clone(), self.0.ttl, data)
    }

    /// The addresses that a question of this type asks for, as an answer about `name`.
    fn addresses(&self, name: &Name, kind: RecordType, addresses: &[IpAddr]) -> Answer {
        let mut records: Vec<Record> = addresses
            .iter()
            .filter_map(|ip| match (ip, kind) {
                (IpAddr::V4(ip), RecordType::A | RecordType::ANY) => Some(RData::A(A(*ip))),
                (IpAddr::V6(ip), RecordType::AAAA | RecordType::ANY) => {
                    Some(RData::AAAA(AAAA(*ip)))
                }
                _ => None,
            })
            .map(|data| self.record(name, data))
            .collect();
        if records.is_empty() {
            return Answer::NoData;
        }
        let turn = self.0.turn.fetch_add(1, Ordering::Relaxed) % records.len();
        records.rotate_left(turn);
        Answer::records(records)
    }

    /// A name under the cluster domain, given as the labels before it.
    fn in_zone(&self, name: &Name, labels: &[&str], kind: RecordType) -> Answer {
        let model = self.0.model.read();
        match labels {
            [] => self.apex(kind),
            ["dns-version"] if matches!(kind, RecordType::TXT | RecordType::ANY) => {
                Answer::records(vec![
                    self.record(name, RData::TXT(TXT::new(vec![VERSION.to_owned()]))),
                ])
            }
            ["dns-version"] | ["svc" | "pod"] => Answer::NoData,
            [namespace, "svc" | "pod"] if model.has_namespace(namespace) => Answer::NoData,
            [address, _, "pod"] => match address_of(address) {
                Some(ip) => self.addresses(name, kind, &[ip]),
                None => Answer::NxDomain,
            },
            [rest @ .., service, namespace, "svc"] => {
                let key = Key { namespace: (*namespace).to_owned(), name: (*service).to_owned() };
                let Some(service) = model.service(&key) else { return Answer::NxDomain };
                let asked = Asked { names: self, model: &model, name, key: &key, service, kind };
                match rest {
                    [] => asked.service(),
                    [host] => asked.host(host),
                    [port, protocol] => asked.port(port, protocol),
                    _ => Answer::NxDomain,
                }
            }
            _ => Answer::NxDomain,
        }
    }

    fn apex(&self, kind: RecordType) -> Answer {
        let zone = &self.0.zone;
        match kind {
            RecordType::SOA => {
                self.authority(zone).map_or(Answer::NoData, |soa| Answer::records(vec![soa]))
            }
            RecordType::NS => {
                Answer::records(vec![self.record(zone, RData::NS(NS(self.server())))])
            }
            _ => Answer::NoData,
        }
    }

    /// `[host.]service.namespace.svc.zone`
    fn name_of(&self, key: &Key, host: Option<&str>) -> Option<Name> {
        let labels = host.into_iter().chain([key.name.as_str(), &key.namespace, "svc"]);
        let mut name = Name::from_labels(labels.map(str::as_bytes)).ok()?;
        name.set_fqdn(false);
        name.append_domain(&self.0.zone).ok()
    }

    fn server(&self) -> Name {
        self.0.zone.prepend_label("dns").and_then(|n| n.prepend_label("ns")).unwrap_or_default()
    }
}

impl Lookup for Names {
    fn lookup(&self, name: &Name, kind: RecordType) -> Answer {
        if let Some(addresses) = self.0.outside.get(name) {
            return self.addresses(name, kind, addresses);
        }
        if self.0.zone.zone_of(name) {
            let labels: Vec<String> =
                name.iter().map(|l| String::from_utf8_lossy(l).into_owned()).collect();
            let own = labels.len().saturating_sub(usize::from(self.0.zone.num_labels()));
            let labels: Vec<&str> = labels[..own].iter().map(String::as_str).collect();
            return self.in_zone(name, &labels, kind);
        }
        self.reverse(name, kind)
    }

    fn authority(&self, _: &Name) -> Option<Record> {
        let zone = &self.0.zone;
        let mailbox = zone.prepend_label("hostmaster").ok()?;
        let ttl = self.0.ttl;
        let soa = SOA::new(self.server(), mailbox, 1, 7200, 1800, 86400, ttl);
        Some(self.record(zone, RData::SOA(soa)))
    }
}

/// The address in a pod's name: `10-244-0-5`, `fd00-10--5`.
fn address_of(label: &str) -> Option<IpAddr> {
    let v4 = label.replace('-', ".").parse().map(IpAddr::V4);
    v4.ok().or_else(|| label.replace('-', ":").parse().map(IpAddr::V6).ok())
}
