//! echo.

fn main() {}
