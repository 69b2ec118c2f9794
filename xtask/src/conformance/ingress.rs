//! Ingresses against the Gateway and the VirtualServices that stand for them.
//!
//! A file `NAME.yaml` has Ingresses, `NAME.yaml.golden` what becomes of them with the cluster domain
//! `mydomain`; compared as sets of objects.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use ironsail_api::mesh::MeshConfig;
use ironsail_api::{Kind, Object, decode};
use ironsail_model::ingress::{Context, convert};
use serde_json::{Value, json};

use super::{Case, read};

pub(super) fn cases(folder: &Path) -> anyhow::Result<Vec<Case>> {
    let mut names: Vec<String> = Vec::new();
    for entry in folder.read_dir().with_context(|| format!("reading {}", folder.display()))? {
        let name = entry.context("reading the folder")?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".yaml") {
            names.push(name);
        }
    }
    names.sort();
    names.into_iter().map(|name| Ok(Case::judged(name.clone(), judge(folder, &name)?))).collect()
}

fn judge(folder: &Path, name: &str) -> anyhow::Result<Result<(), String>> {
    let domain = "mydomain".parse().context("the domain of the data")?;
    let mesh = MeshConfig::default();
    let context = Context { mesh: &mesh, namespace: "istio-system", domain: &domain };
    let mut ours = BTreeMap::new();
    for value in documents(&read(&folder.join(name))?)? {
        let Ok(Object::Ingress(ingress)) = decode(Kind::Ingress, &value).object else {
            return Ok(Err("an Ingress could not be read".into()));
        };
        for object in convert(&ingress, context, |_, _| None) {
            ours.insert(identity(object.kind(), &object.meta().name), object.spec());
        }
    }
    let mut theirs = BTreeMap::new();
    for value in documents(&read(&folder.join(format!("{name}.golden")))?)? {
        let kind = if value["kind"] == "Gateway" { Kind::Gateway } else { Kind::VirtualService };
        let Ok(object) = decode(kind, &value).object else {
            return Ok(Err(format!("an expected {kind} could not be read")));
        };
        theirs.insert(identity(kind, &object.meta().name), object.spec());
    }
    Ok(match ours == theirs {
        true => Ok(()),
        false => Err(format!("ours {}\n    theirs {}", json!(ours), json!(theirs))),
    })
}

fn identity(kind: Kind, name: &str) -> String {
    format!("{kind} {name}")
}

fn documents(text: &str) -> anyhow::Result<Vec<Value>> {
    let all = ironsail_yaml::documents(text).context("YAML of the data")?;
    Ok(all.into_iter().filter(|value| !value.is_null()).collect())
}
