//! The page that shows the mesh: a map of its traffic, its workloads, services, resources and pushes.
//!
//! In: a [`World`] that tells what there is, and the metrics of the proxies (or a Prometheus that has
//! them); out: the page and the JSON behind it, below `/mesh/`. The page only shows. It asks nobody but
//! this program, and everything it needs is inside.

mod api;
mod exposition;
mod fetch;
mod flow;
mod map;
mod prometheus;
mod ring;
mod scrape;
mod traffic;
mod world;

pub use api::router;
pub use fetch::Error;
pub use map::{Edge, Latency, Map, Node};
pub use traffic::{Source, Traffic};
pub use world::{
    Certificate, Finding, Object, Overview, Proxy, Push, Refusal, Report, Scrapeable, Service,
    Workload, WorkloadDetail, World,
};
