//! httpbin.

fn main() {}
