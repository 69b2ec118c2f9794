//! Discovery as a protocol: who wants which resources, what they have, and what to send them next.
//!
//! In: requests of proxies in either variant (state of the world, delta) and sets of encoded
//! resources; out: responses that bring each proxy from what it has to what it should have, in an
//! order that never breaks traffic. Knows types by URL only: what a resource means is for others.
//!
//! `session` is the protocol without IO and without a clock; `server` and `client` carry it.

pub mod client;
mod message;
mod messages;
mod names;
mod resource;
mod rule;
pub mod server;
mod session;
mod set;
mod wire;

pub use message::{Ask, Request, Response, Variant};
pub use messages::Messages;
pub use names::{Interner, Name, Names};
pub use resource::{Resource, Version, WeakResource};
pub use rule::{CDS, ECDS, EDS, HEALTH, LDS, RDS, SDS, TRUST};
pub use session::{Heard, Interest, Refusal, Rejection, Session, TypeStatus, Verdict};
pub use set::{Changes, Set};
pub use wire::Frames;

/// The URL of a type of resource. Cheap to clone.
pub type TypeUrl = std::sync::Arc<str>;
