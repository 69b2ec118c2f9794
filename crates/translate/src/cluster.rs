//! The cluster translator.
