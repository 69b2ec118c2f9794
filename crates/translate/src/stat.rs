//! Names of statistics by the patterns of the mesh configuration.

/// What a pattern may name.
pub(crate) struct Parts<'a> {
    pub(crate) host: &'a str,
    pub(crate) name: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) subset: &'a str,
    pub(crate) port: u16,
    pub(crate) port_name: &'a str,
}

/// `%SERVICE%` is the short name with its namespace, the others say what they are.
pub(crate) fn name(pattern: &str, parts: &Parts<'_>) -> String {
    let port = parts.port.to_string();
    let service = match parts.name.is_empty() || parts.name == parts.host {
        true => parts.host.to_owned(),
        false => format!("{}.{}", parts.name, parts.namespace),
    };
    pattern
        .replace("%SERVICE_FQDN%", parts.host)
        .replace(
            "%SERVICE_PORT_NAME%",
            if parts.port_name.is_empty() { &port } else { parts.port_name },
        )
        .replace("%SERVICE_PORT%", &port)
        .replace("%TARGET_PORT%", &port)
        .replace("%SERVICE_NAME%", parts.name)
        .replace("%SERVICE%", &service)
        .replace("%SUBSET_NAME%", parts.subset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_filled_in() {
        let parts = Parts {
            host: "a.ns.svc.cluster.local",
            name: "a",
            namespace: "ns",
            subset: "v1",
            port: 80,
            port_name: "http",
        };
        assert_eq!(name("%SERVICE%_%SERVICE_PORT%", &parts), "a.ns_80");
        assert_eq!(
            name("%SERVICE_FQDN%_%SERVICE_PORT_NAME%_%SUBSET_NAME%", &parts),
            "a.ns.svc.cluster.local_http_v1"
        );
    }
}
