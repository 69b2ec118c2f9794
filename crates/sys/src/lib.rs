//! The only door to the operating system: clocks, environment, programs, namespaces, sockets.
//!
//! Everything above this crate is safe Rust and takes what it needs from the world as a value, so
//! that it can be tested with data alone. Unsafe code lives here and nowhere else in `crates/`.

pub mod clock;
pub mod env;
pub mod exec;
pub mod netns;
pub mod socket;
