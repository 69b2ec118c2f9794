//! The program itself, in network namespaces of its own: what it prints, changes and returns.

#![allow(clippy::unwrap_used, reason = "what a test needs and does not get fails it")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use ironsail_sys::exec;
use ironsail_sys::netns::Netns;

const AGENT: &str = env!("CARGO_BIN_EXE_pilot-agent");
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// What injection starts, with the proxy's own ports left alone.
const SIDECAR: [&str; 19] = [
    "istio-iptables",
    "-p",
    "15001",
    "-z",
    "15006",
    "-u",
    "1337",
    "-m",
    "REDIRECT",
    "-i",
    "*",
    "-x",
    "",
    "-b",
    "*",
    "-d",
    "15090,15021,15020",
    "--log_output_level=default:info",
    "--reconcile=false",
];

/// A namespace with an address, as a pod has.
fn pod() -> Netns {
    let netns = Netns::create().unwrap();
    run(&netns, exec::command("ip").args(["addr", "add", "10.9.0.2/32", "dev", "lo"]));
    netns
}

fn run(netns: &Netns, command: &mut Command) -> String {
    let output = netns.output(command.env("PATH", PATH), b"").unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn agent(netns: &Netns, args: &[&str], env: &[(&str, &str)]) -> Output {
    let mut command = exec::command(AGENT);
    command.args(args).env_clear().env("PATH", PATH).envs(env.iter().copied());
    netns.output(&mut command, b"").unwrap()
}

#[track_caller]
fn succeed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn save(netns: &Netns, family: &str) -> Vec<String> {
    let text = run(netns, &mut exec::command(format!("{family}-nft-save")));
    text.lines().filter(|line| line.starts_with("-A")).map(str::to_owned).collect()
}

/// The chains of `iptables -L -n -t nat --line-number` that are ours, blanks collapsed.
fn listing(netns: &Netns) -> String {
    let mut command = exec::command("iptables-nft");
    command.args(["-L", "-n", "-t", "nat", "--line-number"]);
    let text = run(netns, &mut command);
    let chains = text.split("\n\n").filter(|chain| chain.trim_start().starts_with("Chain ISTIO_"));
    let mut chains: Vec<String> = chains
        .map(|chain| {
            let line = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
            chain.trim().lines().map(line).collect::<Vec<_>>().join("\n")
        })
        .collect();
    chains.sort();
    chains.join("\n\n")
}

/// As the listing that users of the mesh know, with the two conditions that newer versions add to the
/// proxy's calls to itself: only TCP, and not the tunnel port.
const KNOWN_LISTING: &str = "\
Chain ISTIO_INBOUND (1 references)
num target prot opt source destination
1 RETURN tcp -- 0.0.0.0/0 0.0.0.0/0 tcp dpt:15008
2 RETURN tcp -- 0.0.0.0/0 0.0.0.0/0 tcp dpt:15090
3 RETURN tcp -- 0.0.0.0/0 0.0.0.0/0 tcp dpt:15021
4 RETURN tcp -- 0.0.0.0/0 0.0.0.0/0 tcp dpt:15020
5 ISTIO_IN_REDIRECT tcp -- 0.0.0.0/0 0.0.0.0/0

Chain ISTIO_IN_REDIRECT (3 references)
num target prot opt source destination
1 REDIRECT tcp -- 0.0.0.0/0 0.0.0.0/0 redir ports 15006

Chain ISTIO_OUTPUT (1 references)
num target prot opt source destination
1 RETURN all -- 127.0.0.6 0.0.0.0/0
2 ISTIO_IN_REDIRECT tcp -- 0.0.0.0/0 !127.0.0.1 tcp dpt:!15008 owner UID match 1337
3 RETURN all -- 0.0.0.0/0 0.0.0.0/0 ! owner UID match 1337
4 RETURN all -- 0.0.0.0/0 0.0.0.0/0 owner UID match 1337
5 ISTIO_IN_REDIRECT tcp -- 0.0.0.0/0 !127.0.0.1 tcp dpt:!15008 owner GID match 1337
6 RETURN all -- 0.0.0.0/0 0.0.0.0/0 ! owner GID match 1337
7 RETURN all -- 0.0.0.0/0 0.0.0.0/0 owner GID match 1337
8 RETURN all -- 0.0.0.0/0 127.0.0.1
9 ISTIO_REDIRECT all -- 0.0.0.0/0 0.0.0.0/0

Chain ISTIO_REDIRECT (1 references)
num target prot opt source destination
1 REDIRECT tcp -- 0.0.0.0/0 0.0.0.0/0 redir ports 15001";

/// iptables 1.8.9 prints protocols of `-n` listings as numbers.
fn with_names(listing: &str) -> String {
    let line = |line: &str| {
        let mut words: Vec<&str> = line.split(' ').collect();
        if let Some(protocol) = words.get_mut(2) {
            *protocol = match *protocol {
                "0" => "all",
                "6" => "tcp",
                other => other,
            };
        }
        words.join(" ")
    };
    listing.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_sidecars_rules_are_those_that_users_know() {
    let netns = pod();
    succeed(&agent(&netns, &SIDECAR, &[]));
    assert_eq!(with_names(&listing(&netns)), KNOWN_LISTING);
    assert_eq!(save(&netns, "ip6tables"), Vec::<String>::new(), "the pod has no IPv6 address");
}

#[test]
fn running_twice_changes_nothing_and_cleaning_leaves_nothing() {
    let netns = pod();
    succeed(&agent(&netns, &SIDECAR, &[]));
    let first = save(&netns, "iptables");
    let again = agent(&netns, &SIDECAR, &[]);
    succeed(&again);
    assert!(stderr(&again).contains("nothing changed"), "{}", stderr(&again));
    assert_eq!(save(&netns, "iptables"), first);
    let dry = succeed(&agent(&netns, &["istio-clean-iptables", "--dry-run"], &[]));
    assert!(dry.contains("-X ISTIO_OUTPUT\n"), "{dry}");
    assert_eq!(save(&netns, "iptables"), first, "a dry run");
    succeed(&agent(&netns, &["istio-clean-iptables"], &[]));
    assert_eq!(save(&netns, "iptables"), Vec::<String>::new());
    succeed(&agent(&netns, &["istio-clean-iptables"], &[]));
}

#[test]
fn another_configuration_needs_reconcile() {
    let netns = pod();
    succeed(&agent(&netns, &SIDECAR, &[]));
    let first = save(&netns, "iptables");
    let other = ["istio-iptables", "-b", "80", "-i", "10.0.0.0/8"];
    let refused = agent(&netns, &other, &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("--reconcile replaces them"), "{}", stderr(&refused));
    assert_eq!(save(&netns, "iptables"), first);
    succeed(&agent(&netns, &other, &[("RECONCILE", "true")]));
    let rules = save(&netns, "iptables");
    assert!(
        rules.contains(&"-A ISTIO_OUTPUT -d 10.0.0.0/8 -j ISTIO_REDIRECT".to_owned()),
        "{rules:?}"
    );
    let mut cleanup = other.to_vec();
    cleanup.push("--cleanup-only");
    succeed(&agent(&netns, &cleanup, &[]));
    assert_eq!(save(&netns, "iptables"), Vec::<String>::new());
}

#[test]
fn a_dry_run_prints_and_does_nothing() {
    let netns = pod();
    let text = succeed(&agent(&netns, &["istio-iptables", "-n", "-b", "*"], &[]));
    assert!(text.starts_with("# iptables-restore --noflush\n*nat\n-N ISTIO_INBOUND\n"), "{text}");
    let text = succeed(&agent(&netns, &["istio-iptables", "-n", "--native-nftables"], &[]));
    assert!(text.starts_with("# nft -f -\n"), "{text}");
    assert_eq!(save(&netns, "iptables"), Vec::<String>::new());
}

#[test]
fn native_nftables_replaces_its_own_tables() {
    let netns = pod();
    let nft = |args: &[&str]| run(&netns, exec::command("nft").args(args));
    let env = [("NATIVE_NFTABLES", "true"), ("ISTIO_INBOUND_PORTS", "*")];
    succeed(&agent(&netns, &["istio-iptables", "-m", "TPROXY"], &env));
    assert!(nft(&["list", "tables"]).contains("istio-proxy-mangle"));
    succeed(&agent(&netns, &["istio-iptables"], &env));
    assert!(!nft(&["list", "tables"]).contains("istio-proxy-mangle"), "left from another mode");
    assert!(nft(&["list", "ruleset"]).contains("redirect to :15006"));
    succeed(&agent(&netns, &["istio-iptables", "--cleanup-only"], &env));
    assert_eq!(nft(&["list", "tables"]), "");
}

#[test]
fn all_bad_settings_are_told_at_once() {
    let args =
        ["istio-iptables", "-p", "99999", "-m", "MAGIC", "-i", "10.0.0.1", "--probe-timeout", "x"];
    let output = agent(&pod(), &args, &[("DRY_RUN", "maybe")]);
    assert_eq!(output.status.code(), Some(64));
    let lines = stderr(&output);
    assert_eq!(lines.lines().count(), 5, "{lines}");
    for part in ["DRY_RUN", "--probe-timeout", "--envoy-port", "MAGIC", "--istio-service-cidr"] {
        assert!(lines.contains(part), "{part} in {lines}");
    }
}

#[test]
fn a_pod_without_an_address_is_not_ready() {
    let output = agent(&Netns::create().unwrap(), &["istio-iptables", "-n"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is the pod's network ready?"), "{}", stderr(&output));
}

#[test]
fn unknown_commands_and_flags_are_refused() {
    for args in [&["proxies"][..], &["istio-iptables", "--no-such-flag"], &[]] {
        let output = agent(&pod(), args, &[]);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn the_program_is_its_command_when_called_so() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("istio-iptables");
    std::os::unix::fs::symlink(AGENT, &name).unwrap();
    let mut command = exec::command(&name);
    let text = run(&pod(), command.args(["-b", "80", "--dry-run"]));
    assert!(text.contains("-A ISTIO_INBOUND -p tcp --dport 80 -j ISTIO_IN_REDIRECT"), "{text}");
}

#[test]
fn another_namespace_can_be_named() {
    let (here, there) = (pod(), pod());
    let path = there.path().display().to_string();
    let args = ["istio-iptables", "-b", "*", "--cni-mode", "--network-namespace", &path];
    succeed(&agent(&here, &args, &[]));
    assert_eq!(save(&here, "iptables"), Vec::<String>::new());
    assert!(!save(&there, "iptables").is_empty());
    let output = agent(&here, &["istio-iptables", "--network-namespace", "/no/such/file"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("opening the network namespace /no/such/file"));
}

#[test]
fn dual_stack_pods_get_both_families() {
    let netns = pod();
    run(&netns, exec::command("ip").args(["addr", "add", "fd09::2/128", "dev", "lo", "nodad"]));
    succeed(&agent(&netns, &SIDECAR, &[("ISTIO_DUAL_STACK", "true")]));
    assert!(!save(&netns, "ip6tables").is_empty());
    let addresses = run(&netns, exec::command("ip").args(["-6", "addr", "show", "dev", "lo"]));
    assert!(addresses.contains("::6/128"), "{addresses}");
    succeed(&agent(&netns, &SIDECAR, &[("ISTIO_DUAL_STACK", "true")]));
}

#[test]
fn validation_tells_by_its_exit_code() {
    let netns = pod();
    let args =
        ["istio-iptables", "--skip-rule-apply", "--run-validation", "--probe-timeout", "400ms"];
    // The build's folder may be closed to that user.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let program = folder.path().join("pilot-agent");
    std::fs::copy(AGENT, &program).unwrap();
    let validate = |args: &[&str]| {
        let mut command = exec::command(&program);
        // As the container that validates: the proxy's user, without any right.
        command.args(args).uid(1337).gid(1337);
        netns.output(&mut command, b"").unwrap()
    };
    let failed = validate(&args);
    assert_eq!(failed.status.code(), Some(126), "{}", stderr(&failed));
    assert!(stderr(&failed).contains("the packet rules do not work"), "{}", stderr(&failed));
    succeed(&agent(&netns, &SIDECAR, &[]));
    succeed(&validate(&args[..3]));
}
