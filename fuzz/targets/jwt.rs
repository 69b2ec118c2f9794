//! The target `jwt` of crates/harness.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ironsail_harness::run("jwt", bytes));
