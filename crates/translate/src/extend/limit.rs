//! `RateLimitPolicy`: each rule is a filter of its own, so that a request must pass all that match it.
//!
//! Whether a rule matches is one expression: if it is not true, it has no value, and then Envoy counts
//! nothing. Local rules have a bucket for each combination of what they tell requests apart by.

use std::fmt::Write;

use ironsail_api::istio::networking::StringMatch;
use ironsail_api::ratelimit::{
    RateLimitAttribute, RateLimitFailureMode, RateLimitKey, RateLimitMatch, RateLimitPolicy,
    RateLimitRule, RateLimitServer,
};
use ironsail_api::{Diagnostic, Kind, Resource};
use ironsail_model::config::Target;
use ironsail_model::{ProxyClass, Scope, Snapshot, full_host};
use ironsail_names::ClusterName;
use ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use ironsail_proto::from_json;
use serde_json::{Value, json};

use super::place::{self, Phase};
use crate::Key;
use crate::problem::Problems;

const LOCAL: &str =
    "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit";
const GLOBAL: &str = "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit";
const EXPRESSION: &str =
    "type.googleapis.com/envoy.extensions.rate_limit_descriptors.expr.v3.Descriptor";
/// Values that one local rule tells apart before it forgets the one not seen for longest.
const MAX_COUNTS: u32 = 10_000;

/// The policies for one class of proxies: those of the root namespace, then the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Limits<'a>(Vec<Limit<'a>>);

#[derive(Debug)]
struct Limit<'a> {
    policy: &'a Resource<RateLimitPolicy>,
    /// The cluster of the server, or why there is none.
    cluster: Option<Result<String, String>>,
}

impl<'a> Limits<'a> {
    pub(crate) fn of(snapshot: &'a Snapshot, scope: &Scope, class: &ProxyClass) -> Self {
        let root = snapshot.root_namespace();
        let found = snapshot.config.rate_limit_policies.for_workload(root, Target::from(class));
        let one = |policy: &'a std::sync::Arc<Resource<RateLimitPolicy>>| {
            let server = policy.spec.server.as_ref();
            let namespace = &policy.meta.namespace;
            Limit { policy, cluster: server.map(|s| cluster(snapshot, scope, s, namespace)) }
        };
        Self(found.into_iter().map(one).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn write(&self, key: Key) -> Key {
        key.each(&self.0, |key, limit| {
            let key = key.digest(limit.policy.digest);
            key.maybe(limit.cluster.as_ref(), |key, cluster| match cluster {
                Ok(name) => key.flag(true).text(name),
                Err(why) => key.flag(false).text(why),
            })
        })
    }

    /// Adds the filters of all rules that are for the port, behind authorization.
    pub(crate) fn http(
        &self,
        port: Option<u32>,
        filters: &mut Vec<HttpFilter>,
        found: &mut Vec<Diagnostic>,
    ) {
        let mut at = place::in_http(filters, Phase::Limits);
        for limit in &self.0 {
            for (index, rule) in limit.policy.spec.rules.iter().enumerate() {
                let ports = rule.r#match.as_ref().map_or(&[][..], |rule| &rule.ports);
                if !ports.is_empty() && port.is_none_or(|port| !ports.contains(&port)) {
                    continue;
                }
                let mut problems = Problems::new(Kind::RateLimitPolicy, &limit.policy.meta, found);
                match limit.filter(rule) {
                    Ok(filter) => {
                        filters.insert(at, filter);
                        at += 1;
                    }
                    Err(why) => {
                        let why =
                            format!("{why}; the rule is left out, so nothing is refused by it");
                        problems.invalid(&format!("spec.rules[{index}]"), why);
                    }
                }
            }
        }
    }
}

/// The cluster of the server, which must speak HTTP/2.
fn cluster(
    snapshot: &Snapshot,
    scope: &Scope,
    server: &RateLimitServer,
    namespace: &str,
) -> Result<String, String> {
    let address = &server.address;
    let (host, port) = address.rsplit_once(':').ok_or("the server's address is not HOST:PORT")?;
    let port: u16 = port.parse().map_err(|_| "the server's port is no number")?;
    let namespace = namespace.parse().map_err(|_| "its namespace has no proper name")?;
    let host = full_host(host, &namespace, &snapshot.settings.domain)
        .map_err(|error| format!("the server's host: {error}"))?;
    let service = scope
        .service(&host)
        .ok_or_else(|| format!("no service that these proxies see is called {host}"))?;
    let own = service.port(port).ok_or_else(|| format!("{host} has no port {port}"))?;
    if !own.protocol.is_http2() {
        return Err(format!(
            "port {port} of {host} is not known to speak HTTP/2: name it grpc, or set appProtocol"
        ));
    }
    Ok(ClusterName::outbound(port, "", host).to_string())
}

impl Limit<'_> {
    fn filter(&self, rule: &RateLimitRule) -> Result<HttpFilter, String> {
        let meta = &self.policy.meta;
        let name = format!("ratelimit.{}.{}.{}", meta.namespace, meta.name, rule.name);
        let mut config = match (&rule.local, &rule.global) {
            (Some(_), _) => self.local(rule)?,
            (None, Some(_)) => self.global(rule)?,
            (None, None) => return Err("it has neither local nor global".to_owned()),
        };
        let enforced = if rule.dry_run { 0 } else { 100 };
        config["stat_prefix"] = json!(name);
        config["filter_enabled"] = json!({"default_value": {"numerator": 100}});
        config["filter_enforced"] = json!({"default_value": {"numerator": enforced}});
        config["enable_x_ratelimit_headers"] = json!("DRAFT_VERSION_03");
        config["enable_retry_after_header"] = json!(true);
        let response = self.policy.spec.response.clone().unwrap_or_default();
        let add = |(key, value): (&String, &String)| {
            json!({"header": {"key": key, "value": value},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"})
        };
        let headers: Vec<Value> = response.headers.iter().map(add).collect();
        config["response_headers_to_add"] = json!(headers);
        if response.status != 0 {
            let field = if rule.local.is_some() { "status" } else { "rate_limited_status" };
            config[field] = json!({"code": response.status});
        }
        let filter = from_json(&json!({"name": name, "typed_config": config}));
        let filter = filter.map_err(|error| said(&error))?;
        crate::patch::check(&filter)?;
        Ok(filter)
    }

    fn local(&self, rule: &RateLimitRule) -> Result<Value, String> {
        let local = rule.local.as_ref().ok_or("local is missing")?;
        let interval = local.interval.unwrap_or_default();
        let most = if local.burst == 0 { local.requests } else { local.burst };
        let fixed = vec![("rule".to_owned(), rule.name.clone())];
        let mut entries = vec![json!({"key": "rule", "value": rule.name})];
        // Without a value: a bucket for every value there is.
        entries.extend(rule.by.iter().map(|by| json!({"key": key_name(by)})));
        Ok(json!({
            "@type": LOCAL,
            "rate_limits": [{"actions": actions(rule, &fixed)}],
            "descriptors": [{"entries": entries, "token_bucket": {
                "max_tokens": most, "tokens_per_fill": local.requests,
                "fill_interval": format!("{}.{:09}s", interval.as_secs(), interval.subsec_nanos()),
            }}],
            "always_consume_default_token_bucket": false,
            "max_dynamic_descriptors": MAX_COUNTS,
        }))
    }

    fn global(&self, rule: &RateLimitRule) -> Result<Value, String> {
        let server = self.policy.spec.server.as_ref().ok_or("the policy has no server")?;
        let cluster = match &self.cluster {
            Some(Ok(cluster)) => cluster,
            Some(Err(why)) => return Err(why.clone()),
            None => return Err("the policy has no server".to_owned()),
        };
        let said = rule.global.as_ref().map(|global| &global.entries);
        let mut fixed: Vec<(String, String)> =
            said.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
        if fixed.is_empty() {
            fixed.push(("rule".to_owned(), rule.name.clone()));
        }
        let timeout = server.timeout.unwrap_or(std::time::Duration::from_millis(100));
        Ok(json!({
            "@type": GLOBAL,
            "domain": server.domain,
            "timeout": format!("{}.{:09}s", timeout.as_secs(), timeout.subsec_nanos()),
            "failure_mode_deny": server.failure_mode == RateLimitFailureMode::Deny,
            "rate_limit_service": {
                "transport_api_version": "V3",
                "grpc_service": {"envoy_grpc": {"cluster_name": cluster, "authority":
                    server.address.rsplit_once(':').map_or("", |(host, _)| host)}},
            },
            "rate_limits": [{"actions": actions(rule, &fixed)}],
        }))
    }
}

fn said(error: &ironsail_proto::JsonError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        let _ = write!(text, ": {inner}");
        source = inner.source();
    }
    text
}

/// What makes the descriptor: the fixed entries, the first of which is there only if the rule matches,
/// and what requests are told apart by.
fn actions(rule: &RateLimitRule, fixed: &[(String, String)]) -> Vec<Value> {
    let mut out = Vec::new();
    let condition = rule.r#match.as_ref().and_then(condition);
    for (index, (key, value)) in fixed.iter().enumerate() {
        out.push(match &condition {
            // A map without the key is an error, and then there is no descriptor.
            Some(condition) if index == 0 => {
                expression(key, &format!("{{true: {}}}[{condition}]", quoted(value)))
            }
            _ => json!({"generic_key": {"descriptor_key": key, "descriptor_value": value}}),
        });
    }
    out.extend(rule.by.iter().map(told_apart));
    out
}

fn expression(key: &str, text: &str) -> Value {
    json!({"extension": {"name": "envoy.rate_limit_descriptors.expr", "typed_config":
        {"@type": EXPRESSION, "descriptor_key": key, "text": text}}})
}

fn key_name(by: &RateLimitKey) -> String {
    match (by.name.as_str(), by.attribute) {
        // Envoy names this one itself.
        (_, RateLimitAttribute::RemoteAddress) => "remote_address".to_owned(),
        ("", RateLimitAttribute::Unspecified) => by.header.to_ascii_lowercase(),
        ("", attribute) => attribute.to_string().to_ascii_lowercase(),
        (own, _) => own.to_owned(),
    }
}

const IDENTITY: &str = "connection.uri_san_peer_certificate";

fn told_apart(by: &RateLimitKey) -> Value {
    let key = key_name(by);
    match by.attribute {
        RateLimitAttribute::Unspecified => {
            let name = quoted(&by.header.to_ascii_lowercase());
            let text = format!("{name} in request.headers ? request.headers[{name}] : '-'");
            expression(&key, &text)
        }
        RateLimitAttribute::Identity => {
            let some = format!("has({IDENTITY}) && {IDENTITY} != ''");
            expression(&key, &format!("{some} ? {IDENTITY} : '-'"))
        }
        RateLimitAttribute::RemoteAddress => json!({"remote_address": {}}),
        RateLimitAttribute::Path => expression(&key, "request.url_path"),
        RateLimitAttribute::Method => expression(&key, "request.method"),
        RateLimitAttribute::Host => expression(&key, "request.host"),
    }
}

/// Whether a request counts, as an expression; None if all do.
fn condition(rule: &RateLimitMatch) -> Option<String> {
    let mut all = Vec::new();
    let any = |parts: Vec<String>| format!("({})", parts.join(" || "));
    if !rule.hosts.is_empty() {
        let hosts: Vec<String> = rule.hosts.iter().map(|host| regex::escape(host)).collect();
        let pattern = quoted(&format!("^(?i:{})(:[0-9]+)?$", hosts.join("|")));
        all.push(format!("request.host.matches({pattern})"));
    }
    if !rule.methods.is_empty() {
        let methods: Vec<String> = rule.methods.iter().map(|method| quoted(method)).collect();
        all.push(format!("request.method in [{}]", methods.join(", ")));
    }
    if !rule.paths.is_empty() {
        let paths = rule.paths.iter();
        all.push(any(paths.map(|path| text_matches("request.url_path", path)).collect()));
    }
    for (name, value) in &rule.headers {
        let name = quoted(&name.to_ascii_lowercase());
        let value = text_matches(&format!("request.headers[{name}]"), value);
        all.push(format!("({name} in request.headers && {value})"));
    }
    if !rule.principals.is_empty() {
        let names: Vec<String> =
            rule.principals.iter().map(|name| quoted(&format!("spiffe://{name}"))).collect();
        all.push(format!("(has({IDENTITY}) && {IDENTITY} in [{}])", names.join(", ")));
    }
    (!all.is_empty()).then(|| all.join(" && "))
}

fn text_matches(what: &str, rule: &StringMatch) -> String {
    match rule {
        // Of a header: that it is there.
        StringMatch::Unset => "true".to_owned(),
        StringMatch::Exact(text) => format!("{what} == {}", quoted(text)),
        StringMatch::Prefix(text) => format!("{what}.startsWith({})", quoted(text)),
        StringMatch::Regex(text) => format!("{what}.matches({})", quoted(&format!("^(?:{text})$"))),
    }
}

/// A text as the expression language writes it.
fn quoted(text: &str) -> String {
    let mut out = String::from("'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_texts_stay_texts() {
        assert_eq!(quoted(r"a'b\c"), r"'a\'b\\c'");
        assert_eq!(quoted("a\nb"), r"'a\u000ab'");
    }

    #[test]
    fn every_part_of_a_match_must_hold() {
        let rule = RateLimitMatch {
            methods: vec!["GET".into(), "PUT".into()],
            paths: vec![StringMatch::Exact("/a".into()), StringMatch::Prefix("/b".into())],
            headers: [("X-User".to_owned(), StringMatch::Unset)].into(),
            principals: vec!["cluster.local/ns/a/sa/b".into()],
            ..Default::default()
        };
        assert_eq!(
            condition(&rule).unwrap(),
            "request.method in ['GET', 'PUT'] \
             && (request.url_path == '/a' || request.url_path.startsWith('/b')) \
             && ('x-user' in request.headers && true) \
             && (has(connection.uri_san_peer_certificate) \
             && connection.uri_san_peer_certificate in ['spiffe://cluster.local/ns/a/sa/b'])"
        );
        assert_eq!(condition(&RateLimitMatch::default()), None);
    }
}
