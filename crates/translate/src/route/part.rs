//! The parts that all routes are made of.

use ironsail_proto::envoy::config::route::v3::{
    Decorator, DirectResponseAction, RetryPolicy, Route, RouteAction, RouteMatch, VirtualHost,
    retry_policy::{RetryHostPredicate, retry_host_predicate},
    route, route_action,
    route_match::PathSpecifier,
};
use ironsail_proto::envoy::extensions::retry::host::previous_hosts::v3::PreviousHostsPredicate;
use ironsail_proto::google::protobuf::UInt32Value;
use ironsail_proto::pack;

use crate::filter::settings::Egress;
use crate::filter::wire;

/// The name of routes that no VirtualService made.
pub(crate) const DEFAULT: &str = "default";
/// What Envoy may answer by itself; its own limit of 4 kB is less than a VirtualService may ask for.
pub(crate) const MAX_DIRECT_BODY: Option<UInt32Value> = Some(UInt32Value { value: 1024 * 1024 });

pub(crate) fn everything() -> RouteMatch {
    RouteMatch { path_specifier: Some(PathSpecifier::Prefix("/".into())), ..Default::default() }
}

pub(crate) fn decorator(operation: String) -> Decorator {
    Decorator { operation, ..Default::default() }
}

/// A route to a cluster without limits; `grpc-timeout` of clients counts.
#[expect(
    deprecated,
    reason = "the replacement does not honour grpc-timeout the same way; Istio keeps it too"
)]
pub(crate) fn action(cluster: &str) -> RouteAction {
    RouteAction {
        cluster_specifier: Some(route_action::ClusterSpecifier::Cluster(cluster.to_owned())),
        timeout: wire::never(),
        max_grpc_timeout: wire::never(),
        ..Default::default()
    }
}

/// What is tried again without being asked, as Istio has it.
pub(crate) fn retry() -> RetryPolicy {
    RetryPolicy {
        retry_on: "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes"
            .into(),
        num_retries: wire::number(2),
        retriable_status_codes: vec![503],
        host_selection_retry_max_attempts: 5,
        retry_host_predicate: vec![previous_hosts()],
        ..Default::default()
    }
}

/// Another host than the one that failed.
pub(crate) fn previous_hosts() -> RetryHostPredicate {
    RetryHostPredicate {
        name: "envoy.retry_host_predicates.previous_hosts".into(),
        config_type: Some(retry_host_predicate::ConfigType::TypedConfig(pack(
            &PreviousHostsPredicate {},
        ))),
    }
}

/// For hosts that no service and no VirtualService has.
pub(crate) fn catch_all(egress: &Egress, attempt_count: bool) -> VirtualHost {
    let (name, action) = match egress {
        Egress::RegistryOnly => {
            let refuse = DirectResponseAction { status: 502, ..Default::default() };
            ("block_all", route::Action::DirectResponse(refuse))
        }
        open => ("allow_any", route::Action::Route(action(open.cluster()))),
    };
    VirtualHost {
        name: name.into(),
        domains: vec!["*".into()],
        routes: vec![Route {
            name: name.into(),
            r#match: Some(everything()),
            action: Some(action),
            ..Default::default()
        }],
        include_request_attempt_count: attempt_count,
        ..Default::default()
    }
}
