//! Discovery: from events to what every proxy should have.
//!
//! In: events of sources; out: `xds::server::Source`. One task owns the model's store and publishes
//! snapshots; proxies that get the same bytes form a class, and a class's sets are brought up to date
//! after each publication: only types that the change may concern, only views whose key is new. What
//! resources mean is for `translate`, what objects mean is for `model`.

mod auth;
mod bootstrap;
mod cache;
mod class;
mod connection;
mod counter;
mod csds;
mod debounce;
mod debug;
mod diagnostic;
mod dump;
mod engine;
mod feed;
mod generate;
mod inspect;
mod keeper;
mod kind;
mod limit;
mod publication;
mod review;
mod source;
mod trust;

pub use auth::{Authenticate, Identity, Plaintext, SecretAccess};
pub use class::Class;
pub use connection::{Connection, Nack, Sent, SyncStatus, TypeState};
pub use counter::{BUCKETS, Counters, Counts, Distribution, Histogram, SIZE_BUCKETS, TypeCounts};
pub use csds::ClientStatus;
pub use debounce::Limits as DebounceLimits;
pub use debug::{Access, Pages};
pub use diagnostic::judge;
pub use dump::config_dump;
pub use engine::{Engine, Settings};
pub use inspect::Sizes;
pub use keeper::{Inputs, Keys, Settings as KeeperSettings};
pub use kind::{DEBUG, DEBUG_CONFIG_DUMP, DEBUG_SYNCZ, Kind, NDS};
pub use publication::Publication;
pub use review::review;
pub use source::Port;
