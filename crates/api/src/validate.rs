//! What is wrong with an object beyond its schema.

use crate::{Diagnostic, Object};

/// Everything that is wrong with an object by itself.
#[must_use]
pub fn validate(_: &Object) -> Vec<Diagnostic> {
    Vec::new()
}
