//! Names, addresses, ports and durations: is this text one?

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use super::check::Check;

/// Letters, digits and `-`, at most 63, no `-` at either end.
pub(crate) fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

/// `*`, or a label that may have `*` or `*-` before it.
fn is_wildcard_label(text: &str) -> bool {
    let rest = text.strip_prefix('*').map(|rest| rest.strip_prefix('-').unwrap_or(rest));
    match rest {
        Some("") => text == "*",
        Some(rest) => text.len() <= 63 && is_label(rest),
        None => is_label(text),
    }
}

pub(crate) fn is_ip(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

fn length(domain: &str) -> Result<(), String> {
    match domain.len() {
        0 => Err("empty domain name not allowed".to_owned()),
        1..=255 => Ok(()),
        _ => Err(format!("domain name {:?} too long (max 255)", head(domain))),
    }
}

/// The beginning of a text that may be too long to show.
pub(super) fn head(text: &str) -> String {
    text.chars().take(64).collect()
}

fn labels(domain: &str, rest: &str) -> Result<(), String> {
    let parts: Vec<_> = rest.split('.').collect();
    let top = parts.last().copied().unwrap_or_default();
    if !top.is_empty() && top.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "domain name {domain:?} invalid (top level domain {top:?} cannot be all-numeric)"
        ));
    }
    let bad = |(index, part): &(usize, &&str)| {
        // One dot at the end makes a name absolute.
        let end = part.is_empty() && index + 1 == parts.len();
        !end && !is_label(part)
    };
    match parts.iter().enumerate().find(bad) {
        Some((_, part)) => Err(format!("domain name {domain:?} invalid (label {part:?} invalid)")),
        None => Ok(()),
    }
}

/// A name without a wildcard.
pub(crate) fn fqdn(domain: &str) -> Result<(), String> {
    length(domain)?;
    labels(domain, domain)
}

/// A name that may begin with a wildcard.
pub(crate) fn wildcard_domain(domain: &str) -> Result<(), String> {
    length(domain)?;
    let (first, rest) = domain.split_once('.').map_or((domain, None), |(a, b)| (a, Some(b)));
    if !is_wildcard_label(first) {
        return Err(format!("domain name {domain:?} invalid (label {first:?} invalid)"));
    }
    rest.map_or(Ok(()), |rest| labels(domain, rest))
}

/// As [`wildcard_domain`], or a name that the mesh makes up for TLS between gateways:
/// `outbound_.80_.v1_.reviews.default.svc.cluster.local`.
pub(super) fn gateway_domain(sni: bool, domain: &str) -> Result<(), String> {
    let made = domain.strip_prefix("outbound_.").filter(|_| sni);
    match made {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => length(domain),
        _ => wildcard_domain(domain),
    }
}

/// `*abc.example.com` is no name that a listener could match.
pub(super) fn partial_wildcard(host: &str) -> Result<(), String> {
    let partial = host.contains('*') && host != "*" && !host.starts_with("*.");
    if partial { Err(format!("partial wildcard {host:?} not allowed")) } else { Ok(()) }
}

pub(crate) fn port(number: u32) -> Result<(), String> {
    if (1..=65535).contains(&number) {
        Ok(())
    } else {
        Err(format!("port number {number} must be in the range 1..65535"))
    }
}

pub(super) fn port_name(name: &str) -> Result<(), String> {
    if is_label(name) { Ok(()) } else { Err(format!("invalid port name: {}", head(name))) }
}

pub(crate) fn ip(text: &str) -> Result<(), String> {
    if is_ip(text) { Ok(()) } else { Err(format!("{} is not a valid IP", head(text))) }
}

/// An address, or a range of them.
pub(crate) fn subnet(text: &str) -> Result<(), String> {
    if !text.contains('/') {
        return ip(text);
    }
    match text.parse::<ipnet::IpNet>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("{} is not a valid CIDR block", head(text))),
    }
}

/// What stands behind `unix://`.
pub(super) fn unix(path: &str) -> Result<(), String> {
    if path.is_empty() {
        Err("unix address must not be empty".to_owned())
    } else if path.starts_with('@') || (path.starts_with('/') && !path.ends_with('/')) {
        Ok(())
    } else {
        Err(format!("{} is not an absolute path to a file", head(path)))
    }
}

/// Envoy counts in milliseconds.
pub(crate) fn duration(duration: Duration) -> Result<(), String> {
    if duration < Duration::from_millis(1) {
        Err("duration must be greater than 1ms".to_owned())
    } else if !duration.subsec_nanos().is_multiple_of(1_000_000) {
        Err("only durations to ms precision are supported".to_owned())
    } else {
        Ok(())
    }
}

impl Check<'_> {
    pub(super) fn duration(&mut self, field: &str, value: Option<Duration>) {
        if let Some(value) = value {
            self.take_at(field, duration(value));
        }
    }

    /// Labels as Kubernetes allows them.
    pub(super) fn labels(&mut self, field: &str, labels: &BTreeMap<String, String>) {
        for (key, value) in labels {
            self.within(field, |check| {
                check.require(is_label_key(key), || format!("invalid tag key: {:?}", head(key)));
                check.require(is_label_value(value), || {
                    format!("invalid tag value: {:?}", head(value))
                });
            });
        }
    }

    /// Namespaces that something is visible in.
    pub(super) fn export_to(&mut self, entries: &[String], nobody_allowed: bool) {
        let namespace = self.meta().namespace.clone();
        let mut seen = BTreeSet::new();
        self.each("exportTo", entries, |check, entry| {
            let key = if entry == "." { namespace.as_str() } else { entry.as_str() };
            if !seen.insert(key.to_owned()) {
                check.error(if key == entry {
                    format!("duplicate entries in exportTo for entry {entry}")
                } else {
                    format!("duplicate entries in exportTo: . and current namespace {namespace}")
                });
                return;
            }
            match entry.as_str() {
                "." | "*" => {}
                "~" => check.require(
                    nobody_allowed,
                    || "exportTo ~ (none) is not allowed for Istio configuration objects",
                ),
                name => check.require(
                    is_label(name),
                    || "only .,*, or a valid DNS 1123 label is allowed as exportTo entry",
                ),
            }
        });
        if entries.len() > 1 && entries.iter().any(|entry| entry == "*") {
            self.within("exportTo", |check| {
                check.error(
                    "cannot have both public (*) and non-public exportTo values for a resource",
                );
            });
        }
        if nobody_allowed && entries.len() > 1 && entries.iter().any(|entry| entry == "~") {
            self.within("exportTo", |check| {
                check.error("cannot export service entry to no one (~) and someone");
            });
        }
    }
}

fn is_label_key(key: &str) -> bool {
    let name = match key.split_once('/') {
        Some((prefix, name)) => {
            if prefix.len() > 253 || !prefix.split('.').all(is_label) {
                return false;
            }
            name
        }
        None => key,
    };
    !name.is_empty() && is_label_value(name)
}

fn is_label_value(value: &str) -> bool {
    let bytes = value.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    bytes.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

/// What a protocol's name says about its traffic.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http,
    Tls,
    Tcp,
    Udp,
}

/// `None` for names that nobody knows, the empty one among them.
pub(super) fn protocol(name: &str) -> Option<Protocol> {
    Some(match name.to_ascii_lowercase().as_str() {
        "http" | "http2" | "http_proxy" | "grpc" | "grpc-web" => Protocol::Http,
        "https" | "tls" => Protocol::Tls,
        "tcp" | "mongo" | "redis" | "mysql" | "hbone" | "double-hbone" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => return None,
    })
}

/// Known, or empty, which means to look at the traffic itself.
pub(super) fn protocol_name(name: &str) -> Result<(), String> {
    if name.is_empty() || protocol(name).is_some() {
        Ok(())
    } else {
        Err(format!("unsupported protocol: {}", head(name)))
    }
}
