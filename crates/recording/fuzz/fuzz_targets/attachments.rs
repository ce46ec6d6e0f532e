//! Reads a whole `.pbrec` with any attachments:
//! `cargo +nightly fuzz run attachments corpus seeds/attachments` in `crates/recording/fuzz`.
#![no_main]

#[path = "../../tests/it/readers.rs"]
#[expect(dead_code, reason = "the other targets and the tests use the rest")]
mod readers;

libfuzzer_sys::fuzz_target!(
    // The library turns panics of the Arrow reader into errors; the fuzzer's hook would abort at once. A panic that
    // leaves the target is still found.
    init: std::panic::set_hook(Box::new(|_| {})),
    |data: &[u8]| readers::read_attachments(data)
);
