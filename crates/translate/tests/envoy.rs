//! The real Envoy accepts what the cases of `testdata` translate to, without a word of deprecation.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "golden/case.rs"]
#[allow(dead_code, reason = "each test uses its part of it")]
mod case;

use std::path::{Path, PathBuf};

use case::Case;
use ironsail_proto::to_json;
use ironsail_sys::{env::Env, exec};
use ironsail_translate::{cluster, endpoint};
use serde_json::{Value, json};

#[test]
fn envoy_takes_every_cluster_and_load_assignment() {
    let files = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for folder in case::folders() {
        let case = Case::load(&folder);
        let mut clusters = vec![agent(), control_plane()];
        for view in cluster::views(&case.snapshot, &case.scope, &case.class) {
            clusters.push(to_json(&cluster::translate(&view).value).unwrap());
        }
        for view in endpoint::views(&case.snapshot, &case.scope, &case.class) {
            // Validation does not fetch endpoints, so they are given by hand.
            let assignment = to_json(&endpoint::translate(&view).value).unwrap();
            let name = format!("static {}", view.asked_as());
            clusters.push(json!({"name": name, "type": "STATIC", "loadAssignment": assignment}));
        }
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let file = files.path().join(format!("{name}.json"));
        std::fs::write(&file, bootstrap(&clusters).to_string()).unwrap();
        if let Err(said) = validate(&file) {
            wrong.push(format!("{name}: {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn validate(file: &Path) -> Result<(), String> {
    let output = exec::command(program())
        .args(["--mode", "validate", "--config-path"])
        .arg(file)
        .output()
        .expect("envoy is on PATH or among the tools that scripts/setup installs");
    let log = String::from_utf8_lossy(&output.stderr);
    let loud = |line: &&str| {
        ["[warning]", "[error]", "[critical]"].iter().any(|level| line.contains(level))
    };
    let said: Vec<&str> = log.lines().filter(loud).collect();
    match output.status.success() && said.is_empty() {
        true => Ok(()),
        false => Err(format!("{}\n{}", output.status, said.join("\n"))),
    }
}

fn bootstrap(clusters: &[Value]) -> Value {
    let xds = json!({"api_type": "GRPC", "transport_api_version": "V3",
        "grpc_services": [{"envoy_grpc": {"cluster_name": "xds-grpc"}}]});
    json!({
        "node": {"id": "sidecar~10.0.0.1~a.b~b.svc.cluster.local", "cluster": "a.b"},
        "dynamic_resources": {"ads_config": xds},
        "static_resources": {"clusters": clusters},
    })
}

fn agent() -> Value {
    pipe("sds-grpc", "./var/run/secrets/workload-spiffe-uds/socket")
}

fn control_plane() -> Value {
    pipe("xds-grpc", "./etc/istio/proxy/XDS")
}

fn pipe(name: &str, path: &str) -> Value {
    json!({
        "name": name, "type": "STATIC",
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}}
            }
        },
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [
            {"endpoint": {"address": {"pipe": {"path": path}}}}
        ]}]}
    })
}

/// From `IRONSAIL_ENVOY`, from where scripts/setup puts it, or from PATH.
fn program() -> PathBuf {
    let env = Env::of_process();
    if let Some(path) = env.var("IRONSAIL_ENVOY") {
        return path.into();
    }
    let cache = match (env.var("IRONSAIL_CACHE"), env.var("HOME")) {
        (Some(cache), _) => PathBuf::from(cache),
        (None, home) => PathBuf::from(home.unwrap_or("/root")).join(".cache/ironsail"),
    };
    let installed = cache.join("tools/bin/envoy");
    if installed.exists() { installed } else { "envoy".into() }
}
