//! Routes of clients: one configuration for each service and port, named as its cluster.
//!
//! In: a service and its VirtualServices, translated as for a sidecar. Out: the same without what gRPC
//! would refuse.

use ironsail_model::{ProxyClass, Scope, Snapshot};
use ironsail_names::ClusterName;
use ironsail_proto::envoy::config::route::v3::{
    Route, RouteConfiguration, VirtualHost,
    route::Action,
    route_action::{ClusterSpecifier, MaxStreamDuration},
};
use ironsail_proto::google::protobuf::Any;

use super::message::{self, FAULT};
use crate::{Key, Translated, route};

/// What one route configuration is made of.
#[derive(Clone, Debug)]
pub struct RouteView<'a> {
    pub name: ClusterName,
    routes: route::RouteView<'a>,
}

/// The view of the routes that are called `name` (`outbound|8000||HOST`).
pub fn view<'a>(
    snapshot: &'a Snapshot,
    scope: &'a Scope,
    class: &'a ProxyClass,
    name: &str,
) -> Option<RouteView<'a>> {
    let name: ClusterName = name.parse().ok()?;
    let host = name.host.as_ref()?;
    scope.service(host)?.port(name.port)?;
    let routes = route::of_service(snapshot, scope, class, host, name.port)?;
    Some(RouteView { name, routes })
}

impl RouteView<'_> {
    pub fn key(&self) -> u64 {
        Key::new("grpc-route").display(&self.name).digest(self.routes.key()).finish()
    }
}

pub fn translate(view: &RouteView<'_>) -> Translated<RouteConfiguration> {
    let name = view.name.to_string();
    let made = route::translate(&view.routes);
    let mut hosts = made.value.virtual_hosts;
    hosts.iter_mut().for_each(trim);
    let value = match hosts.is_empty() {
        // A port that is not HTTP by its name: who dials it with gRPC means it anyway.
        true => message::plain_routes(name.clone(), vec!["*".into()], name),
        false => RouteConfiguration { name, virtual_hosts: hosts, ..Default::default() },
    };
    Translated { value, diagnostics: made.diagnostics }
}

/// Settings of filters that gRPC does not have would make it refuse everything.
fn trim(host: &mut VirtualHost) {
    let known = |name: &String, _: &mut Any| name == FAULT;
    host.typed_per_filter_config.retain(known);
    host.include_request_attempt_count = false;
    for route in &mut host.routes {
        route.typed_per_filter_config.retain(known);
        trim_action(route, known);
        route.decorator = None;
    }
}

#[expect(deprecated, reason = "cleared, not set")]
fn trim_action(route: &mut Route, known: impl Fn(&String, &mut Any) -> bool) {
    let Some(Action::Route(action)) = &mut route.action else { return };
    // gRPC reads the time limit from here only.
    let limit = action.timeout.take().filter(|limit| limit.seconds > 0 || limit.nanos > 0);
    action.max_stream_duration = limit.map(|limit| MaxStreamDuration {
        max_stream_duration: Some(limit),
        grpc_timeout_header_max: Some(limit),
        ..Default::default()
    });
    action.max_grpc_timeout = None;
    if let Some(retry) = &mut action.retry_policy {
        retry.retry_host_predicate.clear();
        retry.host_selection_retry_max_attempts = 0;
    }
    let Some(ClusterSpecifier::WeightedClusters(weighted)) = &mut action.cluster_specifier else {
        return;
    };
    for cluster in &mut weighted.clusters {
        cluster.typed_per_filter_config.retain(&known);
    }
}
