//! Any bytes as a log:
//! `cargo +nightly fuzz run explain corpus seeds/explain` in `crates/doctor/fuzz`.
#![no_main]

#[path = "../../tests/it/fuzzed.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::explain(data));
