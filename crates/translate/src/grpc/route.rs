//! Routes of clients: one configuration for each service and port, named as its cluster.

use std::sync::Arc;

use ironsail_model::{Scope, Service};
use ironsail_names::ClusterName;
use ironsail_proto::envoy::config::route::v3::RouteConfiguration;

use super::message;
use crate::{Key, Translated};

/// What one route configuration is made of.
#[derive(Clone, Debug)]
pub struct RouteView<'a> {
    pub name: ClusterName,
    service: &'a Arc<Service>,
}

/// The view of the routes that are called `name` (`outbound|8000||HOST`).
pub fn view<'a>(scope: &'a Scope, name: &str) -> Option<RouteView<'a>> {
    let name: ClusterName = name.parse().ok()?;
    let service = scope.service(name.host.as_ref()?)?;
    service.port(name.port)?;
    Some(RouteView { name, service })
}

impl RouteView<'_> {
    pub fn key(&self) -> u64 {
        Key::new("grpc-route").display(&self.name).digest(self.service.digest).finish()
    }
}

pub fn translate(view: &RouteView<'_>) -> Translated<RouteConfiguration> {
    let name = view.name.to_string();
    message::plain_routes(name.clone(), vec!["*".into()], name).into()
}
