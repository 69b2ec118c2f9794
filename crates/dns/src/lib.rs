//! A small DNS server and forwarder.
//!
//! In: DNS messages over UDP and TCP, and a `Lookup` that knows the names that are ours; out:
//! answers. Names of others go to upstream servers if there are any. Knows nothing of Kubernetes or
//! of a mesh, and never panics on what it is sent.

mod answer;
mod forward;
mod lookup;
mod server;

pub use answer::{Outcome, Pending, Transport, answer};
pub use forward::{Forwarder, upstreams};
pub use hickory_proto::rr::{Name, RData, Record, RecordType, rdata};
pub use lookup::{Answer, Lookup};
pub use server::Server;
