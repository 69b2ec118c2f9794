//! Long-running programs.
