//! `istio-iptables` and `istio-clean-iptables`: from settings to the kernel.
//!
//! In: flags and environment; out: rules in the network namespace, text on standard output for a dry
//! run, or a failure that says what to do.

use std::fs::File;
use std::path::Path;

use anyhow::Context;
use ironsail_redirect::apply::{self, Backend, Outcome, Programs, Rehearsal, System, host, probe};
use ironsail_redirect::config::Host;
use ironsail_redirect::{Config, Settings};
use ironsail_sys::env::Env;
use ironsail_sys::netns::Netns;

use crate::Failure;
use crate::args::{CleanIptables, Iptables};
use crate::settings::{self, Job, Task};

const RESOLV_CONF: &str = "/etc/resolv.conf";

pub(crate) fn set_up(args: &Iptables, env: &Env) -> Result<(), Failure> {
    let (job, mut faults) = Job::read(args, env);
    // Faults of the rules need nothing of the machine, so that one run shows them all.
    if let Err(more) = job.rules.config(&Host::default()) {
        faults.extend(more.iter().map(ToString::to_string));
    }
    if !faults.is_empty() {
        return Err(Failure::Settings(faults));
    }
    match &job.network_namespace {
        None => run(&job, env),
        Some(path) => {
            let file = File::open(path)
                .with_context(|| format!("opening the network namespace {}", path.display()))?;
            let netns = Netns::from_fd(file.into());
            netns.run(|| run(&job, env)).context("working in another network namespace")?
        }
    }
}

fn run(job: &Job, env: &Env) -> Result<(), Failure> {
    let config = config(job)?;
    tracing::info!(?config, options = ?job.options, "settings");
    let lock = job.network_namespace.as_ref().filter(|_| job.lock_namespace);
    let system = System::new(env, lock.map(|path| path.display().to_string()));
    let backend = job.options.backend;
    match (job.task, job.dry_run) {
        (Task::Skip, _) => tracing::info!("rules left alone"),
        (Task::Clean, true) => rehearse(&config, &[backend], system)?,
        (Task::Clean, false) => {
            apply::clean(&config, backend, &system).context("removing the packet rules")?;
        }
        (Task::Apply, true) => print!("{}", apply::describe(&config, backend)),
        (Task::Apply, false) => {
            let outcome =
                apply::apply(&config, &job.options, &system).context("setting up packet rules")?;
            tracing::info!("{}", told(outcome));
        }
    }
    match job.validate {
        Some((port, within)) => validate(&config, port, within),
        None => Ok(()),
    }
}

fn told(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Unchanged => "the rules were in place already; nothing changed",
        Outcome::Applied => "the rules are in place",
        Outcome::Replaced => "the rules are in place of older ones",
    }
}

/// The rules' settings together with what this machine is.
fn config(job: &Job) -> Result<Config, Failure> {
    let lookups = job.rules.redirect_dns && !job.rules.capture_all_dns;
    let resolv_conf = lookups.then_some(Path::new(RESOLV_CONF));
    let host = host::look(job.dual_stack, resolv_conf).context("looking at this machine")?;
    if lookups && host.name_servers.is_empty() {
        tracing::warn!("{RESOLV_CONF} names no server: name lookups are not captured");
    }
    job.rules.config(&host).map_err(|faults| settings_failure(&faults))
}

fn settings_failure(faults: &[ironsail_redirect::config::Fault]) -> Failure {
    Failure::Settings(faults.iter().map(ToString::to_string).collect())
}

fn validate(config: &Config, port: u16, within: std::time::Duration) -> Result<(), Failure> {
    probe::check(config, port, within)
        .context(
            "the packet rules do not work, so this pod is not ready for the mesh; if a CNI plugin \
             sets them up, the pod may have started before the plugin: delete it to try again",
        )
        .map_err(Failure::NotValid)?;
    tracing::info!("validated: connections are redirected");
    Ok(())
}

pub(crate) fn clean(args: &CleanIptables, env: &Env) -> Result<(), Failure> {
    let (settings, dry_run, mut faults) = settings::of_clean(args, env);
    let config = of_everybody(&settings);
    if let Err(more) = &config {
        faults.extend(more.iter().map(ToString::to_string));
    }
    let config = match config {
        Ok(config) if faults.is_empty() => config,
        _ => return Err(Failure::Settings(faults)),
    };
    let system = System::new(env, None);
    // Both: whoever asks for this wants no rule left. A machine may lack one of the programs.
    let mut backends = vec![Backend::Iptables(None)];
    if system.run("nft", &["--version"], "").is_ok() {
        backends.push(Backend::Nftables);
    }
    if dry_run {
        return rehearse(&config, &backends, system);
    }
    for backend in backends {
        apply::clean(&config, backend, &system).context("removing the packet rules")?;
    }
    Ok(())
}

/// IPv6 rules are looked for whether or not this machine has such an address now.
fn of_everybody(settings: &Settings) -> Result<Config, Vec<ironsail_redirect::config::Fault>> {
    settings.config(&Host { ipv6: true, name_servers: Vec::new() })
}

fn rehearse(config: &Config, backends: &[Backend], system: System) -> Result<(), Failure> {
    let programs = Rehearsal::of(system);
    for backend in backends {
        let rules = apply::clean_rules(config, *backend, &programs);
        rules.context("finding out which packet rules to remove")?;
    }
    print!("{}", programs.written());
    Ok(())
}
