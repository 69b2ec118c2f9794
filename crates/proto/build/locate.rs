//! Where the .proto files of the pinned `envoy-types` package lie.
//!
//! Cargo knows: it is asked for its metadata, first without the network. The package is an optional
//! dependency that nothing enables, so a fresh machine has not fetched it yet; then cargo is asked
//! once more and may fetch it. A vendored copy is found in the same way.

use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "envoy-types";

pub(crate) fn envoy_protos(manifest_dir: &str) -> Result<PathBuf, String> {
    let offline = ask(manifest_dir, &["--offline"]);
    let manifest = match offline {
        Ok(manifest) => manifest,
        Err(first) => ask(manifest_dir, &[]).map_err(|second| {
            format!("cargo cannot find {PACKAGE}: {second} (offline: {first})")
        })?,
    };
    let protos = Path::new(&manifest).with_file_name("proto");
    match protos.is_dir() {
        true => Ok(protos),
        false => Err(format!("{PACKAGE} has no folder {}", protos.display())),
    }
}

/// The path of the package's `Cargo.toml`.
fn ask(manifest_dir: &str, more: &[&str]) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked", "--all-features", "--filter-platform"])
        .arg(std::env::var("TARGET").map_err(|e| format!("TARGET: {e}"))?)
        .arg("--manifest-path")
        .arg(Path::new(manifest_dir).join("Cargo.toml"))
        .args(more)
        .output()
        .map_err(|e| format!("starting cargo: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo's answer: {e}"))?;
    metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["name"] == PACKAGE)
        .and_then(|package| package["manifest_path"].as_str())
        .map(str::to_owned)
        .ok_or_else(|| format!("cargo's answer does not name {PACKAGE}"))
}
