//! helloworld.

fn main() {}
