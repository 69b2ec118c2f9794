//! Family `ambient-authz`: AuthorizationPolicy and PeerAuthentication in, the `Authorization` for the
//! node's proxy out, compared as JSON. An empty expectation means that nothing is sent.

use std::path::Path;

use anyhow::{Context, anyhow};
use ironsail_api::istio::security::MutualTlsMode;
use ironsail_api::{Object, decode_any};
use ironsail_proto::to_json;
use ironsail_translate::policy::ambient;
use serde_json::Value;

use super::{Case, read};

const INPUT: &str = "-in.yaml";

pub(super) fn cases(folder: &Path) -> anyhow::Result<Vec<Case>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).context("listing the family")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(INPUT).map(str::to_owned));
    }
    names.sort();
    names
        .into_iter()
        .map(|name| {
            let given: Value =
                ironsail_yaml::parse(&read(&folder.join(format!("{name}{INPUT}")))?)?;
            let wanted = read(&folder.join(format!("{name}.yaml")))?;
            let wanted = match wanted.trim() {
                "" => None,
                text => Some(ironsail_yaml::parse(text)?),
            };
            let seen = made(&given).with_context(|| name.clone())?;
            let result = match seen == wanted {
                true => Ok(()),
                false => Err(format!("{} instead of {}", shown(seen), shown(wanted))),
            };
            Ok(Case::judged(name, result))
        })
        .collect()
}

fn made(given: &Value) -> anyhow::Result<Option<Value>> {
    let root = "istio-system".parse()?;
    let decoded = decode_any(given).ok_or_else(|| anyhow!("no object: {given}"))?;
    let made = match decoded.object.map_err(|error| anyhow!("{error}"))? {
        Object::AuthorizationPolicy(policy) => ambient::authorization(&policy, &root),
        Object::PeerAuthentication(policy) => {
            ambient::peer_authentication(&policy, &root, MutualTlsMode::Permissive)
        }
        other => return Err(anyhow!("an unexpected kind: {}", other.kind())),
    };
    Ok(made.map(|made| to_json(&made)).transpose()?)
}

fn shown(value: Option<Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), |value| value.to_string())
}
