//! The Kubernetes API subset as a library.

pub mod kinds;
