//! `namespace/host` as Sidecars and Gateways write it.

use ironsail_names::{Hostname, Namespace};

/// Which hosts of which namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPattern {
    pub namespace: NamespacePattern,
    pub host: Hostname,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NamespacePattern {
    /// `*`
    Any,
    /// `~`
    None,
    /// `.` has become the own namespace.
    One(Namespace),
}

impl HostPattern {
    /// `namespace/host`, `./host`, `*/host`, `~/*`; without a slash, any namespace. None if it is no
    /// such thing.
    pub fn parse(text: &str, own: &Namespace) -> Option<Self> {
        let (namespace, host) = text.split_once('/').unwrap_or(("*", text));
        let namespace = match namespace {
            "*" => NamespacePattern::Any,
            "~" => NamespacePattern::None,
            "." => NamespacePattern::One(own.clone()),
            name => NamespacePattern::One(name.parse().ok()?),
        };
        Some(Self { namespace, host: host.parse().ok()? })
    }

    /// Whether a host of a namespace may be meant.
    pub fn includes(&self, host: &Hostname, namespace: &str) -> bool {
        let there = match &self.namespace {
            NamespacePattern::Any => true,
            NamespacePattern::None => false,
            NamespacePattern::One(name) => name.as_str() == namespace,
        };
        there && self.host.matches(host)
    }
}

#[cfg(test)]
mod tests {
    use super::HostPattern;

    #[test]
    fn patterns_name_a_namespace_and_a_host() {
        let own = "own".parse().unwrap();
        for (pattern, host, namespace, included) in [
            ("*/*", "a.b", "x", true),
            ("./*", "a.b", "own", true),
            ("./*", "a.b", "x", false),
            ("x/*", "a.b", "x", true),
            ("x/*.b", "a.b", "x", true),
            ("x/*.c", "a.b", "x", false),
            ("x/a.b", "a.b", "x", true),
            ("~/*", "a.b", "own", false),
            ("a.b", "a.b", "x", true),
        ] {
            let parsed = HostPattern::parse(pattern, &own).unwrap();
            assert_eq!(parsed.includes(&host.parse().unwrap(), namespace), included, "{pattern}");
        }
        assert_eq!(HostPattern::parse("A!/x", &own), None);
        assert_eq!(HostPattern::parse("x/", &own), None);
    }
}
