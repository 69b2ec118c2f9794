//! Which crate may use which: a crate depends only on crates of a lower layer.
//!
//! Reads the `Cargo.toml` files as text; the layers are the table below and in ARCHITECTURE.md.

use std::path::Path;

use anyhow::Context;

/// Directory of each crate under `crates/` and its layer. A new crate must be entered here.
const LAYERS: &[(&str, u8)] = &[
    ("sys", 0),
    ("yaml", 0),
    ("gotemplate", 0),
    ("schema", 0),
    ("names", 0),
    ("proto", 0),
    ("telemetry", 0),
    ("api", 1),
    ("patch", 1),
    ("daemon", 1),
    ("profile", 1),
    ("bootstrap", 2),
    ("console", 1),
    ("controlz", 2),
    ("dns", 1),
    ("xds", 1),
    ("identity", 1),
    ("kubestream", 1),
    ("container", 1),
    ("redirect", 1),
    ("podnet", 1),
    ("source", 2),
    ("model", 2),
    ("inject", 2),
    ("kubeapi", 2),
    ("controllers", 3),
    ("ca", 2),
    ("kubeproxy", 3),
    ("kubelet", 3),
    ("kubecontrol", 3),
    ("translate", 3),
    ("jwks", 3),
    ("discovery", 4),
    ("testkit", 4),
];

/// What breaks the order, one line a fault.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut faults = Vec::new();
    for dir in std::fs::read_dir(root.join("crates")).context("listing crates/")? {
        let name = dir?.file_name().to_string_lossy().into_owned();
        let manifest = root.join("crates").join(&name).join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest)
            .with_context(|| format!("reading {}", manifest.display()))?;
        faults.extend(faults_of(&name, &text));
    }
    Ok(faults)
}

fn layer_of(name: &str) -> Option<u8> {
    LAYERS.iter().find(|(n, _)| *n == name).map(|(_, layer)| *layer)
}

fn faults_of(name: &str, manifest: &str) -> Vec<String> {
    let Some(own) = layer_of(name) else {
        return vec![format!("crates/{name} has no layer in xtask/src/layer.rs")];
    };
    dependencies(manifest)
        .filter_map(|dependency| match layer_of(dependency) {
            Some(layer) if layer < own => None,
            Some(layer) => Some(format!(
                "crates/{name} (layer {own}) uses crates/{dependency} (layer {layer})"
            )),
            None => Some(format!("crates/{name} uses ironsail-{dependency}, which has no layer")),
        })
        .collect()
}

/// Our own crates named under `[dependencies]`; tests may use what they like.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    manifest.lines().filter_map(move |line| {
        if line.starts_with('[') {
            inside = line == "[dependencies]";
        }
        let name = line.strip_prefix("ironsail-").filter(|_| inside)?;
        Some(name.split(['.', ' ', '=']).next().unwrap_or(name))
    })
}

#[cfg(test)]
mod tests {
    use super::faults_of;

    #[test]
    fn a_crate_uses_lower_layers_only() {
        let manifest = "[dependencies]\nironsail-sys.workspace = true\nironsail-kubelet = { path = \"x\" }\n\n[dev-dependencies]\nironsail-testkit.workspace = true\n";
        assert_eq!(
            faults_of("kubeapi", manifest),
            ["crates/kubeapi (layer 2) uses crates/kubelet (layer 3)"]
        );
    }

    #[test]
    fn a_crate_without_a_layer_is_a_fault() {
        assert_eq!(faults_of("new", "").len(), 1);
    }
}
