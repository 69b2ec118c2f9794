//! Rules in a real kernel, in network namespaces that the tests make themselves.

#![allow(clippy::unwrap_used, reason = "what a test needs and does not get fails it")]

mod flow;
mod pod;
mod rules;
