//! Limits, and what containers themselves cost.

use std::sync::Arc;

use ironsail_sys::userns::Privilege;

use crate::bench::{Bench, descendants};

/// Root can always make cgroups where there are any; others may be refused, and are told why.
fn expect_refusal(bench: &Bench) -> bool {
    let refused = bench.zygote.limits_refused();
    if bench.privilege == Privilege::Root {
        assert_eq!(refused, None);
    }
    refused.is_some()
}

pub(crate) async fn too_much_memory_is_told_as_such_or_limits_are_refused(bench: Arc<Bench>) {
    let mut spec = bench.sh("head -c 200000000 /dev/zero | tail -c 200000000 | wc -c");
    spec.limits.memory_bytes = Some(32 << 20);
    let output = bench.run(spec).await;
    assert_eq!(output.status.oom_killed, !expect_refusal(&bench), "{output:?}");

    let mut spec = bench.spec(&["perl", "-e", "$x = 'x' x 100_000_000; sleep 1000"]);
    spec.limits.memory_bytes = Some(32 << 20);
    if !expect_refusal(&bench) {
        let output = bench.run(spec).await;
        assert!(output.status.oom_killed && output.status.code == 137, "{output:?}");
    }
}

pub(crate) async fn process_limits_hold_or_are_refused(bench: Arc<Bench>) {
    let script = "for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done; jobs | wc -l; kill $(jobs -p)";
    let mut spec = bench.sh(script);
    spec.limits.pids = Some(4);
    spec.limits.cpu_millis = Some(500);
    spec.limits.cpu_request_millis = Some(100);
    let output = bench.run(spec).await;
    if !expect_refusal(&bench) {
        assert!(output.stderr.contains("fork"), "{output:?}");
    }
}

pub(crate) async fn memory_of_twenty_containers_is_small(bench: Arc<Bench>) {
    let mut containers = Vec::new();
    for _ in 0..20 {
        containers.push(bench.sleeper().await);
    }
    let zygote = bench.zygote.pid();
    let ours = |pid: &i32| {
        let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        comm.starts_with("podlet-")
    };
    let supervisors: Vec<i32> = descendants(zygote).into_iter().filter(ours).collect();
    let kilobytes = |pid: i32, key: &str| -> u64 {
        let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("rollup");
        let line = rollup.lines().find(|line| line.starts_with(key)).expect("key");
        line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("number")
    };
    let pss: u64 = supervisors.iter().map(|pid| kilobytes(*pid, "Pss:")).sum();
    let rss: u64 = supervisors.iter().map(|pid| kilobytes(*pid, "Rss:")).sum();
    println!(
        "    zygote: {} kB (Pss); 20 supervisors: {pss} kB (Pss), {rss} kB (Rss)",
        kilobytes(zygote, "Pss:"),
    );
    assert!(supervisors.len() >= 20);
    assert!(pss < 20 * 1024, "less than a megabyte each: {pss} kB");
}
