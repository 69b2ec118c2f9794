//! The bootstrap from the control plane (`BOOTSTRAP_XDS_AGENT`): with the patches that EnvoyFilters have
//! for it. Asked for once, before Envoy is started; without an answer Envoy is not started.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use ironsail_bootstrap::Node;
use ironsail_proto::envoy::config::core::v3;
use ironsail_proto::envoy::service::discovery::v3::DiscoveryRequest;
use ironsail_proto::to_json_any;
use tracing::{info, warn};

use super::relay::{Upstream, open_own};

const BOOTSTRAP: &str = "type.googleapis.com/envoy.config.bootstrap.v3.Bootstrap";
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Writes the control plane's bootstrap to `file`; tries until there is one.
pub(crate) async fn write(upstream: &Upstream, node: &Node, file: &Path) -> anyhow::Result<()> {
    let mut pause = FIRST_PAUSE;
    let text = loop {
        let asked = tokio::time::timeout(PATIENCE, ask(upstream, node)).await;
        match asked.unwrap_or_else(|_| bail_late()) {
            Ok(text) => break text,
            Err(error) => warn!(target: "agent", "asking for the bootstrap: {error:#}"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    };
    std::fs::write(file, text).with_context(|| format!("writing {}", file.display()))?;
    info!(target: "agent", "the bootstrap is the control plane's: {}", file.display());
    Ok(())
}

fn bail_late() -> anyhow::Result<String> {
    bail!("no answer within {PATIENCE:?}")
}

async fn ask(upstream: &Upstream, node: &Node) -> anyhow::Result<String> {
    let request = DiscoveryRequest {
        node: Some(v3::Node {
            id: node.id.clone(),
            cluster: node.cluster.clone(),
            locality: Some(v3::Locality {
                region: node.locality.region().to_owned(),
                zone: node.locality.zone().to_owned(),
                sub_zone: node.locality.subzone().to_owned(),
            }),
            metadata: Some(node.metadata.clone().into()),
            ..v3::Node::default()
        }),
        type_url: BOOTSTRAP.to_owned(),
        ..DiscoveryRequest::default()
    };
    let (_open, mut answers) = open_own(upstream, &request).await.context("connecting")?;
    while let Some(answer) = answers.message().await.context("receiving")? {
        if let Some(one) = answer.resources.first().filter(|_| answer.type_url == BOOTSTRAP) {
            let mut json = to_json_any(one).context("reading it")?;
            if let Some(fields) = json.as_object_mut() {
                fields.remove("@type");
            }
            return Ok(format!("{json:#}\n"));
        }
    }
    bail!("the control plane has none")
}
