//! CUSTOM policies: an external authorizer is asked about what fits their rules.
//!
//! A shadow RBAC marks what fits, and the external authorization filter asks about what is marked.
//! Where the authorizer cannot be asked at all, what fits is denied.

use std::collections::BTreeMap;

use ironsail_api::istio::security::{Action, AuthorizationPolicy};
use ironsail_api::mesh::{ExtAuthzGrpc, ExtAuthzHttp, ExtAuthzRequestBody};
use ironsail_api::{Kind, Resource};
use ironsail_proto::envoy::config::core::v3::{
    ApiVersion, GrpcService, HeaderValue, HttpUri,
    grpc_service::{EnvoyGrpc, TargetSpecifier},
    http_uri::HttpUpstreamType,
};
use ironsail_proto::envoy::config::listener::v3::Filter;
use ironsail_proto::envoy::config::rbac::v3::{Rbac as Rules, rbac};
use ironsail_proto::envoy::extensions::filters::http::ext_authz::v3::{
    AuthorizationRequest, AuthorizationResponse, BufferSettings, ExtAuthz, HttpService,
    ext_authz::Services,
};
use ironsail_proto::envoy::extensions::filters::http::rbac::v3::Rbac as HttpRbac;
use ironsail_proto::envoy::extensions::filters::network::ext_authz::v3::ExtAuthz as NetworkExtAuthz;
use ironsail_proto::envoy::extensions::filters::network::http_connection_manager::v3::HttpFilter;
use ironsail_proto::envoy::extensions::filters::network::rbac::v3::Rbac as NetworkRbac;
use ironsail_proto::envoy::r#type::matcher::v3::{
    ListStringMatcher, MetadataMatcher, StringMatcher,
};

use super::matching;
use super::provider::{Authorizer, How};
use super::rbac::{self as access, Builder, is_dry_run};
use crate::filter::{http, network, wire};
use crate::problem::Problems;

const HTTP: &str = "envoy.filters.http.ext_authz";
const NETWORK: &str = "envoy.filters.network.ext_authz";
/// Rules of CUSTOM policies begin with it.
const PREFIX: &str = "istio-ext-authz-";
const SHADOW: &str = "istio_ext_authz_";
const BAD: &str = "-deny-due-to-bad-CUSTOM-action";
/// DestinationRules are there to say less.
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(600);

type Policy = Resource<AuthorizationPolicy>;
pub(super) type Authorizers = BTreeMap<String, Result<Authorizer, String>>;

/// What is done about the policies of one authorizer.
enum Step<'a> {
    Ask(Rules, &'a Authorizer, String),
    Deny(Rules),
}

pub(super) fn http(
    builder: &mut Builder<'_>,
    policies: &[&Policy],
    authorizers: &Authorizers,
    several: bool,
) -> Vec<HttpFilter> {
    let steps = steps(builder, policies, authorizers, several);
    steps.into_iter().flat_map(Step::http).collect()
}

pub(super) fn network(
    builder: &mut Builder<'_>,
    policies: &[&Policy],
    authorizers: &Authorizers,
    several: bool,
) -> Vec<Filter> {
    let steps = steps(builder, policies, authorizers, several);
    steps.into_iter().flat_map(Step::network).collect()
}

fn steps<'a>(
    builder: &mut Builder<'_>,
    policies: &[&Policy],
    authorizers: &'a Authorizers,
    several: bool,
) -> Vec<Step<'a>> {
    let mut groups: BTreeMap<&str, Vec<&Policy>> = BTreeMap::new();
    for policy in policies.iter().filter(|policy| policy.spec.action == Action::Custom) {
        if is_dry_run(policy) {
            Problems::new(Kind::AuthorizationPolicy, &policy.meta, &mut builder.found)
                .unsupported("metadata.annotations[istio.io/dry-run] of action CUSTOM");
            continue;
        }
        groups.entry(provider_of(policy)).or_default().push(policy);
    }
    let too_many = groups.len() > 1 && !several;
    let alone = groups.len() == 1;
    let mut steps = Vec::new();
    for (name, policies) in groups {
        let prefix = match name {
            "" => PREFIX.to_owned(),
            name => format!("{PREFIX}{name}-"),
        };
        let rules = builder.rules(&policies, Action::Custom, &prefix);
        let usable = match authorizers.get(name) {
            _ if too_many => Err("a workload may have one authorizer only".to_owned()),
            Some(Ok(found)) if builder.tcp && matches!(found.how, How::Http(_)) => {
                Err(format!("extension provider {name:?} decides on HTTP only"))
            }
            Some(Ok(found)) => Ok(found),
            Some(Err(why)) => Err(why.clone()),
            None => Err("it names no extension provider".to_owned()),
        };
        // Names of others must not begin with this one, unless there are none.
        let marked = if alone { format!("{PREFIX}{name}") } else { format!("{prefix}ns[") };
        match usable {
            Ok(found) => steps.push(Step::Ask(rules, found, marked)),
            Err(why) => {
                for policy in policies.iter().filter(|_| !builder.tcp) {
                    Problems::new(Kind::AuthorizationPolicy, &policy.meta, &mut builder.found)
                        .missing("spec.provider.name", format!("{why}; what fits is denied"));
                }
                steps.push(Step::Deny(rules));
            }
        }
    }
    steps
}

pub(super) fn provider_of(policy: &Policy) -> &str {
    policy.spec.provider.as_ref().map_or("", |provider| &provider.name)
}

/// The same rules, as a denial that says why.
fn denial(rules: Rules) -> Rules {
    let policies = rules.policies.into_iter().map(|(name, rule)| (format!("{name}{BAD}"), rule));
    Rules { action: rbac::Action::Deny.into(), policies: policies.collect(), ..Default::default() }
}

impl Step<'_> {
    fn http(self) -> Vec<HttpFilter> {
        match self {
            Self::Deny(rules) => {
                let config = HttpRbac { rules: Some(denial(rules)), ..Default::default() };
                vec![http::filter(access::HTTP, &config)]
            }
            Self::Ask(rules, authorizer, marked) => {
                let mark = HttpRbac {
                    shadow_rules: Some(rules),
                    shadow_rules_stat_prefix: SHADOW.into(),
                    ..Default::default()
                };
                let ask = authorizer.http(is_marked(access::HTTP, &marked));
                vec![http::filter(access::HTTP, &mark), http::filter(HTTP, &ask)]
            }
        }
    }

    fn network(self) -> Vec<Filter> {
        let stat_prefix = access::STAT_PREFIX.to_owned();
        match self {
            Self::Deny(rules) => {
                let rules = Some(denial(rules));
                let config = NetworkRbac { rules, stat_prefix, ..Default::default() };
                vec![network::filter(access::NETWORK, &config)]
            }
            Self::Ask(rules, authorizer, marked) => {
                let How::Grpc(grpc) = &authorizer.how else { return Vec::new() };
                let mark = NetworkRbac {
                    shadow_rules: Some(rules),
                    shadow_rules_stat_prefix: SHADOW.into(),
                    stat_prefix: stat_prefix.clone(),
                    ..Default::default()
                };
                let ask = NetworkExtAuthz {
                    stat_prefix,
                    failure_mode_allow: grpc.fail_open,
                    transport_api_version: ApiVersion::V3.into(),
                    grpc_service: Some(authorizer.grpc_service(grpc)),
                    filter_enabled_metadata: Some(is_marked(access::NETWORK, &marked)),
                    ..Default::default()
                };
                vec![network::filter(access::NETWORK, &mark), network::filter(NETWORK, &ask)]
            }
        }
    }
}

fn is_marked(filter: &str, prefix: &str) -> MetadataMatcher {
    let key = format!("{SHADOW}shadow_effective_policy_id");
    matching::metadata(filter, &[&key], matching::value(matching::prefix(prefix)))
}

impl Authorizer {
    fn http(&self, enabled: MetadataMatcher) -> ExtAuthz {
        let common = ExtAuthz {
            transport_api_version: ApiVersion::V3.into(),
            status_on_error: self.status,
            filter_enabled_metadata: Some(enabled),
            ..Default::default()
        };
        match &self.how {
            How::Grpc(grpc) => ExtAuthz {
                failure_mode_allow: grpc.fail_open,
                clear_route_cache: grpc.clear_route_cache.unwrap_or_default(),
                with_request_body: body(grpc.include_request_body_in_check.as_ref()),
                services: Some(Services::GrpcService(self.grpc_service(grpc))),
                ..common
            },
            How::Http(http) => ExtAuthz {
                failure_mode_allow: http.fail_open,
                clear_route_cache: http.clear_route_cache.unwrap_or_default(),
                with_request_body: body(http.include_request_body_in_check.as_ref()),
                allowed_headers: headers(
                    http.include_headers_in_check
                        .iter()
                        .chain(&http.include_request_headers_in_check),
                ),
                services: Some(Services::HttpService(self.http_service(http))),
                ..common
            },
        }
    }

    fn grpc_service(&self, grpc: &ExtAuthzGrpc) -> GrpcService {
        GrpcService {
            timeout: wire::span(grpc.timeout.unwrap_or(TIMEOUT)),
            target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
                cluster_name: self.cluster.clone(),
                authority: self.host.clone(),
                ..Default::default()
            })),
            ..Default::default()
        }
    }

    fn http_service(&self, http: &ExtAuthzHttp) -> HttpService {
        let fixed: Vec<HeaderValue> = http
            .include_additional_headers_in_check
            .iter()
            .map(|(key, value)| HeaderValue {
                key: key.clone(),
                value: value.clone(),
                ..Default::default()
            })
            .collect();
        let response = AuthorizationResponse {
            allowed_upstream_headers: headers(&http.headers_to_upstream_on_allow),
            allowed_client_headers: headers(&http.headers_to_downstream_on_deny),
            allowed_client_headers_on_success: headers(&http.headers_to_downstream_on_allow),
            ..Default::default()
        };
        HttpService {
            server_uri: Some(HttpUri {
                // Needed, but only the cluster counts.
                uri: format!("http://{}", self.host),
                timeout: wire::span(http.timeout.unwrap_or(TIMEOUT)),
                http_upstream_type: Some(HttpUpstreamType::Cluster(self.cluster.clone())),
            }),
            path_prefix: http.path_prefix.clone(),
            authorization_request: (!fixed.is_empty())
                .then(|| AuthorizationRequest { headers_to_add: fixed, ..Default::default() }),
            authorization_response: (response != AuthorizationResponse::default())
                .then_some(response),
            ..Default::default()
        }
    }
}

fn body(body: Option<&ExtAuthzRequestBody>) -> Option<BufferSettings> {
    body.map(|body| BufferSettings {
        max_request_bytes: body.max_request_bytes,
        allow_partial_message: body.allow_partial_message,
        pack_as_bytes: body.pack_as_bytes,
    })
}

/// Names of headers, with wildcards; upper and lower case are the same.
fn headers<'a>(names: impl IntoIterator<Item = &'a String>) -> Option<ListStringMatcher> {
    let patterns: Vec<StringMatcher> = names
        .into_iter()
        .map(|name| {
            let matcher = matching::text(name);
            // Regular expressions know no such flag.
            StringMatcher { ignore_case: name != "*", ..matcher }
        })
        .collect();
    (!patterns.is_empty()).then_some(ListStringMatcher { patterns })
}
