//! The world of files, as if it were a mesh.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use ironsail_explain::World;
use ironsail_explain::offline;
use serde_json::Value;

use crate::cluster::Named;
use crate::failure::Failure;
use crate::global::Global;

/// A file may be this long; more is no configuration.
const LONGEST: u64 = 256 << 20;

/// The world, and the pod that `source` means in it.
pub(super) fn world(
    files: &[PathBuf],
    source: &str,
    global: &Global,
) -> Result<(World, String), Failure> {
    let mut documents = Vec::new();
    for file in files {
        read(file, &mut documents)?;
    }
    let namespace = global.namespace.as_deref().unwrap_or("default");
    let made = offline::world(documents, namespace, &global.istio_namespace);
    for problem in &made.problems {
        eprintln!("istioctl: left out: {problem}");
    }
    let named = Named::parse(source, namespace).map_err(|error| Failure::setting(error.to_string()))?;
    let pods = offline::pods_of(&made.world, named.kind, &named.name, &named.namespace);
    let pod = pods.first().map(|pod| pod.id.clone());
    let pod = pod.ok_or_else(|| Failure::setting(format!("the files have no pod of {named}")))?;
    Ok((made.world, pod))
}

fn read(path: &Path, documents: &mut Vec<Value>) -> anyhow::Result<()> {
    let reading = || format!("reading {}", path.display());
    if path == Path::new("-") {
        return parse(&text(std::io::stdin().lock()).with_context(reading)?, documents).with_context(reading);
    }
    if path.is_dir() {
        let mut entries: Vec<PathBuf> = std::fs::read_dir(path)
            .with_context(reading)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()
            .with_context(reading)?;
        entries.sort();
        let wanted = |path: &PathBuf| {
            let kind = path.extension().and_then(|kind| kind.to_str());
            path.is_dir() || matches!(kind, Some("yaml" | "yml" | "json"))
        };
        return entries.iter().filter(|path| wanted(path)).try_for_each(|path| read(path, documents));
    }
    let file = std::fs::File::open(path).with_context(reading)?;
    parse(&text(file).with_context(reading)?, documents).with_context(reading)
}

fn text(from: impl std::io::Read) -> anyhow::Result<String> {
    let mut text = String::new();
    from.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// A list stands for its items, as `kubectl get -o yaml` prints it.
fn parse(text: &str, documents: &mut Vec<Value>) -> anyhow::Result<()> {
    for document in ironsail_yaml::documents(text)? {
        let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
        match document["items"].as_array().filter(|_| is_list) {
            Some(items) => documents.extend(items.iter().cloned()),
            None => documents.push(document),
        }
    }
    Ok(())
}
