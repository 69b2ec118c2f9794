//! What of an object's status counts: the addresses that a ServiceEntry was given, and whether a
//! WorkloadEntry is healthy. Nothing of other kinds does.

use std::net::IpAddr;

use serde::Serialize;
use serde_json::Value;

use crate::Kind;

/// More addresses than a ServiceEntry can have hosts, of both families.
const MOST: usize = 1_024;

/// As the status says it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Observed {
    /// Host and address, in the order of the status. An empty host stands for all hosts of the entry.
    pub addresses: Vec<(String, IpAddr)>,
    /// The condition `Healthy`; None if nobody said.
    pub healthy: Option<bool>,
}

impl Observed {
    /// What cannot be read says nothing.
    #[must_use]
    pub fn read(kind: Kind, object: &Value) -> Self {
        let status = &object["status"];
        match kind {
            Kind::ServiceEntry => Self { addresses: addresses(status), healthy: None },
            Kind::WorkloadEntry => Self { addresses: Vec::new(), healthy: healthy(status) },
            _ => Self::default(),
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.healthy.is_none()
    }
}

fn addresses(status: &Value) -> Vec<(String, IpAddr)> {
    let all = status["addresses"].as_array().into_iter().flatten().take(MOST);
    let usable = |ip: &IpAddr| !ip.is_loopback() && !ip.is_unspecified() && !ip.is_multicast();
    let one = |value: &Value| {
        let address = value["value"].as_str()?.parse().ok().filter(usable)?;
        Some((value["host"].as_str().unwrap_or_default().to_ascii_lowercase(), address))
    };
    all.filter_map(one).collect()
}

fn healthy(status: &Value) -> Option<bool> {
    let mut conditions = status["conditions"].as_array()?.iter();
    let found = conditions.find(|condition| condition["type"] == "Healthy")?;
    Some(found["status"] == "True")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_and_health_are_read_and_nonsense_is_nothing() {
        let entry = json!({"status": {"addresses": [
            {"host": "A.example.com", "value": "240.240.0.1"}, {"value": "2001:2::1"},
            {"value": "127.0.0.1"}, {"value": "x"}, 7]}});
        let read = Observed::read(Kind::ServiceEntry, &entry).addresses;
        let ips: Vec<_> = read.iter().map(|(host, ip)| format!("{host} {ip}")).collect();
        assert_eq!(ips, ["a.example.com 240.240.0.1", " 2001:2::1"]);
        assert!(Observed::read(Kind::WorkloadEntry, &entry).is_empty());
        let workload = |status: &str| {
            json!({"status": {"conditions": [
            {"type": "Reconciled", "status": "True"}, {"type": "Healthy", "status": status}]}})
        };
        let healthy = |status| Observed::read(Kind::WorkloadEntry, &workload(status)).healthy;
        assert_eq!((healthy("True"), healthy("False")), (Some(true), Some(false)));
        for nonsense in [json!(null), json!({"status": 1}), json!({"status": {"addresses": {}}})] {
            assert!(Observed::read(Kind::ServiceEntry, &nonsense).is_empty());
            assert!(Observed::read(Kind::WorkloadEntry, &nonsense).is_empty());
        }
    }
}
