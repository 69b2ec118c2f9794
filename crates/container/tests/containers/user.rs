//! Users, groups, capabilities.

use std::sync::Arc;

use ironsail_container::{ContainerSpec, User};
use ironsail_sys::exec;

use crate::bench::{Bench, new_netns};

const BIND_PORT_80: &str =
    "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(LocalPort => 80, Listen => 1) or die $!'";

pub(crate) async fn the_process_runs_as_the_given_user_and_groups(bench: Arc<Bench>) {
    let mut spec = bench.sh("id -u; id -g; id -G; touch /tmp/mine; stat -c %u:%g /tmp/mine; umask");
    spec.user = User { uid: 1337, gid: Some(1337), groups: vec![2000, 3000] };
    assert_eq!(bench.says(spec).await, "1337\n1337\n1337 2000 3000\n1337:1337\n0022");
    // Without a group, that of the user's account.
    let mut spec = bench.sh("id -g");
    spec.user = User { uid: 1, gid: None, groups: Vec::new() };
    assert_eq!(bench.says(spec).await, "1");
}

pub(crate) async fn low_ports_take_a_capability(bench: Arc<Bench>) {
    let code = async |change: &(dyn Fn(&mut ContainerSpec) + Sync)| {
        let mut spec = bench.sh(BIND_PORT_80);
        spec.netns = Some(new_netns());
        change(&mut spec);
        bench.run(spec).await.status.code
    };
    assert_eq!(code(&|_| {}).await, 0, "root holds the default capabilities");
    assert_ne!(code(&|s| s.capabilities.drop = vec!["NET_BIND_SERVICE".into()]).await, 0);
    assert_ne!(code(&|s| s.capabilities.drop = vec!["ALL".into()]).await, 0);
    let only = |s: &mut ContainerSpec| {
        s.capabilities.drop = vec!["ALL".into()];
        s.capabilities.add = vec!["NET_BIND_SERVICE".into()];
    };
    assert_eq!(code(&only).await, 0);
    assert_ne!(code(&|s| s.user.uid = 1337).await, 0, "no other user holds any");
    let opened = |s: &mut ContainerSpec| {
        s.user.uid = 1337;
        s.sysctls.insert("net.ipv4.ip_unprivileged_port_start".into(), "0".into());
    };
    assert_eq!(code(&opened).await, 0);
}

pub(crate) async fn packet_rules_take_net_admin(bench: Arc<Bench>) {
    let script = "iptables -t nat -A OUTPUT -p tcp -j REDIRECT --to-ports 15001 && \
                  iptables -t nat -S OUTPUT";
    let mut spec = bench.sh(script);
    spec.netns = Some(new_netns());
    assert_ne!(bench.run(spec.clone()).await.status.code, 0);
    spec.capabilities.add = vec!["NET_ADMIN".into(), "NET_RAW".into()];
    let seen = bench.says(spec).await;
    assert!(seen.contains("-j REDIRECT --to-ports 15001"), "{seen}");

    let mut spec =
        bench.sh("echo 1 > /proc/sys/net/ipv4/ip_forward; cat /proc/sys/net/ipv4/ip_forward");
    spec.netns = Some(new_netns());
    spec.capabilities.privileged = true;
    assert_eq!(bench.says(spec).await, "1");
}

pub(crate) async fn new_privileges_can_be_refused(bench: Arc<Bench>) {
    let script = "grep NoNewPrivs /proc/self/status; grep CapBnd /proc/self/status";
    let mut spec = bench.sh(script);
    spec.no_new_privs = true;
    spec.capabilities.drop = vec!["ALL".into()];
    assert_eq!(bench.says(spec).await, "NoNewPrivs:\t1\nCapBnd:\t0000000000000000");
    let seen = bench.says(bench.sh(script)).await;
    assert_eq!(seen, "NoNewPrivs:\t0\nCapBnd:\t00000000a00425fb");
}

pub(crate) async fn an_ordinary_user_is_told_what_is_missing(_: Arc<Bench>) {
    use std::os::unix::process::CommandExt;
    // A user without subordinate ids.
    let mut command = exec::command("/proc/self/exe");
    let output = command.arg("--rights").uid(54321).gid(54321).output().expect("run");
    assert_eq!(
        String::from_utf8(output.stdout).expect("text").trim(),
        "not root, and /etc/subuid gives 54321 no user ids: add a line \"54321:100000:65536\", or run as root"
    );
}

/// Tries to get the rights that containers take, and tells how it went.
pub(crate) fn try_rights() {
    match ironsail_sys::userns::enter_if_unprivileged() {
        Ok(privilege) => println!("{privilege:?}"),
        Err(e) => println!("{e}"),
    }
}
