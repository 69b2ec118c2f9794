//! `RateLimitPolicy`.

use std::collections::BTreeSet;
use std::time::Duration;

use super::check::Check;
use super::name::head;
use super::{check_regex, selector};
use crate::istio::networking::StringMatch;
use crate::ratelimit::{
    RateLimitAttribute, RateLimitKey, RateLimitMatch, RateLimitPolicy, RateLimitRule,
};

/// Envoy fills buckets no more often.
const SHORTEST: Duration = Duration::from_millis(50);

pub(super) fn check(check: &mut Check<'_>, policy: &RateLimitPolicy) {
    selector::policy(check, policy.selector.as_ref(), None, &policy.target_refs);
    check.require(!policy.rules.is_empty(), || "a policy needs at least one rule");
    let mut names = BTreeSet::new();
    check.each("rules", &policy.rules, |check, one| {
        check.require(names.insert(one.name.clone()), || {
            format!("two rules are called {:?}", head(&one.name))
        });
        rule(check, one);
        check.require(
            one.global.is_none() || policy.server.is_some(),
            || "a rule with global needs server",
        );
    });
    check.some("server", policy.server.as_ref(), |check, server| {
        let port = server.address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        check.require(port.is_some_and(|port| port > 0), || "address must be HOST:PORT");
        check.require(!server.domain.is_empty(), || "domain must be set");
    });
    check.some("response", policy.response.as_ref(), |check, response| {
        let good = matches!(
            response.status,
            0 | 400..=417 | 421..=424 | 426 | 428 | 429 | 431 | 500..=508 | 510 | 511
        );
        check.require(good, || "status must be one of an error that HTTP has a name for");
        for name in response.headers.keys() {
            header(check, name);
        }
    });
}

fn rule(check: &mut Check<'_>, rule: &RateLimitRule) {
    check.require(!rule.name.is_empty(), || "name must be set");
    check.require(
        rule.local.is_some() != rule.global.is_some(),
        || "exactly one of local or global must be set",
    );
    check.some("match", rule.r#match.as_ref(), matching);
    check.each("by", &rule.by, key);
    check.some("local", rule.local.as_ref(), |check, local| {
        check.require(local.requests > 0, || "requests must be more than none");
        let interval = local.interval.unwrap_or_default();
        check.require(interval >= SHORTEST, || "interval must be 50ms or longer");
    });
}

fn key(check: &mut Check<'_>, key: &RateLimitKey) {
    let attribute = key.attribute != RateLimitAttribute::Unspecified;
    check.require(
        key.header.is_empty() == attribute,
        || "exactly one of header or attribute must be set",
    );
    if !key.header.is_empty() {
        header(check, &key.header);
    }
}

fn header(check: &mut Check<'_>, name: &str) {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_|~`".contains(c);
    check.require(!name.is_empty() && name.chars().all(token), || {
        format!("{:?} is no name of a header", head(name))
    });
}

fn matching(check: &mut Check<'_>, rule: &RateLimitMatch) {
    check.each("paths", &rule.paths, text);
    for (name, value) in &rule.headers {
        check.within(&format!("headers[{}]", head(name)), |check| {
            header(check, name);
            if !matches!(value, StringMatch::Unset) {
                text(check, value);
            }
        });
    }
    check.each("principals", &rule.principals, |check, name| {
        let good = name.split('/').count() == 5 && name.contains("/ns/") && name.contains("/sa/");
        check.require(good, || "a principal reads TRUSTDOMAIN/ns/NAMESPACE/sa/ACCOUNT");
    });
}

fn text(check: &mut Check<'_>, value: &StringMatch) {
    match value {
        StringMatch::Unset => check.error("one of exact, prefix or regex must be set"),
        StringMatch::Exact(text) | StringMatch::Prefix(text) => {
            check.require(!text.is_empty(), || "it must not be empty");
        }
        StringMatch::Regex(text) => {
            if let Err(reason) = check_regex(text) {
                check.error(format!("invalid regex: {reason}"));
            }
        }
    }
}
