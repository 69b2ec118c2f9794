//! `AuthorizationPolicy`, `PeerAuthentication` and `RequestAuthentication`.

use serde_json::Value;

use super::check::Check;
use super::http::header_name;
use super::name::{self, head};
use super::selector;
use crate::istio::security::{
    Action, AuthorizationPolicy, Condition, JwtRule, PeerAuthentication, RequestAuthentication,
    RequestOperation, Rule, Source,
};

pub(super) fn authorization(check: &mut Check<'_>, policy: &AuthorizationPolicy) {
    selector::policy(
        check,
        policy.selector.as_ref(),
        policy.target_ref.as_ref(),
        &policy.target_refs,
    );
    let action = policy.action;
    if matches!(action, Action::Custom | Action::Deny) && policy.rules.is_empty() {
        check.error(format!(
            "{action} action without `rules` is meaningless as it will never be triggered, add an empty rule `{{}}` if you want it be triggered for every request"
        ));
    }
    match (&policy.provider, action) {
        (provider, Action::Custom) => {
            let named = provider.as_ref().is_some_and(|provider| !provider.name.is_empty());
            check.require(named || policy.rules.is_empty(), || "`provider.name` must not be empty");
        }
        (Some(_), action) => {
            check.error(format!("`provider` must not be with non CUSTOM action, found {action}"));
        }
        (None, _) => {}
    }
    check.each("rules", &policy.rules, |check, one| {
        if action == Action::Custom {
            custom(check, one);
        }
        rule(check, one, action);
    });
}

/// Who asks is only known after the external authorizer was asked.
fn custom(check: &mut Check<'_>, rule: &Rule) {
    for source in rule.from.iter().filter_map(|from| from.source.as_ref()) {
        for (name, list) in [
            ("From.Namespaces", &source.namespaces),
            ("From.NotNamespaces", &source.not_namespaces),
            ("From.Principals", &source.principals),
            ("From.NotPrincipals", &source.not_principals),
            ("From.RequestPrincipals", &source.request_principals),
            ("From.NotRequestPrincipals", &source.not_request_principals),
            ("From.ServiceAccounts", &source.service_accounts),
            ("From.NotServiceAccounts", &source.not_service_accounts),
        ] {
            check.require(list.is_empty(), || {
                format!("{name} is currently not supported with CUSTOM action")
            });
        }
    }
    for condition in &rule.when {
        let key = condition.key.as_str();
        let unknown = ["source.namespace", "source.principal", "source.serviceAccount"]
            .contains(&key)
            || key.starts_with("request.auth.");
        check.require(!unknown, || format!("{key} is currently not supported with CUSTOM action"));
    }
}

fn rule(check: &mut Check<'_>, rule: &Rule, action: Action) {
    let (mut tcp_from, mut tcp_to) = (false, false);
    check.each("from", &rule.from, |check, from| match &from.source {
        None => check.error("`from.source` must not be nil"),
        Some(one) => check.within("source", |check| tcp_from |= source(check, one)),
    });
    check.each("to", &rule.to, |check, to| match &to.operation {
        None => check.error("`to.operation` must not be nil"),
        Some(one) => check.within("operation", |check| tcp_to |= operation(check, one)),
    });
    check.each("when", &rule.when, condition);
    let only_http = (!rule.from.is_empty() && rule.to.is_empty() && !tcp_from)
        || (!rule.to.is_empty() && !tcp_to);
    if only_http && action == Action::Deny {
        check.warn(
            "configured AuthorizationPolicy will deny all traffic to TCP ports under its scope due to the use of only HTTP attributes in a DENY rule; it is recommended to explicitly specify the port",
        );
    }
}

/// Whether it says something about plain connections.
fn source(check: &mut Check<'_>, source: &Source) -> bool {
    check.require(*source != Source::default(), || "`from.source` must not be empty");
    for (field, list) in [
        ("ipBlocks", &source.ip_blocks),
        ("notIpBlocks", &source.not_ip_blocks),
        ("remoteIpBlocks", &source.remote_ip_blocks),
        ("notRemoteIpBlocks", &source.not_remote_ip_blocks),
    ] {
        check.each(field, list, |check, block| check.take(name::subnet(block)));
    }
    for (field, list) in [
        ("principals", &source.principals),
        ("notPrincipals", &source.not_principals),
        ("requestPrincipals", &source.request_principals),
        ("notRequestPrincipals", &source.not_request_principals),
        ("namespaces", &source.namespaces),
        ("notNamespaces", &source.not_namespaces),
        ("trustDomains", &source.trust_domains),
        ("notTrustDomains", &source.not_trust_domains),
    ] {
        not_empty(check, field, list);
    }
    for (field, list) in [
        ("serviceAccounts", &source.service_accounts),
        ("notServiceAccounts", &source.not_service_accounts),
    ] {
        check.each(field, list, |check, account| check.take(service_account(account)));
    }
    let accounts = !source.service_accounts.is_empty() || !source.not_service_accounts.is_empty();
    let others =
        [&source.principals, &source.not_principals, &source.namespaces, &source.not_namespaces];
    check.require(
        !accounts || others.iter().all(|list| list.is_empty()),
        || "Cannot set serviceAccounts with namespaces or principals",
    );
    let only_tokens = Source {
        request_principals: source.request_principals.clone(),
        not_request_principals: source.not_request_principals.clone(),
        ..Source::default()
    };
    *source != only_tokens
}

fn not_empty(check: &mut Check<'_>, field: &str, list: &[String]) {
    check.each(field, list, |check, text| {
        check.require(!text.is_empty(), || format!("empty value not allowed, found in {field}"));
    });
}

/// `name`, or `namespace/name`; no wildcards.
fn service_account(account: &str) -> Result<(), String> {
    let parts: Vec<_> = account.split('/').collect();
    let shown = head(account);
    if account.is_empty() {
        Err("empty value not allowed, found in serviceAccounts".to_owned())
    } else if account.contains('*') {
        Err(format!("wildcard not allowed in service account {shown:?}"))
    } else if parts.len() > 2 || parts.iter().any(|part| part.is_empty()) {
        Err(format!("invalid service account {shown:?}, expected <namespace>/<name> or <name>"))
    } else {
        Ok(())
    }
}

/// Whether it says something about plain connections.
fn operation(check: &mut Check<'_>, operation: &RequestOperation) -> bool {
    check.require(*operation != RequestOperation::default(), || "`to.operation` must not be empty");
    for (field, list) in [("ports", &operation.ports), ("notPorts", &operation.not_ports)] {
        check.each(field, list, |check, port| check.take(port_text(port)));
    }
    for (field, list) in [
        ("methods", &operation.methods),
        ("notMethods", &operation.not_methods),
        ("hosts", &operation.hosts),
        ("notHosts", &operation.not_hosts),
        ("paths", &operation.paths),
        ("notPaths", &operation.not_paths),
    ] {
        not_empty(check, field, list);
    }
    for (field, list) in [("paths", &operation.paths), ("notPaths", &operation.not_paths)] {
        check.each(field, list, |check, path| check.take(path_template(path)));
    }
    !operation.ports.is_empty() || !operation.not_ports.is_empty()
}

fn port_text(port: &str) -> Result<(), String> {
    match port.parse::<u16>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("invalid port {}, must be in the range 0..65535", head(port))),
    }
}

/// Braces stand only for a whole segment, `{*}`, or all the rest, `{**}`.
fn path_template(path: &str) -> Result<(), String> {
    let bad = |why: &str| Err(format!("invalid or unsupported path {}. {why}", head(path)));
    let template = path.contains("{*}") || path.contains("{**}");
    if template && path.trim_matches('*') != path {
        return bad("A path template cannot begin or end with *");
    }
    let mut rest_seen = false;
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        if rest_seen && segment.starts_with('{') {
            return bad("{**} is not the last operator");
        }
        match segment {
            "{*}" => {}
            "{**}" => rest_seen = true,
            other if other.contains(['{', '}']) => {
                return bad("Contains '{' or '}' beyond a supported path template");
            }
            other if template && other.contains('*') => {
                return bad("Contains * beside a path template");
            }
            _ => {}
        }
    }
    Ok(())
}

fn condition(check: &mut Check<'_>, condition: &Condition) {
    let key = condition.key.as_str();
    if key.is_empty() {
        return check.error("`key` must not be empty");
    }
    check.require(!condition.values.is_empty() || !condition.not_values.is_empty(), || {
        format!("at least one of `values` or `notValues` must be set for key {}", head(key))
    });
    for (field, list) in [("value", &condition.values), ("notValue", &condition.not_values)] {
        let result = attribute(key, list);
        check.take(
            result.map_err(|why| format!("invalid `{field}` for `key` {}: {why}", head(key))),
        );
    }
}

fn attribute(key: &str, values: &[String]) -> Result<(), String> {
    if values.iter().any(String::is_empty) {
        return Err(format!("empty value not allowed, found in {key}"));
    }
    let all =
        |check: fn(&str) -> Result<(), String>| values.iter().try_for_each(|value| check(value));
    match key {
        "source.ip" | "remote.ip" | "destination.ip" => all(name::subnet),
        "destination.port" => all(port_text),
        "source.serviceAccount" => all(service_account),
        "source.namespace"
        | "source.principal"
        | "source.trustDomain"
        | "request.auth.principal"
        | "request.auth.audiences"
        | "request.auth.presenter"
        | "connection.sni" => Ok(()),
        "destination.namespace" => {
            Err(format!("attribute {key} is replaced by the metadata.namespace"))
        }
        "destination.user" => {
            Err(format!("attribute {key} is replaced by the metadata.namespace and selector"))
        }
        _ if key.starts_with("destination.labels") => {
            Err(format!("attribute {key} is replaced by the workload selector"))
        }
        _ => map_attribute(key),
    }
}

/// `request.headers[name]` and the like.
fn map_attribute(key: &str) -> Result<(), String> {
    const MAPS: [&str; 4] = [
        "request.headers",
        "request.auth.claims",
        "request.experimental.inlineHeaders",
        "experimental.envoy.filters.",
    ];
    let known = MAPS.iter().any(|map| key.starts_with(map));
    if !known {
        return Err(format!("unknown attribute: {}", head(key)));
    }
    let inside = key.split_once('[').and_then(|(_, rest)| rest.strip_suffix(']'));
    if inside.is_some_and(|inside| !inside.is_empty()) {
        Ok(())
    } else {
        Err(format!("bad key ({}): should have format a[b]", head(key)))
    }
}

pub(super) fn peer_authentication(check: &mut Check<'_>, policy: &PeerAuthentication) {
    let selected =
        policy.selector.as_ref().is_some_and(|selector| !selector.match_labels.is_empty());
    check.require(
        selected || policy.port_level_mtls.is_empty(),
        || "mesh/namespace peer authentication cannot have port level mTLS",
    );
    for port in policy.port_level_mtls.keys() {
        check.within("portLevelMtls", |check| {
            check.require((1..=65535).contains(port), || "port must be in range 1..65535");
        });
    }
    selector::workloads(check, "selector", policy.selector.as_ref());
}

pub(super) fn request_authentication(check: &mut Check<'_>, policy: &RequestAuthentication) {
    selector::policy(
        check,
        policy.selector.as_ref(),
        policy.target_ref.as_ref(),
        &policy.target_refs,
    );
    check.each("jwtRules", &policy.jwt_rules, jwt_rule);
}

fn jwt_rule(check: &mut Check<'_>, rule: &JwtRule) {
    check.require(!rule.issuer.is_empty(), || "issuer must be set");
    check.require(
        rule.jwks.is_empty() || rule.jwks_uri.is_empty(),
        || "only one of jwks or jwksUri can be set",
    );
    if !rule.jwks_uri.is_empty() {
        check.take_at("jwksUri", jwks_uri(&rule.jwks_uri));
    }
    if !rule.jwks.is_empty() {
        check.take_at("jwks", jwks(&rule.jwks));
    }
    for (field, list, message) in [
        ("audiences", &rule.audiences, "audience must be non-empty string"),
        ("fromParams", &rule.from_params, "location query must be non-empty string"),
        ("fromCookies", &rule.from_cookies, "cookie name must be non-empty string"),
        (
            "spaceDelimitedClaims",
            &rule.space_delimited_claims,
            "claim name must be non-empty string",
        ),
    ] {
        check.each(field, list, |check, text| check.require(!text.is_empty(), || message));
    }
    check.each("fromHeaders", &rule.from_headers, |check, location| {
        check
            .require(!location.name.is_empty(), || "location header name must be non-empty string");
    });
    check.each("outputClaimToHeaders", &rule.output_claim_to_headers, |check, output| {
        if output.claim.is_empty() || output.header.is_empty() {
            return check
                .error("outputClaimToHeaders header and claim value must be non-empty string");
        }
        check.take(header_name(&output.header));
    });
    check.duration("timeout", rule.timeout);
}

fn jwks_uri(uri: &str) -> Result<(), String> {
    let (scheme, rest) = uri.split_once("://").unwrap_or(("", uri));
    if !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) {
        return Err(format!("URI scheme {:?} is not supported", head(scheme)));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let port = host.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')).map(|(_, port)| port);
    if host.is_empty() || uri.contains(char::is_whitespace) {
        Err(format!("{:?} is not a valid URI", head(uri)))
    } else if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        Err(format!("invalid port in URI {:?}", head(uri)))
    } else {
        Ok(())
    }
}

/// A set of keys, or one key.
fn jwks(text: &str) -> Result<(), String> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("jwks parse error: {error}"))?;
    let is_key = |key: &Value| key.get("kty").is_some_and(Value::is_string);
    let good = match value.get("keys") {
        Some(Value::Array(keys)) => keys.iter().all(is_key),
        Some(_) => false,
        None => is_key(&value),
    };
    if good { Ok(()) } else { Err("jwks parse error: keys without `kty`".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_template_takes_whole_segments() {
        for good in ["/a/{*}/b", "/a/{**}", "/a*", "*a", "/a/{*}/{**}", "/{**}/c"] {
            assert_eq!(path_template(good), Ok(()), "{good}");
        }
        for bad in ["/a/{b}", "/{**}/{*}", "/{*}*", "/a{*}", "/{*}/a*b", "/{"] {
            assert!(path_template(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn attributes_are_known_or_not() {
        assert_eq!(attribute("request.headers[x]", &["a".to_owned()]), Ok(()));
        assert_eq!(attribute("source.ip", &["10.0.0.0/8".to_owned()]), Ok(()));
        for (key, value) in [
            ("source.ip", "x"),
            ("request.headers", "a"),
            ("request.headers[]", "a"),
            ("nope", "a"),
            ("destination.port", "x"),
        ] {
            assert!(attribute(key, &[value.to_owned()]).is_err(), "{key}");
        }
    }
}
