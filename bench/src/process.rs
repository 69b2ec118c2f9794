//! What a process has used, from `/proc`.

use anyhow::Context;

/// Kernel clock ticks a second; fixed at 100 on every Linux that Rust supports.
const TICKS: f64 = 100.0;

/// Seconds of processor time that `pid` has used itself.
pub(crate) fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("reading the times of process {pid}"))?;
    // The name may hold spaces; it ends with the last parenthesis.
    let rest = text.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let tick = |i: usize| fields.get(i).and_then(|f| f.parse::<f64>().ok()).unwrap_or_default();
    Ok((tick(11) + tick(12)) / TICKS)
}

/// Resident memory of `pid` in MB.
pub(crate) fn resident_mb(pid: u32) -> anyhow::Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("reading the memory of process {pid}"))?;
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap_or_default();
    let kb: f64 = line.trim().trim_end_matches(" kB").parse().context("VmRSS")?;
    Ok(kb / 1000.0)
}
