//! The environment variables that tell a pod of Services.
//!
//! In come Services, out go `NAME_SERVICE_HOST` and its kin. Headless Services have none.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;

/// Variables for every Service in `services` that has a cluster address.
pub fn variables<'a>(services: impl IntoIterator<Item = &'a Service>) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for service in services {
        add(service, &mut out);
    }
    out
}

fn add(service: &Service, out: &mut BTreeMap<String, String>) {
    let (Some(name), Some(spec)) = (service.metadata.name.as_deref(), service.spec.as_ref()) else {
        return;
    };
    let Some(ip) = spec.cluster_ip.as_deref().filter(|ip| !ip.is_empty() && *ip != "None") else {
        return;
    };
    let ports = spec.ports.as_deref().unwrap_or_default();
    let Some(first) = ports.first() else { return };
    let prefix = shout(name);
    out.insert(format!("{prefix}_SERVICE_HOST"), ip.to_owned());
    out.insert(format!("{prefix}_SERVICE_PORT"), first.port.to_string());
    let host = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
    for (index, port) in ports.iter().enumerate() {
        if let Some(name) = port.name.as_deref().filter(|n| !n.is_empty()) {
            out.insert(format!("{prefix}_SERVICE_PORT_{}", shout(name)), port.port.to_string());
        }
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let url = format!("{}://{host}:{}", protocol.to_lowercase(), port.port);
        if index == 0 {
            out.insert(format!("{prefix}_PORT"), url.clone());
        }
        let key = format!("{prefix}_PORT_{}_{}", port.port, protocol.to_uppercase());
        out.insert(format!("{key}_PROTO"), protocol.to_lowercase());
        out.insert(format!("{key}_PORT"), port.port.to_string());
        out.insert(format!("{key}_ADDR"), ip.to_owned());
        out.insert(key, url);
    }
}

fn shout(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_service_becomes_its_docker_style_variables() {
        let service: Service = serde_json::from_value(json!({
            "metadata": {"name": "my-db"},
            "spec": {"clusterIP": "10.96.0.7", "ports": [{"name": "sql-x", "port": 5432}, {"port": 53, "protocol": "UDP"}]}
        }))
        .unwrap();
        let vars = variables([&service]);
        let want = [
            ("MY_DB_SERVICE_HOST", "10.96.0.7"),
            ("MY_DB_SERVICE_PORT", "5432"),
            ("MY_DB_SERVICE_PORT_SQL_X", "5432"),
            ("MY_DB_PORT", "tcp://10.96.0.7:5432"),
            ("MY_DB_PORT_5432_TCP", "tcp://10.96.0.7:5432"),
            ("MY_DB_PORT_5432_TCP_PROTO", "tcp"),
            ("MY_DB_PORT_5432_TCP_PORT", "5432"),
            ("MY_DB_PORT_5432_TCP_ADDR", "10.96.0.7"),
            ("MY_DB_PORT_53_UDP", "udp://10.96.0.7:53"),
        ];
        for (key, value) in want {
            assert_eq!(vars.get(key).map(String::as_str), Some(value), "{key}");
        }
    }

    #[test]
    fn a_headless_service_has_no_variables() {
        let service: Service = serde_json::from_value(json!({
            "metadata": {"name": "x"}, "spec": {"clusterIP": "None", "ports": [{"port": 1}]}
        }))
        .unwrap();
        assert!(variables([&service]).is_empty());
    }
}
