//! Flags and environment of `istio-iptables` → what is to be done, or every fault.

use std::path::PathBuf;
use std::time::Duration;

use ironsail_redirect::Settings;
use ironsail_redirect::apply::{Backend, Kind, Options};
use ironsail_sys::env::Env;

use crate::args::{CleanIptables, Iptables};
use crate::env::{self, Layers};
use ironsail_daemon::duration;

/// The proxy's user where the image has none by that name.
const DEFAULT_UID: &str = "1337";

/// All of `istio-iptables`' settings. Those that decide rules are judged with what is known of the
/// machine, later.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) rules: Settings,
    pub(crate) options: Options,
    pub(crate) dual_stack: bool,
    pub(crate) network_namespace: Option<PathBuf>,
    pub(crate) lock_namespace: bool,
    pub(crate) dry_run: bool,
    pub(crate) task: Task,
    /// The port to connect to and how long to try.
    pub(crate) validate: Option<(u16, Duration)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Apply,
    Clean,
    Skip,
}

impl Job {
    /// Reads everything; the faults are those of what is not a rule's business.
    pub(crate) fn read(args: &Iptables, env: &Env) -> (Self, Vec<String>) {
        let mut layers = Layers { env, faults: Vec::new() };
        let rules = rules(args, &mut layers);
        let kind = layers.text(args.force_iptables_binary.as_ref(), &env::FORCE_BINARY, "");
        let kind = layers.parsed("--force-iptables-binary", &kind, parse_kind).flatten();
        let native = layers.switch(args.native_nftables, &env::NATIVE_NFTABLES);
        let options = Options {
            backend: if native { Backend::Nftables } else { Backend::Iptables(kind) },
            reconcile: layers.switch(args.reconcile, &env::RECONCILE),
            force: layers.switch(args.force_apply, &env::FORCE_APPLY),
        };
        let namespace = layers.text(args.network_namespace.as_ref(), &env::NETWORK_NAMESPACE, "");
        let clean = layers.switch(args.cleanup_only, &env::CLEANUP_ONLY);
        let skip = layers.switch(args.skip_rule_apply, &env::SKIP_RULE_APPLY);
        let job = Self {
            rules,
            options,
            dual_stack: layers.switch(args.dual_stack, &env::DUAL_STACK),
            network_namespace: Some(PathBuf::from(namespace)).filter(|p| !p.as_os_str().is_empty()),
            lock_namespace: layers.switch(args.cni_mode, &env::CNI_MODE),
            dry_run: layers.switch(args.dry_run, &env::DRY_RUN),
            task: match (skip, clean) {
                (true, _) => Task::Skip,
                (false, true) => Task::Clean,
                (false, false) => Task::Apply,
            },
            validate: validation(args, &mut layers),
        };
        (job, layers.faults)
    }
}

fn validation(args: &Iptables, layers: &mut Layers<'_>) -> Option<(u16, Duration)> {
    let port = layers.text(args.iptables_probe_port.as_ref(), &env::PROBE_PORT, "15002");
    let port = layers.parsed("--iptables-probe-port", &port, parse_port);
    let within = layers.text(args.probe_timeout.as_ref(), &env::PROBE_TIMEOUT, "5s");
    let within = layers.parsed("--probe-timeout", &within, duration::parse);
    let wanted = layers.switch(args.run_validation, &env::RUN_VALIDATION);
    port.zip(within).filter(|_| wanted)
}

fn rules(args: &Iptables, layers: &mut Layers<'_>) -> Settings {
    let default = Settings::default();
    let text = |flag: &Option<String>, names, default| layers.text(flag.as_ref(), names, default);
    let settings = Settings {
        proxy_port: text(&args.envoy_port, &env::NONE, &default.proxy_port),
        inbound_capture_port: text(
            &args.inbound_capture_port,
            &env::INBOUND_CAPTURE_PORT,
            &default.inbound_capture_port,
        ),
        inbound_tunnel_port: text(
            &args.inbound_tunnel_port,
            &env::INBOUND_TUNNEL_PORT,
            &default.inbound_tunnel_port,
        ),
        proxy_uid: proxy_user(text(&args.proxy_uid, &env::PROXY_UID, ""), layers),
        proxy_gid: text(&args.proxy_gid, &env::PROXY_GID, ""),
        inbound_interception_mode: text(
            &args.istio_inbound_interception_mode,
            &env::INTERCEPTION_MODE,
            "",
        ),
        inbound_tproxy_mark: text(
            &args.istio_inbound_tproxy_mark,
            &env::TPROXY_MARK,
            &default.inbound_tproxy_mark,
        ),
        inbound_tproxy_route_table: text(
            &args.istio_inbound_tproxy_route_table,
            &env::TPROXY_ROUTE_TABLE,
            &default.inbound_tproxy_route_table,
        ),
        inbound_ports_include: text(&args.istio_inbound_ports, &env::INBOUND_PORTS, ""),
        inbound_ports_exclude: text(&args.istio_local_exclude_ports, &env::EXCLUDE_PORTS, ""),
        outbound_ports_include: text(&args.istio_outbound_ports, &env::OUTBOUND_PORTS, ""),
        outbound_ports_exclude: text(
            &args.istio_local_outbound_ports_exclude,
            &env::OUTBOUND_PORTS_EXCLUDE,
            "",
        ),
        outbound_ip_ranges_include: text(&args.istio_service_cidr, &env::SERVICE_CIDR, ""),
        outbound_ip_ranges_exclude: text(
            &args.istio_service_exclude_cidr,
            &env::SERVICE_EXCLUDE_CIDR,
            "",
        ),
        owner_groups_include: text(&None, &env::OWNER_GROUPS, &default.owner_groups_include),
        owner_groups_exclude: text(&None, &env::OWNER_GROUPS_EXCLUDE, ""),
        reroute_virtual_interfaces: text(&args.kube_virt_interfaces, &env::VIRTUAL_INTERFACES, ""),
        exclude_interfaces: text(&args.istio_exclude_interfaces, &env::EXCLUDE_INTERFACES, ""),
        loopback_cidr: text(&None, &env::LOOPBACK_CIDR, &default.loopback_cidr),
        ..default
    };
    Settings {
        redirect_dns: layers.switch(args.redirect_dns, &env::REDIRECT_DNS),
        capture_all_dns: layers.switch(args.capture_all_dns, &env::CAPTURE_ALL_DNS),
        drop_invalid: layers.switch(args.drop_invalid, &env::DROP_INVALID),
        ..settings
    }
}

/// What `istio-clean-iptables` needs: whose rules they are. Both of its lookup switches are only for
/// callers that pass them.
pub(crate) fn of_clean(args: &CleanIptables, env: &Env) -> (Settings, bool, Vec<String>) {
    let mut layers = Layers { env, faults: Vec::new() };
    let uid = layers.text(args.proxy_uid.as_ref(), &env::PROXY_UID, "");
    let settings = Settings {
        proxy_uid: proxy_user(uid, &layers),
        proxy_gid: layers.text(args.proxy_gid.as_ref(), &env::PROXY_GID, ""),
        redirect_dns: layers.switch(args.redirect_dns, &env::REDIRECT_DNS),
        capture_all_dns: layers.switch(args.capture_all_dns, &env::CAPTURE_ALL_DNS),
        ..Settings::default()
    };
    let dry_run = layers.switch(args.dry_run, &env::DRY_RUN);
    (settings, dry_run, layers.faults)
}

/// The user that was given, or the one whose name the proxy runs under.
fn proxy_user(given: String, layers: &Layers<'_>) -> String {
    if !given.is_empty() {
        return given;
    }
    let name = layers.text(None, &env::ENVOY_USER, "istio-proxy");
    let user = ironsail_sys::account::user_id(&name).ok().flatten();
    user.map_or_else(|| DEFAULT_UID.to_owned(), |uid| uid.to_string())
}

fn parse_kind(text: &str) -> Result<Option<Kind>, String> {
    match text {
        "" => Ok(None),
        "nft" => Ok(Some(Kind::Nft)),
        "legacy" => Ok(Some(Kind::Legacy)),
        _ => Err("is not nft or legacy".to_owned()),
    }
}

fn parse_port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| "is not a port (1 to 65535)".to_owned())
}

#[cfg(test)]
mod tests;
