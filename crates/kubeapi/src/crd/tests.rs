//! Custom resources through the whole API.
