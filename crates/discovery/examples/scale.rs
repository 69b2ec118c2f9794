//! Meshes written as Go templates, of growing size, before a real Envoy: each resource must be taken.
//!
//! In: a folder of templates (`.Services`, `.Instances`); out: a line a file, its name and `ok` or what
//! was wrong, with a tab between. `cargo xtask conformance` runs it.

#![allow(clippy::unwrap_used, reason = "whoever runs it sees what failed")]

#[path = "../tests/world/envoy.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod envoy;
#[path = "../tests/world/server.rs"]
#[allow(dead_code, reason = "tests use the rest")]
mod server;

use std::path::Path;
use std::time::Duration;

use envoy::{Envoy, node};
use ironsail_bootstrap::Node;
use ironsail_discovery::{Kind, SyncStatus};
use ironsail_gotemplate::{Functions, Numbers, Templates, Value};
use serde_json::json;
use server::World;

/// How many services and instances each template is rendered with.
const SIZES: [(u32, u32); 2] = [(5, 10), (200, 400)];
/// How long Envoy may take for the largest.
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::main]
async fn main() {
    let folder = std::env::args().nth(1).expect("a folder of templates");
    let entries = std::fs::read_dir(&folder).expect("the folder can be read");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("its entries too").path()).collect();
    files.retain(|file| file.extension().is_some_and(|end| end == "yaml"));
    files.sort();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut said = "ok".to_owned();
        for size in SIZES {
            if let Err(why) = judge(&file, size).await {
                said = format!("with {} services: {why}", size.0).replace(['\n', '\t'], " ");
                break;
            }
        }
        println!("{name}\t{said}");
    }
}

async fn judge(file: &Path, (services, instances): (u32, u32)) -> Result<(), String> {
    let text = std::fs::read_to_string(file).map_err(|e| e.to_string())?;
    let mut templates = Templates::new(Functions::sprig());
    templates.parse("mesh", &text).map_err(|e| e.to_string())?;
    let data = json!({"Services": services, "Instances": instances});
    let data = Value::from_json(&data, Numbers::Int).map_err(|e| e.to_string())?;
    let text = templates.render_value("mesh", data).map_err(|e| e.to_string())?;
    let documents = ironsail_yaml::documents(&text).map_err(|e| e.to_string())?;
    let mut world = World::start("").await;
    for mut document in documents {
        if document["metadata"]["namespace"].is_null() {
            document["metadata"]["namespace"] = "default".into();
        }
        world.memory.apply_value(&document).await.map_err(|e| e.to_string())?;
    }
    let wrong = world.memory.board().findings().objects;
    if let Some(finding) = wrong.into_values().flatten().find(ironsail_api::Diagnostic::is_error) {
        return Err(finding.to_string());
    }
    let gateway = text.contains("kind: Gateway");
    for proxy in [true, false].into_iter().filter(|sidecar| *sidecar || gateway) {
        takes_all(&world, &proxy_node(proxy), gateway && !proxy).await?;
    }
    world.stop().await;
    Ok(())
}

/// A proxy at the address where the templates have theirs.
fn proxy_node(sidecar: bool) -> Node {
    let mut own = node("benchmark", "default");
    let kind = if sidecar { "sidecar" } else { "router" };
    own.id = format!("{kind}~1.1.1.1~benchmark.default~default.svc.cluster.local");
    own.metadata.insert("INSTANCE_IPS".into(), "1.1.1.1".into());
    let labels = json!({"istio.io/benchmark": "true", "istio": "ingressgateway"});
    own.metadata.insert("LABELS".into(), labels);
    own
}

async fn takes_all(world: &World, node: &Node, routes: bool) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a folder for Envoy can be made");
    world.serve_unix(&folder.path().join("xds"));
    let envoy = Envoy::start(folder.path(), node.clone()).await;
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let own = world.engine.connections();
        let types = own.first().map(|connection| connection.types()).unwrap_or_default();
        for (type_url, state) in &types {
            if let Some(nack) = &state.nack {
                return Err(format!("{type_url}: {}", nack.rejection.message));
            }
        }
        let synced =
            |state: &ironsail_discovery::TypeState| matches!(state.status(), SyncStatus::Synced);
        let has = |kind: Kind| types.get(kind.type_url()).is_some_and(synced);
        let all = has(Kind::Cluster) && has(Kind::Listener) && (!routes || has(Kind::Route));
        if all && types.values().all(synced) {
            break;
        }
        if tokio::time::Instant::now() > end {
            let states: Vec<_> =
                types.iter().map(|(t, s)| format!("{t} {:?}", s.status())).collect();
            return Err(format!("it is not in sync: {states:?} {}", tail(&envoy.log())));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let refused = Kind::ALL.into_iter().find(|kind| world.engine.counts().of(*kind).rejected > 0);
    drop(envoy);
    // The next proxy is the only one again.
    server::until("the proxy is gone", || world.engine.connections().is_empty()).await;
    refused.map_or(Ok(()), |kind| Err(format!("{kind} was refused")))
}

fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}
