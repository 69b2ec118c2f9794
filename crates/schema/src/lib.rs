//! Structural schemas.
