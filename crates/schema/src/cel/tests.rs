//! CEL rules.
