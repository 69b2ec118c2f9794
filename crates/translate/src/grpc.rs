//! What gRPC clients and servers without a proxy need (`GENERATOR=grpc`).
//!
//! In: services in scope, their rules, the names that a client asks for. Out: listeners by the name
//! that is dialled, routes, clusters, and listeners of servers. gRPC refuses whatever it does not
//! know, so every message holds only what its designs name; load assignments are those of proxies
//! (`endpoint`).

mod cluster;
mod listener;
mod message;
mod route;

pub use cluster::{ClusterView, translate as translate_cluster, view as cluster_view};
pub use listener::{
    ListenerView, SERVER_PREFIX, translate as translate_listener, view as listener_view,
};
pub use route::{RouteView, translate as translate_route, view as route_view};
