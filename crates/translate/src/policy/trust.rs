//! Identities in policies under the other names of the mesh's trust domain.
//!
//! A policy that names an identity of the mesh's own domain, or of one of its aliases, means it under
//! all of these domains. `cluster.local` stands for the own domain, whatever that is called.

use ironsail_names::TrustDomains;

const LOCAL: &str = "cluster.local";

/// The identities with those that mean the same.
pub(super) fn with_aliases(domains: &TrustDomains, principals: &[String]) -> Vec<String> {
    let mut out: Vec<String> = Vec::with_capacity(principals.len());
    let mut add = |text: String| {
        if !out.contains(&text) {
            out.push(text);
        }
    };
    for principal in principals {
        let Some((domain, rest)) = principal.split_once('/') else {
            add(principal.clone());
            continue;
        };
        let own = domains.iter().any(|own| fits(domain, own.as_str()));
        if !own && domain != LOCAL {
            add(principal.clone());
            continue;
        }
        for own in domains.iter() {
            match domain.starts_with('*') && fits(domain, own.as_str()) {
                // The wildcard covers it already.
                true => add(principal.clone()),
                false => add(format!("{own}/{rest}")),
            }
        }
    }
    out
}

fn fits(pattern: &str, domain: &str) -> bool {
    match pattern.strip_prefix('*') {
        Some(suffix) => domain.ends_with(suffix),
        None => pattern == domain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(own: &str, aliases: &[&str], principals: &[&str]) -> Vec<String> {
        let parse = |text: &&str| text.parse().unwrap();
        let domains = TrustDomains::new(own.parse().unwrap(), aliases.iter().map(parse));
        let principals: Vec<String> = principals.iter().map(|&p| p.to_owned()).collect();
        with_aliases(&domains, &principals)
    }

    #[test]
    fn an_identity_is_meant_under_every_name_of_its_domain() {
        for (own, aliases, given, wanted) in [
            ("td", &[][..], "cluster.local/ns/a/sa/b", &["td/ns/a/sa/b"][..]),
            ("td", &[], "td/ns/a/sa/b", &["td/ns/a/sa/b"]),
            ("td", &["old"], "old/ns/a/sa/b", &["td/ns/a/sa/b", "old/ns/a/sa/b"]),
            ("td", &["old"], "other/ns/a/sa/b", &["other/ns/a/sa/b"]),
            ("td", &["old"], "*", &["*"]),
            ("td", &["old"], "*/ns/a/sa/b", &["*/ns/a/sa/b"]),
            ("my.td", &["old"], "*.td/ns/a/sa/b", &["*.td/ns/a/sa/b", "old/ns/a/sa/b"]),
            ("td", &["old"], "*-suffix", &["*-suffix"]),
            ("td", &["old"], "td/ns/a/*", &["td/ns/a/*", "old/ns/a/*"]),
        ] {
            assert_eq!(replaced(own, aliases, &[given]), wanted, "{given}");
        }
    }
}
