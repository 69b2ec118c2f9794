//! Instances.
