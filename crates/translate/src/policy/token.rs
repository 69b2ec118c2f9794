//! The rules of a RequestAuthentication with the keys they are checked with.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use ironsail_api::istio::security::{JwtRule, RequestAuthentication};
use ironsail_api::wire::Wire;
use ironsail_api::{Code, Diagnostic, Kind, Meta, Resource, Severity};
use ironsail_model::{Fetched, KeyFetch, KeySource, Scope, Snapshot};
use ironsail_names::{ClusterName, Hostname};

use super::jwt::{Keys, Token, is_header};
use super::provider::cluster_of;

/// No key set of a real issuer comes near it; larger ones would go to every proxy.
const LONGEST: usize = 1 << 20;

pub(super) fn of(
    snapshot: &Snapshot,
    scope: &Scope,
    policy: &Arc<Resource<RequestAuthentication>>,
    told: &mut Vec<Diagnostic>,
) -> Vec<Token> {
    let rules = policy.spec.jwt_rules.iter().enumerate();
    rules
        .map(|(i, rule)| {
            let mut tell = |field: &str, message: String| {
                let kind = Kind::RequestAuthentication;
                let code = Code::SCHEMA;
                let found = Diagnostic::new(code, Severity::Error, kind, &policy.meta, message);
                told.push(found.at(format!("spec.jwtRules[{i}].{field}")));
            };
            check_headers(rule, &mut tell);
            let keys = keys(snapshot, scope, rule, &mut tell).unwrap_or_else(|why| {
                let Meta { namespace, name, .. } = &policy.meta;
                Keys::Unknown(format!("RequestAuthentication {namespace}/{name}: {why}"))
            });
            Token { rule: rule.clone(), keys }
        })
        .collect()
}

fn check_headers(rule: &JwtRule, tell: &mut impl FnMut(&str, String)) {
    for header in rule.from_headers.iter().filter(|header| !is_header(&header.name)) {
        let name = &header.name;
        tell(
            "fromHeaders",
            format!("{name:?} is no name of a header; no token is looked for there"),
        );
    }
    for one in rule.output_claim_to_headers.iter().filter(|one| !is_header(&one.header)) {
        let name = &one.header;
        tell("outputClaimToHeaders", format!("{name:?} is no name of a header; it is left out"));
    }
}

/// The keys, or why nobody's token can be checked.
fn keys(
    snapshot: &Snapshot,
    scope: &Scope,
    rule: &JwtRule,
    tell: &mut impl FnMut(&str, String),
) -> Result<Keys, String> {
    let Some(source) = KeySource::of(rule) else { return inline(rule, tell) };
    let fetch = snapshot.settings.key_fetch;
    if fetch != KeyFetch::ControlPlane && !rule.jwks_uri.is_empty() {
        match remote(scope, &rule.jwks_uri) {
            Ok(cluster) => return Ok(Keys::Remote(cluster)),
            Err((cluster, why)) if fetch == KeyFetch::Proxy => {
                tell("jwksUri", format!("{why}; its tokens are refused"));
                return cluster.map(Keys::Remote).ok_or(why);
            }
            Err(_) => {}
        }
    }
    let field = if rule.jwks_uri.is_empty() { "issuer" } else { "jwksUri" };
    match snapshot.keys_of(&source) {
        Some(Fetched::Keys(keys)) => Ok(Keys::Known(keys.clone())),
        Some(Fetched::Failed(why)) => {
            tell(field, format!("its keys could not be fetched: {why}; its tokens are refused"));
            Err(format!("its keys could not be fetched: {why}"))
        }
        None => Err("its keys are being fetched".to_owned()),
    }
}

fn inline(rule: &JwtRule, tell: &mut impl FnMut(&str, String)) -> Result<Keys, String> {
    let read = serde_json::from_str::<serde_json::Value>(&rule.jwks).ok();
    let good = rule.jwks.len() <= LONGEST
        && read.is_some_and(|keys| keys["keys"].as_array().is_some_and(|keys| !keys.is_empty()));
    if good {
        return Ok(Keys::Known(rule.jwks.as_str().into()));
    }
    tell("jwks", "it is no key set, or has no keys; its tokens are refused".into());
    Err("its jwks is no key set".to_owned())
}

/// The cluster for an address, or the one that it would have.
fn remote(scope: &Scope, uri: &str) -> Result<String, (Option<String>, String)> {
    let bad = || (None, format!("{uri:?} is no address of keys"));
    let (port, rest) = match (uri.strip_prefix("https://"), uri.strip_prefix("http://")) {
        (Some(rest), _) => (443, rest),
        (_, Some(rest)) => (80, rest),
        _ => return Err(bad()),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().map_err(|_| bad())?),
        None => (authority, port),
    };
    let parsed: Hostname = host.parse().map_err(|_| bad())?;
    cluster_of(scope, host, port.into())
        .map(|(_, cluster)| cluster)
        .map_err(|why| (Some(ClusterName::outbound(port, "", parsed).to_string()), why))
}

impl Hash for Token {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rule.write().to_string().hash(state);
        self.keys.hash(state);
    }
}
