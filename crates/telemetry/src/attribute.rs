//! The attributes that expressions may ask for: their names, and Envoy's numbers of them.

/// What kind of value an attribute has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Text,
    Number,
    Flag,
}

/// By Envoy's number.
const KNOWN: &[(u32, &str, &str, Shape)] = &[
    (0, "request", "path", Shape::Text),
    (1, "request", "url_path", Shape::Text),
    (2, "request", "host", Shape::Text),
    (3, "request", "scheme", Shape::Text),
    (4, "request", "method", Shape::Text),
    (6, "request", "referer", Shape::Text),
    (7, "request", "useragent", Shape::Text),
    (9, "request", "id", Shape::Text),
    (10, "request", "protocol", Shape::Text),
    (11, "request", "query", Shape::Text),
    (13, "request", "size", Shape::Number),
    (14, "request", "total_size", Shape::Number),
    (15, "response", "code", Shape::Number),
    (16, "response", "code_details", Shape::Text),
    (17, "response", "flags", Shape::Number),
    (21, "response", "size", Shape::Number),
    (22, "response", "total_size", Shape::Number),
    (24, "source", "address", Shape::Text),
    (25, "source", "port", Shape::Number),
    (26, "destination", "address", Shape::Text),
    (27, "destination", "port", Shape::Number),
    (28, "connection", "id", Shape::Number),
    (29, "connection", "mtls", Shape::Flag),
    (30, "connection", "requested_server_name", Shape::Text),
    (31, "connection", "tls_version", Shape::Text),
    (32, "connection", "subject_local_certificate", Shape::Text),
    (33, "connection", "subject_peer_certificate", Shape::Text),
    (34, "connection", "dns_san_local_certificate", Shape::Text),
    (35, "connection", "dns_san_peer_certificate", Shape::Text),
    (36, "connection", "uri_san_local_certificate", Shape::Text),
    (37, "connection", "uri_san_peer_certificate", Shape::Text),
    (39, "connection", "transport_failure_reason", Shape::Text),
    (40, "connection", "termination_details", Shape::Text),
    (41, "upstream", "address", Shape::Text),
    (42, "upstream", "port", Shape::Number),
    (43, "upstream", "tls_version", Shape::Text),
    (48, "upstream", "uri_san_local_certificate", Shape::Text),
    (49, "upstream", "uri_san_peer_certificate", Shape::Text),
    (51, "upstream", "local_address", Shape::Text),
    (52, "upstream", "transport_failure_reason", Shape::Text),
    (57, "xds", "cluster_name", Shape::Text),
    (61, "xds", "route_name", Shape::Text),
];

/// The number and kind of `root.name`.
pub fn find(root: &str, name: &str) -> Option<(u32, Shape)> {
    let found = KNOWN.iter().find(|(_, r, n, _)| *r == root && *n == name)?;
    Some((found.0, found.3))
}

/// Whether the module can answer for this attribute at all.
pub fn is_known(path: &[String]) -> bool {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let path = path.strip_prefix(&["filter_state"]).unwrap_or(&path);
    match path {
        ["request" | "response", "headers"] | ["request" | "response", "headers", _] => true,
        ["upstream_peer" | "downstream_peer", field, rest @ ..] => {
            let fields = [
                "workload",
                "name",
                "namespace",
                "cluster",
                "service",
                "revision",
                "app",
                "version",
            ];
            (fields.contains(field) && rest.is_empty())
                || (*field == "labels" && (1..=2).contains(&rest.len()))
        }
        ["node", "metadata", rest @ ..] | ["xds", "node", "metadata", rest @ ..] => {
            matches!(rest, ["WORKLOAD_NAME" | "NAMESPACE" | "CLUSTER_ID"] | ["LABELS", _])
        }
        [root, name] => find(root, name).is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(path: &str) -> bool {
        is_known(&path.split('/').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_attributes_of_the_documentation_are_known_and_others_are_not() {
        for path in [
            "request/method",
            "request/headers/x-user",
            "destination/port",
            "response/code",
            "filter_state/downstream_peer/labels/app/value",
            "upstream_peer/workload",
            "node/metadata/NAMESPACE",
            "xds/cluster_name",
        ] {
            assert!(known(path), "{path}");
        }
        for path in ["request", "request/nope", "metadata/filter_metadata/x", "plugin_name"] {
            assert!(!known(path), "{path}");
        }
    }
}
