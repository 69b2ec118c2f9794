//! Kinds of one family; their rules follow.

use super::*;

pub(super) const KINDS: &[Kind] =
    &[Kind { kind: "Event", plural: "events", singular: "event", short_names: &["ev"], ..STORED }];
