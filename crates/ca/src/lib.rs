//! The CA.
