//! Structural schemas of custom resources: prune, default, validate, CEL rules.
//!
//! Pure: a schema and a value come in, a value and field errors go out.

pub mod field;

pub use field::{FieldError, Reason};
