//! Applying packet rules with the `nft` program, and asking whether this machine can.
//!
//! In: rules as text; out: a transaction inside one namespace, applied whole or not at all.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ironsail_sys::env::Env;
use ironsail_sys::exec;
use ironsail_sys::netns::Netns;

use crate::link::{End, Links};
use crate::{Error, NetworkConfig};

/// Where nft is looked for besides the PATH, which for an ordinary user often lacks these.
const PLACES: &str = "/usr/sbin:/sbin:/usr/local/sbin:/usr/bin";

/// What nft says when a transaction does not fit its socket (the text of EMSGSIZE).
const TOO_LONG: &str = "Message too long";

/// Applies `text` inside `netns` in one transaction.
pub(crate) async fn apply(netns: &Netns, what: &'static str, text: String) -> Result<(), Error> {
    let netns = netns.clone();
    let done = tokio::task::spawn_blocking(move || run(&netns, what, &text)).await;
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

/// Applies steps in one transaction, or in as few as the kernel takes: an ordinary user's netlink
/// socket holds about 200 kB.
pub(crate) async fn apply_steps(
    netns: &Netns,
    what: &'static str,
    steps: Vec<String>,
) -> Result<(), Error> {
    let netns = netns.clone();
    let done = tokio::task::spawn_blocking(move || run_steps(&netns, what, &steps)).await;
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
}

fn run_steps(netns: &Netns, what: &'static str, steps: &[String]) -> Result<(), Error> {
    match run(netns, what, &steps.concat()) {
        Err(Error::Nft { message, .. }) if message.contains(TOO_LONG) && steps.len() > 1 => {
            let (first, second) = steps.split_at(steps.len() / 2);
            run_steps(netns, what, first)?;
            run_steps(netns, what, second)
        }
        other => other,
    }
}

fn run(netns: &Netns, what: &'static str, text: &str) -> Result<(), Error> {
    let program = program(Env::of_process().var("PATH")).ok_or(Error::NoNft)?;
    let mut command = exec::command(program);
    // In the language that TOO_LONG is written in.
    command.args(["-f", "-"]).env("LC_ALL", "C");
    let output = netns.output(&mut command, text.as_bytes()).map_err(Error::RunNft)?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    tracing::debug!(rules = text, "nft refused these rules");
    Err(Error::Nft { what, message })
}

fn program(path: Option<&str>) -> Option<PathBuf> {
    let places = path.unwrap_or_default().split(':').chain(PLACES.split(':'));
    places.filter(|p| p.starts_with('/')).map(|p| Path::new(p).join("nft")).find(|p| p.is_file())
}

/// The word that nft has for the family of an address.
pub(crate) fn family(of: IpAddr) -> &'static str {
    if of.is_ipv4() { "ip" } else { "ip6" }
}

/// Tries everything podlet's network needs in namespaces made for it, and says what is missing.
pub async fn check(config: &NetworkConfig) -> Result<(), Error> {
    let missing =
        |what, hint| move |source| Error::Missing { what, hint, source: Box::new(source) };
    let here = Netns::create().map_err(Error::namespace("cannot make a network namespace"))?;
    let there = Netns::create().map_err(Error::namespace("cannot make a network namespace"))?;
    let links = Links::open(&here)?;
    let bridge = links
        .add_bridge("check", [2, 0, 0, 0, 0, 1])
        .await
        .map_err(missing("a bridge", "the kernel module `bridge` must be loaded"))?;
    links
        .add_veth(End { name: "a", mac: None, bridge: Some(bridge) }, End::named("b"), &there)
        .await
        .map_err(missing("a veth link", "the kernel module `veth` must be loaded"))?;
    if config.is_dual_stack() {
        let dual = there.set_sysctl("net/ipv6/conf/all/disable_ipv6", "0");
        dual.map_err(Error::namespace("this kernel has no IPv6, which dual stack needs"))?;
    }
    let probe = "table inet podlet {
  map service4 { type ipv4_addr . inet_proto . inet_service : verdict; }
  chain service { meta l4proto tcp dnat ip to numgen random mod 2 map { 0 : 10.0.0.1 . 80, 1 : 10.0.0.2 . 80 }; }
  chain prerouting {
    type nat hook prerouting priority dstnat; policy accept;
    ip daddr . meta l4proto . th dport vmap @service4
  }
  chain postrouting { type nat hook postrouting priority srcnat; policy accept; ct mark 1 masquerade; }
  chain forward { type filter hook forward priority filter; policy accept; ct state new meta l4proto tcp reject with tcp reset; }
}
";
    let rules = apply(&here, "a trial of Service rules", probe.to_owned()).await;
    match rules {
        Err(Error::Nft { .. }) => rules.map_err(missing(
            "Service rules",
            "the kernel modules nf_tables, nft_nat, nft_masq, nft_numgen and nft_reject must be loaded",
        )),
        other => other,
    }
}
