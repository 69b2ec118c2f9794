//! Names of clusters in statistics, by the mesh's pattern.

use ironsail_model::{Service, ServicePort};

/// `pattern` with its placeholders filled in, and the delimiter that the bootstrap's tags look for.
pub(crate) fn name(
    pattern: &str,
    service: &Service,
    port: &ServicePort,
    subset: &str,
    target: Option<u16>,
) -> String {
    let host = service.hostname().as_str();
    let short = format!("{}.{}", service.name, service.namespace());
    let short = if host.starts_with(&short) { short.as_str() } else { host };
    let target = target.map(|port| port.to_string()).unwrap_or_default();
    let name = pattern
        .replace("%SERVICE_FQDN%", host)
        .replace("%SERVICE_NAME%", &service.name)
        .replace("%SERVICE_PORT_NAME%", &port.name)
        .replace("%SERVICE_PORT%", &port.number.to_string())
        .replace("%SERVICE%", short)
        .replace("%TARGET_PORT%", &target)
        .replace("%SUBSET_NAME%", subset);
    format!("{name};")
}
