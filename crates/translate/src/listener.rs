//! Placeholder of the crate frame; the listener translator replaces it.
