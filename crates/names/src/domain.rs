//! The cluster's DNS domain, and the names of Services under it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::namespace::is_label;
use crate::{Error, Hostname, Namespace};

/// `cluster.local`, usually. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterDomain(Arc<str>);

/// The parts of a Service's full name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceHost<'a> {
    /// Of a pod behind a headless Service.
    pub pod: Option<&'a str>,
    pub name: &'a str,
    pub namespace: Namespace,
}

impl ClusterDomain {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `NAME.NAMESPACE.svc.DOMAIN`
    pub fn service(&self, name: &str, namespace: &Namespace) -> Result<Hostname, Error> {
        if !is_label(name) {
            return Err(Error::new("the name of a Service", name, crate::namespace::LABEL));
        }
        format!("{name}.{namespace}.svc.{self}").parse()
    }

    /// The Service that `host` names, if it is one of this cluster.
    pub fn parse_service<'a>(&self, host: &'a Hostname) -> Option<ServiceHost<'a>> {
        let rest = host.as_str().strip_suffix(self.as_str())?.strip_suffix(".svc.")?;
        let (rest, namespace) = rest.rsplit_once('.')?;
        let namespace = namespace.parse().ok()?;
        let (pod, name) = match rest.split_once('.') {
            Some((pod, name)) => (Some(pod), name),
            None => (None, rest),
        };
        (is_label(name) && pod.is_none_or(is_label)).then_some(ServiceHost { pod, name, namespace })
    }
}

impl Default for ClusterDomain {
    fn default() -> Self {
        Self("cluster.local".into())
    }
}

impl FromStr for ClusterDomain {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let host: Hostname = text.parse()?;
        match host.is_wildcard() {
            true => Err(Error::new("a cluster domain", text, "it has a wildcard")),
            false => Ok(Self(host.as_str().into())),
        }
    }
}

impl fmt::Display for ClusterDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_and_found_again() {
        let domain = ClusterDomain::default();
        let host = domain.service("httpbin", &"foo".parse().unwrap()).unwrap();
        assert_eq!(host.as_str(), "httpbin.foo.svc.cluster.local");
        let found = domain.parse_service(&host).unwrap();
        assert_eq!((found.pod, found.name, found.namespace.as_str()), (None, "httpbin", "foo"));
        let pod: Hostname = "db-0.db.foo.svc.cluster.local".parse().unwrap();
        assert_eq!(domain.parse_service(&pod).unwrap().pod, Some("db-0"));
    }

    #[test]
    fn names_of_others_are_not_services() {
        let domain = ClusterDomain::default();
        for other in [
            "example.com",
            "foo.svc.cluster.local",
            "a.b.svc.other.local",
            "*.foo.svc.cluster.local",
            "a.b.c.d.svc.cluster.local",
        ] {
            assert_eq!(domain.parse_service(&other.parse().unwrap()), None, "{other}");
        }
    }
}
