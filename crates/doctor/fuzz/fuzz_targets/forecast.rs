//! Any bytes as the files of a machine with kpageflags:
//! `cargo +nightly fuzz run forecast corpus seeds/forecast` in `crates/doctor/fuzz`.
#![no_main]

#[path = "../../tests/it/fuzzed.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzzed::forecast_of(data));
