//! Addresses and routes that the rules count on.
//!
//! In: a configuration; out: `::6` on the loopback link, and for transparent capture the policy route
//! that keeps marked packets on this machine. What is there already is left as it is.

use std::net::{Ipv4Addr, Ipv6Addr};

use futures::TryStreamExt;
use rtnetlink::packet_route::address::{AddressAttribute, AddressFlags};
use rtnetlink::packet_route::route::{RouteMessage, RouteScope, RouteType};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use rtnetlink::{Handle, IpVersion, RouteMessageBuilder};

use super::Error;
use crate::config::Config;

/// The kernel gives the loopback link of every namespace this number.
const LOOPBACK: u32 = 1;
/// From here the proxy reaches the application over IPv6. 127.0.0.6 needs no such entry.
const PASSTHROUGH: Ipv6Addr = Ipv6Addr::new(0, 0, 0, 0, 0, 0, 0, 6);

pub(super) fn ensure(config: &Config) -> Result<(), Error> {
    if !config.ipv6 && !config.needs_tproxy_route() {
        return Ok(());
    }
    with_netlink(async |handle| {
        if config.ipv6 {
            let mut add = handle.address().add(LOOPBACK, PASSTHROUGH.into(), 128);
            // Without the search for duplicates, which would keep the proxy from using it at once.
            let flags = AddressAttribute::Flags(AddressFlags::Nodad);
            add.message_mut().attributes.push(flags);
            tolerate(add.execute().await, exists, "add ::6 to the loopback link")?;
        }
        if config.needs_tproxy_route() {
            add_policy_route(&handle, config).await?;
        }
        Ok(())
    })
}

/// Removes what [`ensure`] adds, as far as it is there.
pub(super) fn remove(config: &Config) -> Result<(), Error> {
    with_netlink(async |handle| {
        for rule in rules(config) {
            let del = handle.rule().del(rule).execute().await;
            tolerate(del, is_missing, "remove the policy rule of the mark")?;
        }
        for route in routes(config) {
            let del = handle.route().del(route).execute().await;
            tolerate(del, is_missing, "remove the local route of marked packets")?;
        }
        let addresses = handle.address().get().set_link_index_filter(LOOPBACK).execute();
        let addresses: Vec<_> =
            addresses.try_collect().await.map_err(failed("list the loopback link's addresses"))?;
        for address in addresses {
            let passthrough = AddressAttribute::Address(PASSTHROUGH.into());
            if address.attributes.contains(&passthrough) {
                let del = handle.address().del(address).execute().await;
                tolerate(del, is_missing, "remove ::6 from the loopback link")?;
            }
        }
        Ok(())
    })
}

pub(super) fn describe(config: &Config) -> String {
    let mut lines = Vec::new();
    if config.ipv6 {
        lines.push("# ip -6 addr add ::6/128 dev lo\n".to_owned());
    }
    if config.needs_tproxy_route() {
        let (mark, table) = (config.tproxy_mark, config.tproxy_route_table);
        for ip in if config.ipv6 { ["ip", "ip -6"].as_slice() } else { &["ip"] } {
            lines.push(format!("# {ip} rule add fwmark {mark} lookup {table}\n"));
            lines.push(format!("# {ip} route add local default dev lo table {table}\n"));
        }
    }
    lines.concat()
}

async fn add_policy_route(handle: &Handle, config: &Config) -> Result<(), Error> {
    let (mark, table) = (config.tproxy_mark, config.tproxy_route_table);
    let rule = || handle.rule().add().fw_mark(mark).table_id(table).action(RuleAction::ToTable);
    let action = "add the policy rule of the mark";
    // The kernel takes the same rule any number of times, each with the next priority.
    if !has_rule(handle, IpVersion::V4, config).await? {
        rule().v4().execute().await.map_err(failed(action))?;
    }
    if config.ipv6 && !has_rule(handle, IpVersion::V6, config).await? {
        rule().v6().execute().await.map_err(failed(action))?;
    }
    for route in routes(config) {
        let add = handle.route().add(route).execute().await;
        tolerate(add, exists, "add the local route of marked packets")?;
    }
    Ok(())
}

async fn has_rule(handle: &Handle, family: IpVersion, config: &Config) -> Result<bool, Error> {
    let rules = handle.rule().get(family).execute().try_collect::<Vec<_>>().await;
    let rules = rules.map_err(failed("list the policy rules"))?;
    let table = config.tproxy_route_table;
    let of_table = |rule: &RuleMessage| {
        u32::from(rule.header.table) == table
            || rule.attributes.contains(&RuleAttribute::Table(table))
    };
    let mark = RuleAttribute::FwMark(config.tproxy_mark);
    Ok(rules.iter().any(|rule| of_table(rule) && rule.attributes.contains(&mark)))
}

fn rules(config: &Config) -> Vec<RuleMessage> {
    use rtnetlink::packet_route::AddressFamily;
    let mut families = vec![AddressFamily::Inet];
    families.extend(config.ipv6.then_some(AddressFamily::Inet6));
    let rule = |family| {
        let mut rule = RuleMessage::default();
        rule.header.family = family;
        rule.header.action = RuleAction::ToTable;
        rule.attributes.push(RuleAttribute::FwMark(config.tproxy_mark));
        rule.attributes.push(RuleAttribute::Table(config.tproxy_route_table));
        rule
    };
    families.into_iter().map(rule).collect()
}

fn routes(config: &Config) -> Vec<RouteMessage> {
    let table = config.tproxy_route_table;
    let mut routes = vec![
        RouteMessageBuilder::<Ipv4Addr>::new()
            .kind(RouteType::Local)
            .scope(RouteScope::Host)
            .table_id(table)
            .output_interface(LOOPBACK)
            .build(),
    ];
    if config.ipv6 {
        routes.push(
            RouteMessageBuilder::<Ipv6Addr>::new()
                .kind(RouteType::Local)
                .scope(RouteScope::Host)
                .table_id(table)
                .output_interface(LOOPBACK)
                .build(),
        );
    }
    routes
}

/// Runs `work` with a netlink socket of this thread's namespace.
fn with_netlink(work: impl AsyncFnOnce(Handle) -> Result<(), Error>) -> Result<(), Error> {
    let opened = |source: std::io::Error| failed("open a netlink socket")(source);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(opened)?;
    runtime.block_on(async {
        let (connection, handle, _) = rtnetlink::new_connection().map_err(opened)?;
        let connection = tokio::spawn(connection);
        let result = work(handle).await;
        connection.abort();
        result
    })
}

fn failed<E: std::error::Error + Send + Sync + 'static>(
    action: &'static str,
) -> impl FnOnce(E) -> Error {
    move |source| Error::Route { action, source: Box::new(source) }
}

fn tolerate(
    result: Result<(), rtnetlink::Error>,
    fine: impl Fn(i32) -> bool,
    action: &'static str,
) -> Result<(), Error> {
    match result {
        Err(rtnetlink::Error::NetlinkError(message)) if fine(-message.raw_code()) => Ok(()),
        other => other.map_err(failed(action)),
    }
}

fn exists(errno: i32) -> bool {
    std::io::Error::from_raw_os_error(errno).kind() == std::io::ErrorKind::AlreadyExists
}

/// No such rule, route, address, or (for IPv6) no such family in this kernel.
fn is_missing(errno: i32) -> bool {
    const ENOENT: i32 = 2;
    const ESRCH: i32 = 3;
    const EADDRNOTAVAIL: i32 = 99;
    const EAFNOSUPPORT: i32 = 97;
    [ENOENT, ESRCH, EADDRNOTAVAIL, EAFNOSUPPORT].contains(&errno)
}
