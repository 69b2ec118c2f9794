//! Addresses and routes that the rules count on.
//!
//! In: a configuration; out: `::6` on the loopback link, and for transparent capture the policy route
//! that keeps marked packets on this machine. What is there already is left as it is.

use std::io;

use ironsail_sys::netlink::{CREATE, Netlink, attribute, find_attribute};

use super::Error;
use crate::config::Config;

/// The kernel gives the loopback link of every namespace this number.
const LOOPBACK: u32 = 1;
/// `::6`: from here the proxy reaches the application over IPv6. 127.0.0.6 needs no such entry.
const PASSTHROUGH: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6];

/// Kinds of messages: to add, to remove, to list.
const ADDRESS: [u16; 3] = [20, 21, 22];
const ROUTE: [u16; 3] = [24, 25, 26];
const RULE: [u16; 3] = [32, 33, 34];
const V4: u8 = 2;
const V6: u8 = 10;

/// Bytes that messages of routes and rules begin with.
const FIXED: usize = 12;
const ROUTE_LINK: u16 = 4;
const RULE_MARK: u16 = 10;
/// Of routes and of rules.
const TABLE: u16 = 15;

pub(super) fn ensure(config: &Config) -> Result<(), Error> {
    if !config.ipv6 && !config.needs_tproxy_route() {
        return Ok(());
    }
    let mut netlink = Netlink::open().map_err(failed("open a netlink socket"))?;
    if config.ipv6 {
        let added = netlink.change(ADDRESS[0], CREATE, &passthrough());
        tolerate(added, exists, "add ::6 to the loopback link")?;
    }
    if config.needs_tproxy_route() {
        for family in families(config) {
            // The kernel takes the same rule any number of times, each with the next priority.
            if !has_rule(&mut netlink, family, config)? {
                let added = netlink.change(RULE[0], CREATE, &rule(family, config));
                added.map_err(failed("add the policy rule of the mark"))?;
            }
            let added = netlink.change(ROUTE[0], CREATE, &route(family, config));
            tolerate(added, exists, "add the local route of marked packets")?;
        }
    }
    Ok(())
}

/// Removes what [`ensure`] adds, as far as it is there.
pub(super) fn remove(config: &Config) -> Result<(), Error> {
    let mut netlink = Netlink::open().map_err(failed("open a netlink socket"))?;
    for family in families(config) {
        let gone = netlink.change(RULE[1], 0, &rule(family, config));
        tolerate(gone, is_missing, "remove the policy rule of the mark")?;
        let gone = netlink.change(ROUTE[1], 0, &route(family, config));
        tolerate(gone, is_missing, "remove the local route of marked packets")?;
    }
    let gone = netlink.change(ADDRESS[1], 0, &passthrough());
    tolerate(gone, is_missing, "remove ::6 from the loopback link")
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

fn families(config: &Config) -> Vec<u8> {
    if config.ipv6 { vec![V4, V6] } else { vec![V4] }
}

fn passthrough() -> Vec<u8> {
    // Without the search for duplicates, which would keep the proxy from using it at once.
    const NO_SEARCH: u8 = 2;
    let mut message = vec![V6, 128, NO_SEARCH, 0];
    message.extend(LOOPBACK.to_ne_bytes());
    attribute(&mut message, 1, &PASSTHROUGH);
    message
}

/// Everything in the table stays on this machine.
fn route(family: u8, config: &Config) -> Vec<u8> {
    const BY_ADMINISTRATOR: u8 = 4;
    const TO_HOST: u8 = 254;
    const LOCAL: u8 = 2;
    let mut message = vec![family, 0, 0, 0, 0, BY_ADMINISTRATOR, TO_HOST, LOCAL, 0, 0, 0, 0];
    attribute(&mut message, TABLE, &config.tproxy_route_table.to_ne_bytes());
    attribute(&mut message, ROUTE_LINK, &LOOPBACK.to_ne_bytes());
    message
}

/// Marked packets look into the table.
fn rule(family: u8, config: &Config) -> Vec<u8> {
    const LOOK_UP: u8 = 1;
    let mut message = vec![family, 0, 0, 0, 0, 0, 0, LOOK_UP, 0, 0, 0, 0];
    attribute(&mut message, RULE_MARK, &config.tproxy_mark.to_ne_bytes());
    attribute(&mut message, TABLE, &config.tproxy_route_table.to_ne_bytes());
    message
}

fn has_rule(netlink: &mut Netlink, family: u8, config: &Config) -> Result<bool, Error> {
    let question = [family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let rules = netlink.list(RULE[2], &question).map_err(failed("list the policy rules"))?;
    let is = |rule: &[u8], kind, number: u32| {
        find_attribute(rule, FIXED, kind) == Some(number.to_ne_bytes().as_slice())
    };
    let of_table = |rule: &[u8]| {
        let short = rule.get(4).copied().map(u32::from);
        short == Some(config.tproxy_route_table) || is(rule, TABLE, config.tproxy_route_table)
    };
    Ok(rules.iter().any(|rule| of_table(rule) && is(rule, RULE_MARK, config.tproxy_mark)))
}

fn failed(action: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Route { action, source: Box::new(source) }
}

fn tolerate(
    result: io::Result<()>,
    fine: impl Fn(i32) -> bool,
    action: &'static str,
) -> Result<(), Error> {
    match result {
        Err(error) if error.raw_os_error().is_some_and(fine) => Ok(()),
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
