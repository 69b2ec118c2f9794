//! Which virtual host a request is for: the exact name, then the longest suffix, then the longest
//! prefix, then `*`. Upper and lower case are the same.

use ironsail_proto::envoy::config::route::v3::{RouteConfiguration, VirtualHost};

pub(crate) fn choose<'a>(
    routes: &'a RouteConfiguration,
    authority: &str,
) -> Option<(&'a VirtualHost, &'a str)> {
    let lower = authority.to_ascii_lowercase();
    let host = match routes.ignore_port_in_host_matching {
        true => without_port(&lower),
        false => &lower,
    };
    let all = || {
        routes.virtual_hosts.iter().flat_map(|vh| vh.domains.iter().map(move |d| (vh, d.as_str())))
    };
    let is = |domain: &str| domain.eq_ignore_ascii_case(host);
    if let Some(found) = all().find(|(_, domain)| is(domain)) {
        return Some(found);
    }
    let suffix = |domain: &str| {
        let tail = domain.strip_prefix('*').filter(|tail| !tail.is_empty())?.to_ascii_lowercase();
        (host.len() > tail.len() && host.ends_with(&tail)).then_some(tail.len())
    };
    let prefix = |domain: &str| {
        let head = domain.strip_suffix('*').filter(|head| !head.is_empty())?.to_ascii_lowercase();
        (host.len() > head.len() && host.starts_with(&head)).then_some(head.len())
    };
    let longest = |length: &dyn Fn(&str) -> Option<usize>| {
        let fitting = all().filter_map(|(vh, domain)| Some((length(domain)?, vh, domain)));
        fitting.max_by_key(|(length, ..)| *length).map(|(_, vh, domain)| (vh, domain))
    };
    longest(&suffix)
        .or_else(|| longest(&prefix))
        .or_else(|| all().find(|(_, domain)| *domain == "*"))
}

pub(crate) fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port))
            if !port.is_empty()
                && port.bytes().all(|b| b.is_ascii_digit())
                && (!host.contains(':') || host.ends_with(']')) =>
        {
            host
        }
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ironsail_proto::from_json;
    use proptest::prelude::*;
    use serde_json::json;

    fn chosen(authority: &str, ignore_port: bool) -> String {
        let routes: RouteConfiguration = from_json(&json!({
            "ignore_port_in_host_matching": ignore_port,
            "virtual_hosts": [
                {"name": "all", "domains": ["*"]},
                {"name": "exact", "domains": ["Reviews.foo", "reviews.foo:9080"]},
                {"name": "suffix", "domains": ["*.foo"]},
                {"name": "long suffix", "domains": ["*.bar.foo"]},
                {"name": "prefix", "domains": ["rev*"]},
            ]
        }))
        .unwrap();
        choose(&routes, authority).map_or_else(|| "none".into(), |(vh, _)| vh.name.clone())
    }

    #[test]
    fn hosts_are_found_as_envoy_finds_them() {
        for (authority, ignore, wanted) in [
            ("reviews.foo", true, "exact"),
            ("REVIEWS.FOO", true, "exact"),
            ("reviews.foo:1234", true, "exact"),
            ("reviews.foo:9080", false, "exact"),
            ("reviews.foo:1234", false, "prefix"),
            ("x.foo", true, "suffix"),
            ("x.bar.foo", true, "long suffix"),
            ("rev", true, "all"),
            ("revx", true, "prefix"),
            ("revx.foo", true, "suffix"),
            ("else", true, "all"),
            ("[::1]:80", true, "all"),
        ] {
            assert_eq!(chosen(authority, ignore), wanted, "{authority}");
        }
        assert_eq!(without_port("[::1]:80"), "[::1]");
        assert_eq!(without_port("::1"), "::1");
    }

    proptest! {
        #[test]
        fn any_authority_has_the_catch_all_at_least(authority in "\\PC{0,30}") {
            prop_assert_ne!(chosen(&authority, true), "none");
        }
    }
}
