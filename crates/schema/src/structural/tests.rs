//! Which schemas are refused.
