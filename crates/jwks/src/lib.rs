//! Keys of token issuers: fetched over HTTP, bounded, kept fresh.
//!
//! In: which keys are wanted, as that changes. Out: key sets, and why there are none. A key set that
//! was fetched once stays until a newer one is there; what was never fetched is reported and tried
//! again. Nothing here judges tokens.

mod fetch;
mod keeper;
mod set;
mod trust;

pub use fetch::{Error, Fetcher};
pub use keeper::{Settings, Update, Wanted, run};
pub use set::{Fault, jwks_uri, key_set};
pub use trust::Trust;
