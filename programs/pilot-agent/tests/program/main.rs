//! The program itself in a network namespace of its own, beside a small control plane and, where it
//! matters, a real Envoy.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod bootstrap;
mod control;
mod ending;
mod family;
mod input;
mod port;
mod secret;
mod stage;
