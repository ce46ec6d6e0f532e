//! Reads arbitrary bytes as a `perf.data`:
//! `cargo +nightly fuzz run perf_data corpus seeds/perf_data` in `crates/recording/fuzz`.
#![no_main]

#[path = "../../tests/it/readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| readers::read_perf_data(data));
