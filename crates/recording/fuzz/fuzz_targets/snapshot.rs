//! Reads arbitrary bytes as a snapshot and as the files of `/proc` beside it:
//! `cargo +nightly fuzz run snapshot corpus seeds/snapshot` in `crates/recording/fuzz`.
#![no_main]

#[path = "../../tests/it/readers.rs"]
#[expect(dead_code, reason = "the other targets and the tests use the rest")]
mod readers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| readers::read_state(data));
