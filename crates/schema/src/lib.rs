//! Structural schemas of custom resources: prune, default, validate, CEL rules.
//!
//! Pure: a schema and a value come in, a value and field errors go out.

mod cel;
mod embedded;
pub mod field;
mod fill;
mod format;
mod listtype;
mod node;
mod parse;
mod pattern;
mod prune;
mod structural;
mod validate;

pub use cel::is_expression;
pub use field::{FieldError, Reason};
pub use node::{Additional, ListType, Schema, Type};
