//! Placeholder of the crate frame; the route translator replaces it.
