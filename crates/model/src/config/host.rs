//! Hosts and gateways as rules write them: short names completed with the rule's namespace.

use ironsail_names::{ClusterDomain, Error, Hostname, Namespace};

/// `reviews` in namespace `a` is `reviews.a.svc.cluster.local`; a name with a dot, and `*`, is taken
/// as it is.
pub fn full_host(
    host: &str,
    namespace: &Namespace,
    domain: &ClusterDomain,
) -> Result<Hostname, Error> {
    match host == "*" || host.contains('.') {
        true => host.parse(),
        false => format!("{host}.{namespace}.svc.{domain}").parse(),
    }
}

/// The gateway that a VirtualService names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GatewayRef {
    /// `mesh`: the sidecars.
    Mesh,
    Named {
        namespace: String,
        name: String,
    },
}

impl GatewayRef {
    /// `mesh`, `name`, `namespace/name`, `./name`; and `name.namespace.svc…`, which is old.
    pub fn parse(text: &str, own: &Namespace) -> Self {
        let named = |namespace: &str, name: &str| {
            let namespace = if namespace == "." { own.as_str() } else { namespace };
            Self::Named { namespace: namespace.to_owned(), name: name.to_owned() }
        };
        match text {
            "mesh" => Self::Mesh,
            _ => match (text.split_once('/'), text.split_once('.')) {
                (Some((namespace, name)), _) => named(namespace, name),
                (None, Some((name, rest))) => named(rest.split('.').next().unwrap_or(rest), name),
                (None, None) => named(own.as_str(), text),
            },
        }
    }

    pub fn named(namespace: &str, name: &str) -> Self {
        Self::Named { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::{GatewayRef, full_host};

    #[test]
    fn short_names_get_the_namespace_of_the_rule() {
        let (own, domain) = ("a".parse().unwrap(), Default::default());
        for (host, full) in [
            ("reviews", "reviews.a.svc.cluster.local"),
            ("reviews.b", "reviews.b"),
            ("*", "*"),
            ("*.com", "*.com"),
        ] {
            assert_eq!(full_host(host, &own, &domain).unwrap().as_str(), full);
        }
        assert!(full_host("", &own, &domain).is_err());
    }

    #[test]
    fn gateways_have_a_namespace() {
        let own = "a".parse().unwrap();
        for (text, namespace, name) in [
            ("gw", "a", "gw"),
            ("b/gw", "b", "gw"),
            ("./gw", "a", "gw"),
            ("gw.b", "b", "gw"),
            ("gw.b.svc.cluster.local", "b", "gw"),
        ] {
            assert_eq!(GatewayRef::parse(text, &own), GatewayRef::named(namespace, name), "{text}");
        }
        assert_eq!(GatewayRef::parse("mesh", &own), GatewayRef::Mesh);
    }
}
