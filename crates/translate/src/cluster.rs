//! Clusters: one view, one cluster.

mod draft;
mod fixed;
