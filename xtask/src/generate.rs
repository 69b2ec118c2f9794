//! `cargo xtask gen`: files of the repository that are made from code.
//!
//! `tidy` makes them as well and compares, so that a stale file is a fault.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

const FOLDER: &str = "manifests/crds";

/// Path and text of every such file.
fn files() -> Vec<(PathBuf, String)> {
    let file = |crd: Value| {
        let name = crd["metadata"]["name"].as_str().unwrap_or_default();
        let path = Path::new(FOLDER).join(format!("{name}.yaml"));
        let mut text = "# Made by `cargo xtask gen` from crates/api; change it there.\n".to_owned();
        yaml(&crd, 0, false, &mut text);
        (path, text)
    };
    ironsail_api::crd::all().into_iter().map(file).collect()
}

pub(crate) fn write(root: &Path) -> anyhow::Result<bool> {
    let folder = root.join(FOLDER);
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let files = files();
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        if !files.iter().any(|(known, _)| root.join(known) == path) {
            std::fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
        }
    }
    for (path, text) in &files {
        std::fs::write(root.join(path), text)
            .with_context(|| format!("writing {}", path.display()))?;
    }
    println!("gen: {} files in {FOLDER}", files.len());
    Ok(true)
}

/// One line for each file that is not as it would be made now.
pub(crate) fn stale(root: &Path) -> Vec<String> {
    let is_stale = |(path, text): &(PathBuf, String)| {
        std::fs::read_to_string(root.join(path)).ok().as_ref() != Some(text)
    };
    let line = |(path, _): (PathBuf, String)| {
        format!("{} is stale: run `cargo xtask gen`", path.display())
    };
    files().into_iter().filter(is_stale).map(line).collect()
}

/// Block YAML of a value.
fn yaml(value: &Value, depth: usize, in_list: bool, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (index, (key, value)) in map.iter().enumerate() {
                if index > 0 || !in_list {
                    indent(depth, out);
                }
                out.push_str(&scalar(&Value::from(key.as_str())));
                out.push(':');
                below(value, depth, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                indent(depth, out);
                out.push_str("- ");
                match item {
                    Value::Object(map) if !map.is_empty() => yaml(item, depth + 1, true, out),
                    other => {
                        let _ = writeln!(out, "{}", scalar(other));
                    }
                }
            }
        }
        other => {
            let _ = writeln!(out, "{}", scalar(other));
        }
    }
}

/// Text without quotes where it stays text, everything else as JSON, which YAML reads the same.
fn scalar(value: &Value) -> String {
    const OTHER: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    let plain = |text: &&str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_./".contains(&b))
            && !OTHER.contains(&text.to_ascii_lowercase().as_str())
    };
    value.as_str().filter(plain).map_or_else(|| value.to_string(), str::to_owned)
}

/// The value of a key: on the same line if it is short, below it otherwise.
fn below(value: &Value, depth: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            yaml(value, depth + 1, false, out);
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            out.push('\n');
            yaml(value, depth, false, out);
        }
        other => {
            let _ = writeln!(out, " {}", scalar(other));
        }
    }
}

fn indent(depth: usize, out: &mut String) {
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_yaml_of_a_crd_reads_as_the_crd() {
        for (crd, (path, text)) in ironsail_api::crd::all().into_iter().zip(files()) {
            let read = ironsail_yaml::documents(&text).unwrap();
            assert_eq!(read, [crd], "{}", path.display());
        }
    }
}
