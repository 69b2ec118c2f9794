//! The names under which a proxy's applications may call a host.
//!
//! `httpbin.foo.svc.cluster.local` is also `httpbin` to pods of namespace `foo`, and `httpbin.foo` and
//! `httpbin.foo.svc` to all pods, as their resolvers complete names.

use std::fmt::Display;
use std::net::IpAddr;

/// `HOST:PORT`, with brackets around an IPv6 address.
pub(crate) fn with_port(host: impl Display, port: u16) -> String {
    let host = host.to_string();
    format!("{}:{port}", bracketed(&host))
}

pub(crate) fn bracketed(host: &str) -> String {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(_)) => format!("[{host}]"),
        _ => host.to_owned(),
    }
}

/// Shorter names of `host` for clients whose DNS domain is `proxy_domain`.
pub(crate) fn short_names(host: &str, proxy_domain: &str) -> Vec<String> {
    let Some(at) = proxy_domain.find(".svc.") else { return shared(host, proxy_domain) };
    let (own, suffix) = proxy_domain.split_at(at);
    // Names that are not completed by the cluster's resolver might be others' names when shortened.
    let Some(short) = host.strip_suffix(suffix) else { return Vec::new() };
    let Some((name, namespace)) = short.split_once('.') else { return Vec::new() };
    let with_svc = format!("{short}.svc");
    match namespace == own {
        true => vec![name.to_owned(), with_svc, short.to_owned()],
        false => vec![short.to_owned(), with_svc],
    }
}

/// Outside of Kubernetes: what is left of `host` without the domain that both share.
fn shared(host: &str, proxy_domain: &str) -> Vec<String> {
    let (host, domain): (Vec<&str>, Vec<&str>) =
        (host.split('.').collect(), proxy_domain.split('.').collect());
    let same = host.iter().rev().zip(domain.iter().rev()).take_while(|(a, b)| a == b).count();
    if same == 0 || same == host.len() {
        return Vec::new();
    }
    let (own, common) = host.split_at(host.len() - same);
    let unique = own.join(".");
    match own.len() {
        2 => vec![unique.clone(), format!("{unique}.{}", common[0])],
        _ => vec![unique],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_short_as_the_clients_namespace_allows() {
        let names = |host, domain| short_names(host, domain).join(" ");
        let host = "httpbin.foo.svc.cluster.local";
        assert_eq!(names(host, "foo.svc.cluster.local"), "httpbin httpbin.foo.svc httpbin.foo");
        assert_eq!(names(host, "bar.svc.cluster.local"), "httpbin.foo httpbin.foo.svc");
        assert_eq!(names("example.com", "foo.svc.cluster.local"), "");
        assert_eq!(names(host, "foo.svc.other.domain"), "");
        assert_eq!(names("foo.local.campus.net", "local.campus.net"), "foo");
        assert_eq!(
            names("foo.local.campus.net", "remote.campus.net"),
            "foo.local foo.local.campus"
        );
        assert_eq!(names("foo.com", "campus.net"), "");
    }

    #[test]
    fn ipv6_addresses_have_brackets() {
        assert_eq!(with_port("fd00::1", 80), "[fd00::1]:80");
        assert_eq!(with_port("a.b", 80), "a.b:80");
        assert_eq!(bracketed("10.0.0.1"), "10.0.0.1");
    }
}
