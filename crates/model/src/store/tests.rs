//! What a store makes of events: services and endpoints, change sets, and that history is forgotten.

mod change;
mod cluster;
mod endpoint;
mod entry;
mod history;
mod kube;
