//! Family `scale`: meshes of growing size; a real Envoy takes every resource of each.
//!
//! The control plane with all that it needs is large, so the work is done by an example of its crate,
//! which cargo builds when it is asked for; here its lines become cases.

use std::path::Path;

use anyhow::{Context, ensure};
use ironsail_sys::{env::Env, exec};

use super::Case;

pub(super) fn cases(data: &Path) -> anyhow::Result<Vec<Case>> {
    let env = Env::of_process();
    let cargo = env.var("CARGO").unwrap_or("cargo");
    let output = exec::command(cargo)
        .args(["run", "--quiet", "--package", "ironsail-discovery", "--example", "scale", "--"])
        .arg(data)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("running cargo")?;
    ensure!(output.status.success(), "the example `scale` ended with {}", output.status);
    let text = String::from_utf8(output.stdout).context("reading what it said")?;
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    let judged = lines.map(|(name, said)| {
        Case::judged(name, if said == "ok" { Ok(()) } else { Err(said.to_owned()) })
    });
    Ok(judged.collect())
}
