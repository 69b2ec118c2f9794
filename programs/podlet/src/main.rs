//! A node without a cluster.

fn main() {}
