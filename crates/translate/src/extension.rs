//! Placeholder of the crate frame; the extension translator replaces it.
