//! The only door to the operating system: clocks, environment, programs, namespaces, sockets.
//!
//! Everything above this crate is safe Rust and takes what it needs from the world as a value, so
//! that it can be tested with data alone. Unsafe code lives here and nowhere else in `crates/`.

pub mod account;
pub mod capability;
pub mod cgroup;
pub mod clock;
pub mod credential;
pub mod env;
pub mod exec;
pub mod fdpass;
pub mod interface;
pub mod memory;
pub mod mount;
pub mod netlink;
pub mod netns;
pub mod process;
pub mod pty;
pub mod reactor;
pub mod signal;
pub mod socket;
pub mod userns;
