//! The network in real namespaces. Nothing here needs or touches the network of the machine.

mod bench;
mod egress;
mod harmless;
mod outside;
mod pods;
mod services;
mod unprivileged;
