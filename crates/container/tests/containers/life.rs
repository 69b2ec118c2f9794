//! How containers end, and that nothing outlives what it belongs to.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use ironsail_container::{
    ContainerSpec, ExecSpec, ExitStatus, ForkedZygote, RootSpec, Started, ZygoteOptions,
};
use ironsail_sys::cgroup::Cgroups;
use ironsail_sys::{exec, signal, userns};

use crate::bench::{Bench, descendants, read_both, read_until, until};

pub(crate) async fn signals_reach_the_program_and_show_in_its_status(bench: Arc<Bench>) {
    let container = bench.sleeper().await;
    container.signal(signal::TERM);
    assert_eq!(container.wait().await, ExitStatus::signalled(15));
    assert_eq!(container.status().map(|s| s.code), Some(143));

    let script = "trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let Started { container, mut stdio } = bench.start(bench.sh(script)).await;
    let mut stdout = stdio.stdout.take().expect("stdout");
    read_until(&mut stdout, "ready").await;
    container.signal(signal::TERM);
    read_until(&mut stdout, "bye").await;
    assert_eq!(container.wait().await, ExitStatus::exited(3));

    // A signal that someone inside sends to PID 1 is meant for the program.
    let script = "trap 'exit 4' TERM; kill -TERM 1; while :; do sleep 0.05; done";
    assert_eq!(bench.run(bench.sh(script)).await.status, ExitStatus::exited(4));
}

pub(crate) async fn a_killed_container_leaves_no_process(bench: Arc<Bench>) {
    let before = descendants(bench.zygote.pid());
    let script = "trap '' TERM INT HUP; sleep 1000 & setsid sleep 1000 & echo ready; wait; wait";
    let Started { container, mut stdio } = bench.start(bench.sh(script)).await;
    read_until(stdio.stdout.as_mut().expect("stdout"), "ready").await;
    container.kill();
    assert_eq!(container.wait().await, ExitStatus::signalled(9));
    assert_eq!(descendants(bench.zygote.pid()), before);
}

pub(crate) async fn a_dropped_container_is_killed(bench: Arc<Bench>) {
    let before = descendants(bench.zygote.pid());
    let first = bench.sleeper().await;
    let second = first.clone();
    drop(first);
    assert!(descendants(bench.zygote.pid()).len() > before.len());
    drop(second);
    until("the container is gone", || descendants(bench.zygote.pid()) == before).await;
}

pub(crate) async fn a_start_that_nobody_waits_for_is_undone(bench: Arc<Bench>) {
    let before = descendants(bench.zygote.pid());
    let mut start = Box::pin(bench.zygote.start(bench.spec(&["sleep", "1000"])));
    // Polled once: the request is on its way.
    assert!(futures_poll_once(start.as_mut()).await);
    until("it has been forked", || descendants(bench.zygote.pid()) != before).await;
    drop(start);
    until("it is gone", || descendants(bench.zygote.pid()) == before).await;
}

/// Whether the future is still pending after one poll.
async fn futures_poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
    std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

pub(crate) async fn orphans_are_reaped(bench: Arc<Bench>) {
    let container = bench.sleeper().await;
    let script = "(sh -c 'exit 0' & exec sh -c 'exit 0') & exit 0".to_owned();
    for _ in 0..5 {
        let argv = vec!["sh".to_owned(), "-c".to_owned(), script.clone()];
        let exec = container.exec(ExecSpec { argv, ..ExecSpec::default() }).await.expect("exec");
        exec.session.wait().await;
    }
    let pid = descendants(bench.zygote.pid());
    let zombies = || {
        pid.iter()
            .flat_map(|pid| descendants(*pid))
            .filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok())
            .filter(|stat| stat.contains(") Z "))
            .count()
    };
    until("no zombie is left", || zombies() == 0).await;
    assert_eq!(container.status(), None);
}

pub(crate) async fn what_a_program_leaves_behind_ends_with_it(bench: Arc<Bench>) {
    let before = descendants(bench.zygote.pid());
    let output = bench.run(bench.sh("setsid sleep 1000 & exit 5")).await;
    assert_eq!(output.status, ExitStatus::exited(5));
    assert_eq!(descendants(bench.zygote.pid()), before);
}

pub(crate) async fn containers_of_a_pod_can_share_process_ids(bench: Arc<Bench>) {
    let pids = bench.zygote.pod_pids().await.expect("pod");
    let mut spec = bench.spec(&["sleep", "4711"]);
    spec.shared_pids = Some(pids.clone());
    let first = bench.start(spec).await.container;
    let mut spec = bench.sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '");
    spec.shared_pids = Some(pids.clone());
    let seen = bench.says(spec).await;
    assert!(seen.contains("sleep 4711"), "{seen}");
    let argv = ["sh", "-c", "ls -d /proc/[0-9]* | wc -l"].map(str::to_owned).to_vec();
    let exec = first.exec(ExecSpec { argv, ..ExecSpec::default() }).await.expect("exec");
    let (count, _) = read_both(exec.stdio).await;
    assert!(count.trim().parse::<u32>().expect("count") >= 3, "{count}");
    first.signal(signal::TERM);
    assert_eq!(first.wait().await, ExitStatus::signalled(15));
    drop((pids, first));
    let zygote = bench.zygote.pid();
    until("the pod is gone", || descendants(zygote).is_empty()).await;
}

pub(crate) async fn fifty_containers_start_at_once(bench: Arc<Bench>) {
    let mut starts = tokio::task::JoinSet::new();
    for n in 0..50 {
        let bench = Arc::clone(&bench);
        starts.spawn(async move { bench.run(bench.sh(&format!("echo {n}; exit {n}"))).await });
    }
    let mut codes = Vec::new();
    while let Some(output) = starts.join_next().await {
        let output = output.expect("no panic");
        assert_eq!(output.stdout.trim(), output.status.code.to_string());
        codes.push(output.status.code);
    }
    codes.sort_unstable();
    assert_eq!(codes, (0..50).collect::<Vec<_>>());
}

pub(crate) async fn killing_the_program_kills_every_container_of_its_own_only(bench: Arc<Bench>) {
    let own = bench.sleeper().await;
    let mut victims = Vec::new();
    for n in 0..2 {
        let mut child = exec::command("/proc/self/exe")
            .arg("--podlet")
            .arg(bench.scratch())
            .arg(victim(n))
            .stdout(Stdio::piped())
            .spawn()
            .expect("podlet");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout");
        BufReader::new(stdout).read_line(&mut line).expect("line");
        let zygote: i32 = line.trim().parse().expect("zygote's process id");
        let mut processes = descendants(zygote);
        assert!(processes.len() >= 6, "three containers of two processes: {processes:?}");
        processes.push(zygote);
        victims.push((child, processes));
    }
    let alive = |pids: &[i32]| pids.iter().filter(|pid| is_alive(**pid)).count();
    let (mut second, second_pids) = victims.pop().expect("second");
    let (mut first, first_pids) = victims.pop().expect("first");
    first.kill().expect("kill");
    first.wait().expect("wait");
    until("nothing of it is left", || alive(&first_pids) == 0).await;
    assert_eq!(alive(&second_pids), second_pids.len(), "the other one is untouched");
    second.kill().expect("kill");
    second.wait().expect("wait");
    until("nothing of the other is left", || alive(&second_pids) == 0).await;
    assert_eq!(own.status(), None);
    // Only their cgroups are left, for the next start to remove.
    for n in 0..2 {
        let cgroups = Cgroups::open(&victim(n));
        assert_eq!(cgroups.refused().is_some(), bench.zygote.limits_refused().is_some());
        cgroups.remove_all();
    }
    let left = exec::command("find").args(["/sys/fs/cgroup", "-name", "podlet-victim*"]).output();
    let left = String::from_utf8(left.expect("find").stdout).expect("text");
    assert!(!(0..2).any(|n| left.contains(&victim(n))), "{left}");
}

fn victim(n: u32) -> String {
    format!("victim-{n}-{}", std::process::id())
}

fn is_alive(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Starts three containers, tells the zygote's process id, and waits to be killed.
pub(crate) fn play_podlet(arguments: &[String]) {
    userns::enter_if_unprivileged().expect("rights");
    let zygote = ForkedZygote::fork().expect("zygote");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.expect("runtime").block_on(async {
        let stage = PathBuf::from(&arguments[0]).join("stage");
        let options = ZygoteOptions { stage, instance: arguments[1].clone() };
        let zygote = zygote.connect(&options).expect("connect");
        let mut containers = Vec::new();
        for n in 0..3 {
            // Ids may well be the same as those of another program.
            let argv = ["/bin/sh", "-c", "sleep 1000 & wait"];
            let mut spec = ContainerSpec::new(format!("c{n}"), RootSpec::Host, argv);
            spec.limits.pids = Some(100);
            containers.push(zygote.start(spec).await.expect("start"));
        }
        println!("{}", zygote.pid());
        zygote.lost().await;
    });
}
