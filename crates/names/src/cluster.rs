//! Names of clusters: `outbound|8000|v1|httpbin.foo.svc.cluster.local`, `inbound|80||`, and the same
//! as a server name for TLS: `outbound_.8000_.v1_.httpbin.foo.svc.cluster.local`.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::{Error, Hostname};

/// Where traffic goes that matches nothing, when that is allowed.
pub const PASSTHROUGH_CLUSTER: &str = "PassthroughCluster";
/// Where traffic ends that must not go on.
pub const BLACK_HOLE_CLUSTER: &str = "BlackHoleCluster";
/// Traffic to a port of the pod that no Service declares.
pub const INBOUND_PASSTHROUGH_CLUSTER: &str = "InboundPassthroughCluster";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    Outbound,
    Inbound,
    /// To a service from inside its waypoint.
    InboundVip,
}

/// What a cluster stands for, as its name says it. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterName {
    pub direction: Direction,
    pub port: u16,
    /// Empty if there is none.
    pub subset: Arc<str>,
    /// None for what the pod itself serves.
    pub host: Option<Hostname>,
}

impl ClusterName {
    pub fn outbound(port: u16, subset: &str, host: Hostname) -> Self {
        Self { direction: Direction::Outbound, port, subset: subset.into(), host: Some(host) }
    }

    pub fn inbound(port: u16) -> Self {
        Self { direction: Direction::Inbound, port, subset: "".into(), host: None }
    }

    /// The form in which gateways read it from a TLS client's server name.
    pub fn sni(&self) -> String {
        self.join("_.")
    }

    pub fn parse_sni(text: &str) -> Result<Self, Error> {
        Self::split(text, "_.")
    }

    fn join(&self, separator: &str) -> String {
        let direction = self.direction;
        let host = self.host.as_ref().map_or("", Hostname::as_str);
        let Self { port, subset, .. } = self;
        format!("{direction}{separator}{port}{separator}{subset}{separator}{host}")
    }

    fn split(text: &str, separator: &str) -> Result<Self, Error> {
        let bad = |why| Error::new("the name of a cluster", text, why);
        let parts: Vec<&str> = text.splitn(4, separator).collect();
        let [direction, port, subset, host] = parts[..] else {
            return Err(bad("it has four parts: direction, port, subset, host"));
        };
        let direction = match direction {
            "outbound" => Direction::Outbound,
            "inbound" => Direction::Inbound,
            "inbound-vip" => Direction::InboundVip,
            _ => return Err(bad("it starts with outbound, inbound or inbound-vip")),
        };
        // No sign and no leading zeros, so that one cluster has one name.
        let number = port.parse().map_err(|_| bad("its port is no number up to 65535"))?;
        if u16::to_string(&number) != port {
            return Err(bad("its port is not written plainly"));
        }
        if subset.contains('|') || subset.contains("_.") || subset.ends_with('_') {
            return Err(bad("its subset has a separator in it"));
        }
        let host = match host {
            "" => None,
            host => Some(host.parse()?),
        };
        Ok(Self { direction, port: number, subset: subset.into(), host })
    }
}

impl FromStr for ClusterName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::split(text, "|")
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.join("|"))
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Outbound => "outbound",
            Self::Inbound => "inbound",
            Self::InboundVip => "inbound-vip",
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ClusterName;

    #[test]
    fn names_are_written_as_istio_writes_them() {
        let host: crate::Hostname = "httpbin.foo.svc.cluster.local".parse().unwrap();
        let name = ClusterName::outbound(8000, "v1", host.clone());
        assert_eq!(name.to_string(), "outbound|8000|v1|httpbin.foo.svc.cluster.local");
        assert_eq!(name.sni(), "outbound_.8000_.v1_.httpbin.foo.svc.cluster.local");
        let plain = ClusterName::outbound(8000, "", host);
        assert_eq!(plain.to_string(), "outbound|8000||httpbin.foo.svc.cluster.local");
        assert_eq!(plain.sni(), "outbound_.8000_._.httpbin.foo.svc.cluster.local");
        assert_eq!(ClusterName::inbound(80).to_string(), "inbound|80||");
    }

    #[test]
    fn what_is_no_cluster_name_is_refused() {
        for bad in [
            "",
            "PassthroughCluster",
            "outbound|80|",
            "sideways|80||a",
            "outbound|x||a",
            "outbound|65536||a",
            "outbound|080||a",
            "outbound|+80||a",
            "outbound|80||a|b",
        ] {
            assert!(bad.parse::<ClusterName>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn both_forms_survive(
            direction in "outbound|inbound|inbound-vip", port: u16,
            subset in "([a-z0-9]([-a-z0-9.]{0,10}[a-z0-9])?)?", host in "(\\*\\.)?[a-z]{1,5}(\\.[a-z_]{1,5}){0,3}|",
        ) {
            let text = format!("{direction}|{port}|{subset}|{host}");
            let name: ClusterName = text.parse().unwrap();
            prop_assert_eq!(name.to_string(), text);
            prop_assert_eq!(ClusterName::parse_sni(&name.sni()), Ok(name));
        }

        #[test]
        fn what_parses_is_written_the_same(text in "(in|out)bound\\|[0-9]{1,6}\\|[a-z|_.]{0,9}\\|[a-z|.*]{0,9}") {
            if let Ok(name) = text.parse::<ClusterName>() {
                prop_assert_eq!(name.to_string().parse::<ClusterName>(), Ok(name));
            }
        }
    }
}
