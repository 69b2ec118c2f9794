//! The Kubernetes API subset as a library: objects come in over HTTP or from an in-process client,
//! are checked, kept durably and told to every watcher.
//!
//! [`store`] keeps, [`kinds`] knows the built-in kinds, [`registry`] all served resources, [`auth`]
//! and [`admission`] decide who may do what, and [`server`] joins them into one request handler.

mod accept;
mod addresses;
pub mod admission;
pub mod auth;
mod body;
mod call;
mod crd;
mod discovery;
pub mod kinds;
mod meta;
mod path;
mod query;
pub mod registry;
mod reply;
mod selector;
pub mod server;
pub mod status;
pub mod store;
mod subresource;
mod table;
mod verb;

pub use addresses::NODE_PORTS;
pub use body::{Body, BoxError, LIMIT as BODY_LIMIT};
pub use server::{Config, InProcess, OpenError, Server};
