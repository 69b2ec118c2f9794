//! `grpc-bootstrap.json`: where a proxyless gRPC client finds the mesh.

use serde_json::{Value, json};

use crate::Node;

/// How a gRPC client of this workload reaches discovery: through the agent's socket. The certificates
/// are files that the agent writes there, if it does.
pub fn grpc(node: &Node, xds_socket: &str, certificates: Option<&str>) -> Value {
    let mut metadata = node.metadata.clone();
    metadata.insert("GENERATOR".to_owned(), "grpc".into());
    let mut root = json!({
        "xds_servers": [{
            "server_uri": format!("unix://{xds_socket}"),
            "channel_creds": [{"type": "insecure"}],
            "server_features": ["xds_v3"],
        }],
        "node": {"id": node.id, "metadata": metadata},
        "server_listener_resource_name_template": "xds.istio.io/grpc/lds/inbound/%s",
    });
    if let Some(folder) = certificates {
        root["certificate_providers"] = json!({"default": {
            "plugin_name": "file_watcher",
            "config": {
                "certificate_file": format!("{folder}/cert-chain.pem"),
                "private_key_file": format!("{folder}/key.pem"),
                "ca_certificate_file": format!("{folder}/root-cert.pem"),
                "refresh_interval": "900s",
            },
        }});
    }
    root
}
