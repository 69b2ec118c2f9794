//! The Kubernetes API subset as a library: objects come in over HTTP or from an in-process client,
//! are checked, kept durably and told to every watcher.
//!
//! `store` keeps, `kinds` knows the built-in kinds, `auth` and `admission` decide who may do what,
//! and `server` joins them into one request handler.

pub mod store;
