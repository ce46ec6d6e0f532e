//! Reads arbitrary bytes as a `.pbrec`, whole or cut:
//! `cargo +nightly fuzz run pbrec corpus seeds/pbrec` in `crates/recording/fuzz`.
#![no_main]

#[path = "../../tests/it/readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| readers::read_pbrec(data));
