//! The mesh's metrics as values: who talks to whom, what a request was, and the labels it counts under.
//!
//! In: what the proxy knows of a request or connection, and what peers say of themselves; out: names and
//! values of labels. Also the configuration that the control plane and the agent hand to the Envoy
//! module, so that both sides read one definition. No IO, no clock, no Envoy.

pub mod attribute;
pub mod config;
pub mod expression;
pub mod flags;
pub mod label;
pub mod peer;
pub mod report;
pub mod series;

pub use config::{Direction, Filter, Logger, Metric, Reporter, Service, Traffic};
pub use peer::Peer;
