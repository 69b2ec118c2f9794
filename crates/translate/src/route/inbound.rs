//! Routes to the pod itself: one route for everything, inside of the listener.

use ironsail_proto::envoy::config::route::v3::{
    RetryPolicy, Route, RouteAction, RouteConfiguration, VirtualHost, route, route_action,
};

use super::part;
use crate::filter::wire;

/// All requests go to `cluster`. `host` and `port` are for traces.
pub(crate) fn configuration(cluster: &str, host: &str, port: u16) -> RouteConfiguration {
    let limit = route_action::MaxStreamDuration {
        max_stream_duration: wire::never(),
        // Without it the client's grpc-timeout would not count at all.
        grpc_timeout_header_max: wire::never(),
        ..Default::default()
    };
    let action = RouteAction {
        cluster_specifier: Some(route_action::ClusterSpecifier::Cluster(cluster.to_owned())),
        timeout: wire::never(),
        max_stream_duration: Some(limit),
        // The application may close a kept connection while a request is on its way to it.
        retry_policy: Some(RetryPolicy {
            retry_on: "reset-before-request".into(),
            num_retries: wire::number(2),
            ..Default::default()
        }),
        ..Default::default()
    };
    let route = Route {
        name: part::DEFAULT.into(),
        r#match: Some(part::everything()),
        decorator: Some(part::decorator(format!("{host}:{port}/*"))),
        action: Some(route::Action::Route(action)),
        ..Default::default()
    };
    RouteConfiguration {
        name: cluster.to_owned(),
        virtual_hosts: vec![VirtualHost {
            name: format!("inbound|http|{port}"),
            domains: vec!["*".into()],
            routes: vec![route],
            ..Default::default()
        }],
        validate_clusters: wire::flag(false),
        ..Default::default()
    }
}
