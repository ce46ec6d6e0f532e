//! Any bytes as a flight file, or as the samples in one:
//! `cargo +nightly fuzz run flight corpus seeds/flight` in `crates/doctor/fuzz`.
#![no_main]

#[path = "../../tests/it/fuzzed.rs"]
#[allow(dead_code, unused_imports, reason = "the other targets and the tests use the rest")]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::flight(data));
