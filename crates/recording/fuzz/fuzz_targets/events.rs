//! Reads arbitrary bytes as a file of events:
//! `cargo +nightly fuzz run events corpus seeds/events` in `crates/recording/fuzz`.
#![no_main]

#[path = "../../tests/it/readers.rs"]
#[expect(dead_code, reason = "the other targets and the tests use the rest")]
mod readers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| readers::read_events(data));
