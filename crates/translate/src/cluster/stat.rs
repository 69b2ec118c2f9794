//! Names of clusters in statistics, by the mesh's pattern.

use ironsail_model::{Service, ServicePort};

use crate::stat::{self, Parts};

/// `pattern` with its placeholders filled in, and the delimiter that the bootstrap's tags look for.
pub(crate) fn name(
    pattern: &str,
    service: &Service,
    port: &ServicePort,
    subset: &str,
    target: Option<u16>,
) -> String {
    let target = target.map(|port| port.to_string()).unwrap_or_default();
    let parts = Parts {
        host: service.hostname().as_str(),
        name: &service.name,
        namespace: service.namespace().as_str(),
        subset,
        port: port.number,
        port_name: &port.name,
    };
    format!("{};", stat::name(&pattern.replace("%TARGET_PORT%", &target), &parts))
}
