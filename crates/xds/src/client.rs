//! The other end: a client of discovery in either variant, for agents and tests.
//!
//! `session` is the protocol without IO; `conversation` carries it over gRPC and comes back after a
//! disconnect, saying what it still has; `transport` hides which variant it is.

mod call;
mod conversation;
mod session;
mod transport;

pub use call::call;
pub use conversation::{Backoff, Client, Event, Pending};
pub use session::{ClientSession, Incoming, Outgoing, Received, Update};
