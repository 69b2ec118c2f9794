//! The nametable translator.
