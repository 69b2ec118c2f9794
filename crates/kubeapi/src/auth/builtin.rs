//! The roles and bindings that every cluster has.

use serde_json::Value;

/// Objects to create at the start where they are missing, in order.
pub fn objects() -> Vec<Value> {
    Vec::new()
}
