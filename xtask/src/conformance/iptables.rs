//! Family `iptables`: settings → the rules of `istio-iptables`.
//!
//! The expected text holds an IPv4 block of `iptables-restore` and, if IPv6 is on, another one, unmarked:
//! a table that comes for the second time begins it. Compared by family, table and chain, each rule as
//! the set of its options.

use std::path::Path;

use anyhow::Context;
use ironsail_redirect::config::Host;
use ironsail_redirect::iptables::restore;
use ironsail_redirect::{Config, Family, Settings};
use serde_json::Value;

use super::ruleset::Ruleset;
use super::{Case, read};

pub(super) fn cases(folder: &Path) -> anyhow::Result<Vec<Case>> {
    judge(folder, |config, expected| {
        let (v4, v6) = blocks(expected);
        let set = ironsail_redirect::build(config);
        ruleset(&restore(&set, Family::V4))
            .same_as(&ruleset(&v4))
            .map_err(|e| format!("IPv4: {e}"))?;
        let ours = if config.ipv6 { restore(&set, Family::V6) } else { String::new() };
        ruleset(&ours).same_as(&ruleset(&v6)).map_err(|e| format!("IPv6: {e}"))
    })
}

/// Runs all cases of `cases.json`; both families of packet rules have the same one.
pub(super) fn judge(
    folder: &Path,
    compare: impl Fn(&Config, &str) -> Result<(), String>,
) -> anyhow::Result<Vec<Case>> {
    let cases: Vec<Value> =
        serde_json::from_str(&read(&folder.join("cases.json"))?).context("cases.json")?;
    cases
        .iter()
        .map(|case| {
            let text = |key: &str| {
                case[key].as_str().with_context(|| format!("a case without {key}: {case}"))
            };
            let expected = read(&folder.join(text("golden")?))?;
            let result = config(&case["config"]).and_then(|config| compare(&config, &expected));
            Ok(Case::judged(text("name")?, result))
        })
        .collect()
}

/// The settings of a case have the names of their reference implementation.
fn config(case: &Value) -> Result<Config, String> {
    let mut settings = Settings::default();
    let mut host = Host::default();
    for (name, value) in case.as_object().into_iter().flatten() {
        let text = || value.as_str().unwrap_or_default().to_owned();
        let on = value.as_bool().unwrap_or_default();
        match name.as_str() {
            "ProxyPort" => settings.proxy_port = text(),
            "InboundCapturePort" => settings.inbound_capture_port = text(),
            "InboundTunnelPort" => settings.inbound_tunnel_port = text(),
            "ProxyUID" => settings.proxy_uid = text(),
            "ProxyGID" => settings.proxy_gid = text(),
            "InboundInterceptionMode" => settings.inbound_interception_mode = text(),
            "InboundTProxyMark" => settings.inbound_tproxy_mark = text(),
            "InboundTProxyRouteTable" => settings.inbound_tproxy_route_table = text(),
            "InboundPortsInclude" => settings.inbound_ports_include = text(),
            "InboundPortsExclude" => settings.inbound_ports_exclude = text(),
            "OutboundPortsInclude" => settings.outbound_ports_include = text(),
            "OutboundPortsExclude" => settings.outbound_ports_exclude = text(),
            "OutboundIPRangesInclude" => settings.outbound_ip_ranges_include = text(),
            "OutboundIPRangesExclude" => settings.outbound_ip_ranges_exclude = text(),
            "OwnerGroupsInclude" => settings.owner_groups_include = text(),
            "OwnerGroupsExclude" => settings.owner_groups_exclude = text(),
            "RerouteVirtualInterfaces" => settings.reroute_virtual_interfaces = text(),
            "ExcludeInterfaces" => settings.exclude_interfaces = text(),
            "HostIPv4LoopbackCidr" => settings.loopback_cidr = text(),
            "RedirectDNS" => settings.redirect_dns = on,
            "CaptureAllDNS" => settings.capture_all_dns = on,
            "DropInvalid" => settings.drop_invalid = on,
            "EnableIPv6" => host.ipv6 = on,
            "DNSServersV4" | "DNSServersV6" => host.name_servers.extend(servers(value)?),
            _ => return Err(format!("the setting {name} is not known here")),
        }
    }
    // A separate proxy group that is not given is the default, not the given user.
    if settings.proxy_gid.is_empty() {
        settings.proxy_gid = Settings::default().proxy_uid;
    }
    settings
        .config(&host)
        .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

fn servers(value: &Value) -> Result<Vec<std::net::IpAddr>, String> {
    let list = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    list.map(|s| s.parse().map_err(|_| format!("{s} is no address"))).collect()
}

/// The IPv4 and the IPv6 part of an expectation, without lines that are no rules.
fn blocks(text: &str) -> (String, String) {
    let mut blocks = [String::new(), String::new()];
    let mut seen: Vec<&str> = Vec::new();
    let mut block = 0;
    for line in text.lines().filter(|l| l.starts_with(['*', '-']) || *l == "COMMIT") {
        if let Some(table) = line.strip_prefix('*') {
            if seen.contains(&table) {
                block = 1;
                seen.clear();
            }
            seen.push(table);
        }
        blocks[block].push_str(line);
        blocks[block].push('\n');
    }
    blocks.into()
}

/// What `iptables-restore` would make of the text.
fn ruleset(text: &str) -> Ruleset {
    let mut set = Ruleset::default();
    let mut table = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name.trim();
        }
        let mut words = line.splitn(3, ' ');
        let (command, chain, rest) = (words.next(), words.next(), words.next().unwrap_or_default());
        match (command, chain) {
            (Some("-N"), Some(chain)) => set.add_chain(table, chain),
            (Some("-A"), Some(chain)) => set.append(table, chain, options(rest)),
            (Some("-I"), Some(chain)) => {
                let (position, rest) = rest.split_once(' ').unwrap_or(("1", rest));
                let index = position.parse::<usize>().unwrap_or(1).saturating_sub(1);
                set.insert(table, chain, index, options(rest));
            }
            _ => {}
        }
    }
    set
}

/// Each option with its value; their order in a rule means nothing.
fn options(rule: &str) -> Vec<String> {
    let mut options: Vec<String> = Vec::new();
    let mut not = false;
    for word in rule.split_whitespace() {
        match options.last_mut() {
            _ if word == "!" => not = true,
            Some(option) if !word.starts_with('-') => {
                option.push(' ');
                option.push_str(word);
            }
            _ => {
                options.push(format!("{}{word}", if not { "! " } else { "" }));
                not = false;
            }
        }
    }
    // Loading a module is not a condition.
    options.retain(|option| !option.starts_with("-m "));
    options.sort();
    options
}

#[cfg(test)]
mod tests {
    use super::{blocks, ruleset};

    #[test]
    fn rules_are_equal_if_their_options_are() {
        let one =
            "*nat\n-N C\n-A C -o lo ! -d 127.0.0.1/32 -p tcp -m owner ! --uid-owner 3 -j RETURN\n";
        let other =
            "* nat\n-N C\n-A C -p tcp -m owner ! --uid-owner 3 ! -d 127.0.0.1/32 -o lo -j RETURN\n";
        assert_eq!(ruleset(one), ruleset(other));
        let third = other.replace("! -d", "-d");
        assert!(ruleset(one).same_as(&ruleset(&third)).is_err());
    }

    #[test]
    fn inserted_rules_come_where_the_kernel_puts_them() {
        let inserted = "*nat\n-A C -j A\n-I C 1 -j B\n-I C 2 -j D\n";
        let appended = "*nat\n-A C -j B\n-A C -j D\n-A C -j A\n";
        assert_eq!(ruleset(inserted), ruleset(appended));
    }

    #[test]
    fn a_table_that_comes_again_is_of_the_other_family() {
        let (v4, v6) = blocks(
            "iptables-save\n* mangle\nCOMMIT\n* nat\n-N A\nCOMMIT\n* nat\n-N B\nCOMMIT\nx\n",
        );
        assert_eq!(v4, "* mangle\nCOMMIT\n* nat\n-N A\nCOMMIT\n");
        assert_eq!(v6, "* nat\n-N B\nCOMMIT\n");
    }
}
