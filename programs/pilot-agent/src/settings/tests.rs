//! Flags over variables over defaults, and all faults at once.

use super::{Job, Task};
use crate::args::{Cli, Command};
use clap::Parser;
use ironsail_redirect::apply::{Backend, Kind};
use ironsail_sys::env::Env;

fn read(args: &[&str], env: &[(&str, &str)]) -> (Job, Vec<String>) {
    let all = ["pilot-agent", "istio-iptables"].into_iter().chain(args.iter().copied());
    let Command::Iptables(args) = Cli::try_parse_from(all).unwrap().command else {
        panic!("another command")
    };
    let env: Env = env.iter().copied().collect();
    Job::read(&args, &env)
}

#[test]
fn without_flags_and_variables_the_defaults_hold() {
    let (job, faults) = read(&[], &[("ENVOY_USER", "no-such-user-here")]);
    assert_eq!(faults, Vec::<String>::new());
    assert_eq!(job.rules, ironsail_redirect::Settings::default());
    assert_eq!(job.options.backend, Backend::Iptables(None));
    assert_eq!((job.task, job.validate, job.dry_run), (Task::Apply, None, false));
}

#[test]
fn a_flag_is_stronger_than_a_variable() {
    let env = [("ISTIO_INBOUND_PORTS", "80"), ("INBOUND_CAPTURE_PORT", "16006")];
    let (job, _) = read(&["-b", "*"], &env);
    assert_eq!(job.rules.inbound_ports_include, "*");
    assert_eq!(job.rules.inbound_capture_port, "16006");
    let (job, _) = read(&["-b", ""], &env);
    assert_eq!(job.rules.inbound_ports_include, "", "an empty flag is a value");
}

#[test]
fn the_envoy_port_is_no_variable() {
    let (job, _) = read(&[], &[("ENVOY_PORT", "tcp://10.96.0.7:80")]);
    assert_eq!(job.rules.proxy_port, "15001");
}

#[test]
fn some_switches_have_a_second_variable_that_is_stronger() {
    for (name, get) in [
        ("ISTIO_META_DNS_CAPTURE", (|job| job.rules.redirect_dns) as fn(&Job) -> bool),
        ("REDIRECT_DNS", |job| job.rules.redirect_dns),
        ("INVALID_DROP", |job| job.rules.drop_invalid),
        ("DROP_INVALID", |job| job.rules.drop_invalid),
        ("ISTIO_DUAL_STACK", |job| job.dual_stack),
        ("DUAL_STACK", |job| job.dual_stack),
    ] {
        assert!(get(&read(&[], &[(name, "true")]).0), "{name}");
        assert!(!get(&read(&[], &[(name, "0")]).0), "{name}");
    }
    let both = [("ISTIO_META_DNS_CAPTURE", "false"), ("REDIRECT_DNS", "true")];
    assert!(!read(&[], &both).0.rules.redirect_dns);
}

#[test]
fn every_bad_setting_is_reported() {
    let (_, faults) = read(
        &[
            "--probe-timeout",
            "soon",
            "--iptables-probe-port",
            "0",
            "--force-iptables-binary",
            "bpf",
        ],
        &[("DRY_RUN", "perhaps"), ("RECONCILE", "2")],
    );
    let names: Vec<&str> = faults.iter().filter_map(|f| f.split(':').next()).collect();
    assert_eq!(
        names,
        [
            "--force-iptables-binary",
            "RECONCILE",
            "DRY_RUN",
            "--iptables-probe-port",
            "--probe-timeout"
        ]
    );
}

#[test]
fn the_backend_follows_its_switches() {
    let (job, _) = read(&["--force-iptables-binary", "legacy"], &[]);
    assert_eq!(job.options.backend, Backend::Iptables(Some(Kind::Legacy)));
    let (job, _) = read(&[], &[("NATIVE_NFTABLES", "true")]);
    assert_eq!(job.options.backend, Backend::Nftables);
}

#[test]
fn validation_alone_leaves_the_rules_alone() {
    let (job, _) = read(&["--skip-rule-apply", "--run-validation", "--cleanup-only"], &[]);
    assert_eq!(job.task, Task::Skip);
    assert_eq!(job.validate, Some((15002, std::time::Duration::from_secs(5))));
}
