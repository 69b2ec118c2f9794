//! Wire types: Envoy's API and the mesh's own services, and JSON of any of them.
//!
//! The types are generated when the crate is built (`build/main.rs`): maps are ordered and `Any`
//! holds shared bytes, so that equal messages have equal bytes and one encoding serves many proxies.
//! No logic of a mesh lives here.

mod json;
mod pack;
mod structure;
mod time;

#[allow(
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    clippy::uninlined_format_args,
    dead_code,
    unreachable_pub,
    reason = "generated code is not ours to polish"
)]
mod packages {
    include!(concat!(env!("OUT_DIR"), "/packages.rs"));
}

pub use json::{Error as JsonError, from_json, pool, to_json, to_json_any};
pub use pack::{UnpackError, pack, unpack};
pub use packages::{cel, envoy, google, istio, opentelemetry, udpa, xds};
pub use prost::{Message, Name};
pub use prost_reflect as reflect;
