//! The verbs of the API on any resource.

pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod select;
pub(crate) mod update;
pub(crate) mod watch;
