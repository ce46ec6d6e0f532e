//! Any bytes as a log:
//! `cargo +nightly fuzz run explain corpus seeds/explain` in `crates/doctor/fuzz`.
#![no_main]

#[path = "../../tests/it/fuzzed.rs"]
#[allow(dead_code, unused_imports, reason = "the other targets and the tests use the rest")]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::explain(data));
