//! bookinfo.

fn main() {}
