//! The secret translator.
