//! What a container sees of the kernel.

use std::sync::Arc;

use crate::bench::{Bench, new_netns};

pub(crate) async fn processes_and_kernel_files_are_the_containers_own(bench: Arc<Bench>) {
    let script = "ls -d /proc/[0-9]*; ls /dev; cat /proc/1/comm; \
                  (echo 1 > /proc/sys/kernel/core_uses_pid) 2>/dev/null || echo ro; \
                  (echo > /sys/kernel/x) 2>/dev/null || echo ro; \
                  head -c 1 /proc/kcore 2>/dev/null | wc -c; ls /sys/firmware 2>/dev/null | wc -l; \
                  echo > /dev/null; head -c 4 /dev/zero | wc -c; head -c 4 /dev/urandom | wc -c";
    // The init and the shell.
    let expect = "/proc/1\n/proc/2\n\
                  fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n\
                  podlet-init\nro\nro\n0\n0\n4\n4";
    assert_eq!(bench.says(bench.sh(script)).await, expect);

    // No descriptor of anybody else's; the last one is ls looking.
    assert_eq!(bench.says(bench.spec(&["ls", "/proc/self/fd"])).await, "0\n1\n2\n3");

    // What a user other than root needs for writing logs to where it was told to.
    let mut spec = bench.sh("echo through > /dev/stdout");
    spec.user.uid = 1337;
    assert_eq!(bench.says(spec).await, "through");

    // IPC objects are the container's own.
    let made = bench.says(bench.sh("ipcmk -Q >/dev/null && ipcs -q | grep -c 0x")).await;
    assert_eq!(made, "1");
    assert_eq!(bench.run(bench.sh("ipcs -q | grep -c 0x")).await.stdout.trim(), "0");
}

pub(crate) async fn the_network_namespace_is_the_given_one(bench: Arc<Bench>) {
    let netns = new_netns();
    let name = |spec| async { bench.says(spec).await };
    let mut spec = bench.sh("readlink /proc/self/ns/net; ls /sys/class/net");
    spec.netns = Some(Arc::clone(&netns));
    let first = name(spec.clone()).await;
    spec.id.push('2');
    assert_eq!(first, name(spec.clone()).await);
    assert_eq!(first.lines().nth(1), Some("lo"), "{first}");
    let ours = std::fs::read_link("/proc/self/ns/net").expect("link");
    assert_ne!(first.lines().next(), ours.to_str());
}

pub(crate) async fn sysctls_are_set_in_the_network_namespace(bench: Arc<Bench>) {
    let mut spec = bench.sh("cat /proc/sys/net/ipv4/ip_unprivileged_port_start");
    spec.netns = Some(new_netns());
    spec.sysctls.insert("net.ipv4.ip_unprivileged_port_start".into(), "80".into());
    assert_eq!(bench.says(spec.clone()).await, "80");
    spec.sysctls.insert("net.ipv4.no_such".into(), "1".into());
    let error = bench.refused(spec).await.to_string();
    assert!(error.starts_with("setting sysctl net.ipv4.no_such=1: "), "{error}");
}
