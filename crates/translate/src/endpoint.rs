//! The endpoint translator.
