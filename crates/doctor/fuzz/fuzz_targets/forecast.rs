//! Any bytes as the files of a machine with kpageflags:
//! `cargo +nightly fuzz run forecast corpus seeds/forecast` in `crates/doctor/fuzz`.
#![no_main]

#[path = "../../tests/it/fuzzed.rs"]
#[allow(dead_code, unused_imports, reason = "the other targets and the tests use the rest")]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::forecast_of(data));
