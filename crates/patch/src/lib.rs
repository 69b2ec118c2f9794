//! Patches of Kubernetes objects: JSON patch, merge patch, strategic merge patch, server-side apply.
//!
//! Pure: objects and patches come in as JSON values, a new object or an error goes out. Nothing here
//! reads a clock (times come in as text) or knows about storage.

pub mod apply;
pub mod builtin;
mod error;
mod json;
mod merge;
mod strategic;
mod typeinfo;

pub use error::Error;
pub use json::{MAX_OPERATIONS, json_patch};
pub use merge::merge_patch;
pub use strategic::strategic_merge;
pub use typeinfo::TypeInfo;
