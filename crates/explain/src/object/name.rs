//! What a host in a URL means to a client: which service it is, at which addresses.

use std::net::IpAddr;

use serde_json::Value;

use super::{Objects, addresses, each, name, namespace, origin, spec, texts};
use crate::answer::Origin;

/// How much is known of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// A Service of Kubernetes.
    Service,
    /// A ServiceEntry.
    Entry,
    Address,
    /// Nobody declares it; DNS may know it.
    No,
}

/// A host and what it means.
#[derive(Clone, Debug)]
pub(crate) struct Named<'a> {
    /// In full.
    pub(crate) host: String,
    pub(crate) known: Known,
    /// Where a client connects to.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) object: Option<&'a Value>,
}

impl Named<'_> {
    pub(crate) fn origin(&self, field: &str) -> Option<Origin> {
        self.object.map(|object| origin(object, field))
    }

    /// The port of the object: its place, and itself.
    pub(crate) fn port(&self, number: u16) -> Option<(usize, &Value)> {
        let key = if self.known == Known::Entry { "number" } else { "port" };
        let object = spec(self.object?);
        each(object, "ports").find(|(_, port)| port[key].as_u64() == Some(number.into()))
    }
}

impl Objects {
    /// What `host` means to a client in `own`.
    pub(crate) fn named(&self, host: &str, own: &str) -> Named<'_> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return self.at(ip);
        }
        let host = host.trim_end_matches('.');
        self.service(host, own).or_else(|| self.entry(host)).unwrap_or_else(|| Named {
            host: host.to_owned(),
            known: Known::No,
            addresses: Vec::new(),
            object: None,
        })
    }

    /// The Service that `host` is a name of: its own, with its namespace, with `svc`, or in full.
    fn service(&self, host: &str, own: &str) -> Option<Named<'_>> {
        let short = host.strip_suffix(&format!(".{}", self.domain())).unwrap_or(host);
        let short = short.strip_suffix(".svc").unwrap_or(short);
        let (service, space) = match short.split_once('.') {
            None => (short, own),
            Some((_, rest)) if rest.contains('.') => return None,
            Some((service, space)) => (service, space),
        };
        let object = self.find("Service", space, service)?;
        let spec = spec(object);
        let own_addresses: Vec<IpAddr> = match spec.get("clusterIPs") {
            Some(_) => addresses(spec, "clusterIPs").collect(),
            None => spec["clusterIP"].as_str().and_then(|ip| ip.parse().ok()).into_iter().collect(),
        };
        let headless = own_addresses.is_empty();
        Some(Named {
            host: format!("{service}.{space}.svc.{}", self.domain()),
            known: Known::Service,
            addresses: if headless { self.endpoints(object) } else { own_addresses },
            object: Some(object),
        })
    }

    fn entry(&self, host: &str) -> Option<Named<'_>> {
        let fits = |pattern: &str| match pattern.strip_prefix('*') {
            Some(tail) => host.len() > tail.len() && host.ends_with(tail),
            None => pattern.eq_ignore_ascii_case(host),
        };
        let mut found: Vec<&Value> =
            self.of("ServiceEntry").filter(|one| texts(spec(one), "hosts").any(fits)).collect();
        found.sort_by_key(|one| super::age(one));
        let object = *found.first()?;
        let mut at: Vec<IpAddr> = addresses(spec(object), "addresses").collect();
        let given = object.pointer("/status/addresses").and_then(Value::as_array);
        at.extend(
            given
                .into_iter()
                .flatten()
                .filter_map(|one| one["value"].as_str()?.parse::<IpAddr>().ok()),
        );
        Some(Named {
            host: host.to_owned(),
            known: Known::Entry,
            addresses: at,
            object: Some(object),
        })
    }

    /// The service of an address, if it has one.
    fn at(&self, ip: IpAddr) -> Named<'_> {
        let has = |service: &&Value| {
            let spec = spec(service);
            addresses(spec, "clusterIPs").any(|own| own == ip)
                || spec["clusterIP"].as_str().and_then(|own| own.parse().ok()) == Some(ip)
        };
        let service = self.of("Service").find(has);
        let host =
            service.map(|one| format!("{}.{}.svc.{}", name(one), namespace(one), self.domain()));
        Named {
            host: host.unwrap_or_else(|| ip.to_string()),
            known: if service.is_some() { Known::Service } else { Known::Address },
            addresses: vec![ip],
            object: service,
        }
    }

    /// Addresses of the ready pods behind a Service.
    fn endpoints(&self, service: &Value) -> Vec<IpAddr> {
        let slices = self.slices(service);
        let all = slices.flat_map(|slice| each(slice, "endpoints").map(|(_, one)| one));
        let ready = all.filter(|one| one["conditions"]["ready"] != false);
        ready.flat_map(|one| addresses(one, "addresses")).collect()
    }

    /// The address and port of each ready pod behind a port of a Service.
    pub(crate) fn backends(&self, service: &Value, port: u16) -> Vec<(IpAddr, u16)> {
        let declared = each(spec(service), "ports").find(|(_, one)| one["port"] == port);
        let Some((_, declared)) = declared else { return Vec::new() };
        let named = declared["name"].as_str().unwrap_or_default();
        let mut out = Vec::new();
        for slice in self.slices(service) {
            let target = each(slice, "ports")
                .find(|(_, one)| one["name"].as_str().unwrap_or_default() == named)
                .and_then(|(_, one)| u16::try_from(one["port"].as_u64()?).ok());
            let Some(target) = target else { continue };
            for (_, one) in each(slice, "endpoints") {
                if one["conditions"]["ready"] != false {
                    out.extend(addresses(one, "addresses").map(|ip| (ip, target)));
                }
            }
        }
        out
    }

    fn slices<'a>(&'a self, service: &'a Value) -> impl Iterator<Item = &'a Value> {
        self.of("EndpointSlice").filter(move |slice| {
            namespace(slice) == namespace(service)
                && slice["metadata"]["labels"]["kubernetes.io/service-name"] == name(service)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_service_has_many_names() {
        let objects = Objects::new(
            vec![
                json!({"kind": "Service", "metadata": {"name": "a", "namespace": "n"},
                    "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 80}]}}),
                json!({"kind": "ServiceEntry", "metadata": {"name": "e", "namespace": "n"},
                    "spec": {"hosts": ["*.example.com"]}}),
            ],
            "istio-system",
        );
        for host in ["a", "a.n", "a.n.svc", "a.n.svc.cluster.local", "10.0.0.1"] {
            let named = objects.named(host, "n");
            assert_eq!(named.host, "a.n.svc.cluster.local", "{host}");
            assert!(named.port(80).is_some() && named.port(81).is_none());
        }
        assert_eq!(objects.named("a", "other").known, Known::No);
        assert_eq!(objects.named("x.example.com", "n").known, Known::Entry);
        assert_eq!(objects.named("example.com", "n").known, Known::No);
        assert_eq!(objects.named("10.0.0.9", "n").known, Known::Address);
    }
}
