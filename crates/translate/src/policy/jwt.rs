//! RequestAuthentications as Envoy's filter for tokens.
//!
//! A request may come without a token (unless a rule requires one), but not with a bad one. An issuer
//! whose keys are not known refuses every token: its keys are replaced by one that nobody has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ironsail_api::istio::security::{JwtPresence, JwtRule};
use ironsail_proto::envoy::config::core::v3::{
    DataSource, HttpUri, data_source::Specifier, http_uri::HttpUpstreamType,
};
use ironsail_proto::envoy::config::route::v3::{RouteMatch, route_match::PathSpecifier};
use ironsail_proto::envoy::extensions::filters::http::jwt_authn::v3::{
    JwtAuthentication, JwtClaimToHeader, JwtHeader, JwtProvider, JwtRequirement,
    JwtRequirementAndList, JwtRequirementOrList, RemoteJwks, RequirementRule,
    jwt_provider::{JwksSourceSpecifier, NormalizePayload},
    jwt_requirement::RequiresType,
    requirement_rule::RequirementType,
};
use ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use ironsail_proto::google::protobuf::Empty;
use serde_json::json;

use super::matching::{JWT, PAYLOAD};
use crate::filter::{http, wire};

/// How long a fetch of keys may take, if nobody says.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long Envoy keeps keys that it fetched itself.
const KEPT: Duration = Duration::from_secs(300);
/// Claims that are lists written with spaces.
const LISTS: [&str; 2] = ["permission", "scope"];

/// A key whose other half was thrown away when it was made.
const NOBODY: &str = "zqrHifZl9J1PU0yraqnN_RYTzoE4LNAPCOeE9ZiMpn_HmWU5AXczok7b2-CqCQgor1tNtan5o2fA6nPFpsepCFMS1S7AA15kSnPzBlhzOeVM1lWuXkQFP6k5lle2Lt-FK07kV1c-eDPc02DJObyqHsHgc5uN_hK2dgSWJbfjGHLIvvGX1bmEXmVBTDtqJAFFQacp0-dFW1YM7fWAMuRTUZ9jq5B2DMtzlLbv-GNvghLDhpOw55qdK-4RpC65Fn_TVzKdba5uMXWUlHVJO5rifTyi772V0eF3zm829FzxXhgDYhGUSKqyMb8NPZHklxvTv8A7YFpC7EY7LtRgOv2_IQ";

/// One rule and the keys for it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Token {
    pub(super) rule: JwtRule,
    pub(super) keys: Keys,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Keys {
    Known(Arc<str>),
    /// Envoy fetches them from this cluster.
    Remote(String),
    /// And why.
    Unknown(String),
}

/// The filter for all rules; none without rules.
pub(super) fn filter(tokens: &[Token], clear_route_cache: bool) -> Option<HttpFilter> {
    let mut tokens: Vec<&Token> = tokens.iter().collect();
    tokens.sort_by(|a, b| a.rule.issuer.cmp(&b.rule.issuer));
    let named: Vec<(String, &Token)> =
        tokens.into_iter().enumerate().map(|(i, token)| (format!("origins-{i}"), token)).collect();
    let requires = requirement(&named)?;
    let providers: BTreeMap<String, JwtProvider> = named
        .iter()
        .map(|(name, token)| (name.clone(), token.provider(clear_route_cache)))
        .collect();
    let everything = RouteMatch {
        path_specifier: Some(PathSpecifier::Prefix("/".into())),
        ..Default::default()
    };
    let config = JwtAuthentication {
        providers,
        rules: vec![RequirementRule {
            r#match: Some(everything),
            requirement_type: Some(RequirementType::Requires(requires)),
        }],
        // Browsers send no token with the question whether they may.
        bypass_cors_preflight: true,
        ..Default::default()
    };
    Some(http::filter(JWT, &config))
}

/// A token that is there must be good for its provider; one good token is enough where several
/// providers look at the same place.
fn requirement(named: &[(String, &Token)]) -> Option<JwtRequirement> {
    let (required, optional): (Vec<_>, Vec<_>) =
        named.iter().partition(|(_, token)| token.rule.presence == JwtPresence::Required);
    let by_name = |(name, _): &&(String, &Token)| is(RequiresType::ProviderName(name.clone()));
    let if_there = |one: &&(String, &Token)| {
        any(vec![by_name(one), is(RequiresType::AllowMissing(Empty::default()))])
    };
    if required.is_empty() {
        return match &optional[..] {
            [] => None,
            [one] => Some(if_there(one)),
            all => {
                let mut either: Vec<_> = all.iter().map(by_name).collect();
                either.push(each(all.iter().map(if_there).collect()));
                Some(any(either))
            }
        };
    }
    let mut all: Vec<_> = required.iter().map(by_name).collect();
    if !optional.is_empty() {
        // What is good of the others counts; what is not, says nothing.
        let mut either: Vec<_> = optional.iter().map(by_name).collect();
        either.push(is(RequiresType::AllowMissingOrFailed(Empty::default())));
        all.push(any(either));
    }
    match all.len() {
        1 => all.pop(),
        _ => Some(each(all)),
    }
}

fn is(requires: RequiresType) -> JwtRequirement {
    JwtRequirement { requires_type: Some(requires) }
}

fn any(requirements: Vec<JwtRequirement>) -> JwtRequirement {
    is(RequiresType::RequiresAny(JwtRequirementOrList { requirements }))
}

fn each(requirements: Vec<JwtRequirement>) -> JwtRequirement {
    is(RequiresType::RequiresAll(JwtRequirementAndList { requirements }))
}

impl Token {
    fn provider(&self, clear_route_cache: bool) -> JwtProvider {
        let rule = &self.rule;
        JwtProvider {
            issuer: rule.issuer.clone(),
            audiences: rule.audiences.clone(),
            forward: rule.forward_original_token,
            forward_payload_header: rule.output_payload_to_header.clone(),
            payload_in_metadata: PAYLOAD.into(),
            normalize_payload_in_metadata: Some(NormalizePayload {
                space_delimited_claims: lists(&rule.space_delimited_claims),
            }),
            from_headers: rule
                .from_headers
                .iter()
                .filter(|header| is_header(&header.name))
                .map(|h| JwtHeader { name: h.name.clone(), value_prefix: h.prefix.clone() })
                .collect(),
            from_params: rule.from_params.clone(),
            from_cookies: rule.from_cookies.clone(),
            claim_to_headers: rule
                .output_claim_to_headers
                .iter()
                .filter(|one| is_header(&one.header) && !one.claim.is_empty())
                .map(|one| JwtClaimToHeader {
                    header_name: one.header.clone(),
                    claim_name: one.claim.clone(),
                    ..Default::default()
                })
                .collect(),
            clear_route_cache,
            jwks_source_specifier: Some(self.keys()),
            ..Default::default()
        }
    }

    fn keys(&self) -> JwksSourceSpecifier {
        let cluster = match &self.keys {
            Keys::Known(keys) => return local(keys),
            Keys::Unknown(why) => return local(&nobody(why)),
            Keys::Remote(cluster) => cluster,
        };
        JwksSourceSpecifier::RemoteJwks(RemoteJwks {
            http_uri: Some(HttpUri {
                uri: self.rule.jwks_uri.clone(),
                timeout: wire::span(self.rule.timeout.unwrap_or(TIMEOUT)),
                http_upstream_type: Some(HttpUpstreamType::Cluster(cluster.clone())),
            }),
            cache_duration: wire::span(KEPT),
            ..Default::default()
        })
    }
}

/// A key set that fits no token. Its name says why to whoever looks at the proxy's configuration.
fn nobody(why: &str) -> String {
    json!({"keys": [{"kty": "RSA", "e": "AQAB", "n": NOBODY, "kid": why}]}).to_string()
}

fn local(keys: &str) -> JwksSourceSpecifier {
    JwksSourceSpecifier::LocalJwks(DataSource {
        specifier: Some(Specifier::InlineString(keys.to_owned())),
        ..Default::default()
    })
}

fn lists(own: &[String]) -> Vec<String> {
    let mut all: Vec<String> = LISTS.iter().map(|&name| name.to_owned()).collect();
    all.extend(own.iter().filter(|claim| !claim.is_empty()).cloned());
    all.sort();
    all.dedup();
    all
}

/// What Envoy takes for a name.
pub(super) fn is_header(name: &str) -> bool {
    let good = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
    !name.is_empty() && name.bytes().all(good)
}
