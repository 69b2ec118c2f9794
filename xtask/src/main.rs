//! Workspace tools.

fn main() {}
