//! How Envoy may end, and that each is told from the others.

use std::time::Duration;

use ironsail_sys::cgroup::{Cgroups, GroupLimits};
use ironsail_sys::exec::{Signal, send_signal};

use crate::stage::{Stage, path};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_envoy_a_crashed_one_and_one_that_hangs_are_told_apart_and_come_back() {
    let stage = Stage::new();
    let agent = stage.start("", &[("PROXY_HANG_TIMEOUT", "3s")]);
    agent.is_ready().await;
    let endings = [
        (Signal::SIGKILL, "Envoy ended: killed (SIGKILL)"),
        (Signal::SIGSEGV, "Envoy ended: it crashed"),
        (Signal::SIGSTOP, "Envoy hangs: its process"),
    ];
    for (signal, words) in endings {
        let (skip, envoy) = (agent.log().len(), agent.envoy().unwrap());
        send_signal(envoy, signal);
        agent.says_after(skip, words).await;
        agent.next_envoy(envoy).await;
        agent.is_ready().await;
        let others = endings.iter().filter(|(_, other)| *other != words);
        let log = agent.log()[skip..].to_owned();
        assert!(!others.into_iter().any(|(_, other)| log.contains(other)), "{log}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_envoy_that_takes_too_much_memory_is_told_from_one_that_is_killed() {
    let stage = Stage::new();
    let envoy = stage.path("envoy");
    std::fs::write(&envoy, "#!/bin/sh\nexec tail /dev/zero\n").unwrap();
    std::fs::set_permissions(&envoy, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let instance = format!("agent-{}", std::process::id());
    let groups = Cgroups::open(&instance);
    let limits = GroupLimits { memory_bytes: Some(64 << 20), ..GroupLimits::default() };
    let group = groups.create("oom", &limits).unwrap().expect("memory can be limited here");
    let entrances = group.entrances().unwrap();
    let enter: String = entrances
        .iter()
        .map(|fd| {
            use std::os::fd::AsRawFd;
            format!("echo 0 > /proc/{}/fd/{} && ", std::process::id(), fd.as_raw_fd())
        })
        .collect();
    let agent = stage.command("", &[]);
    let mut inside = ironsail_sys::exec::command("sh");
    inside.args(["-c", &format!("{enter}exec \"$0\" \"$@\"")]);
    inside.arg(agent.get_program()).args(agent.get_args());
    inside.current_dir(stage.folder.path()).env_clear();
    inside.envs(agent.get_envs().filter_map(|(key, value)| Some((key, value?))));
    // The folder of the test stands before the others.
    inside.env("PATH", format!("{}:{}", stage.folder.path().display(), path()));
    let agent = stage.start_command(inside);
    agent.says("Envoy ended: out of memory: the kernel killed it").await;
    drop(agent);
    tokio::time::timeout(Duration::from_secs(20), async {
        while group.remove().is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
    groups.remove_all();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_drains_and_ends_both_with_code_0() {
    let stage = Stage::new();
    let mut agent = stage.start("terminationDrainDuration: 1s", &[]);
    agent.is_ready().await;
    let envoy = agent.envoy().unwrap();
    agent.signal(Signal::SIGTERM);
    assert_eq!(agent.ended().await, 0, "{}", agent.log());
    agent.says("draining the proxy").await;
    assert!(!std::path::Path::new(&format!("/proc/{envoy}")).exists(), "Envoy lives on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn envoy_does_not_outlive_an_agent_that_is_killed() {
    let stage = Stage::new();
    let agent = stage.start("", &[]);
    agent.is_ready().await;
    let envoy = agent.envoy().unwrap();
    agent.signal(Signal::SIGKILL);
    let ended = crate::stage::until("Envoy's end", || {
        let state = crate::stage::read(format!("/proc/{envoy}/stat").as_ref());
        (state.is_empty() || state.contains(") Z ")).then_some(())
    });
    ended.await;
    drop(agent);
}
