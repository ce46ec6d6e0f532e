//! Any files as a recording that is verified:
//! `cargo +nightly fuzz run open corpus seeds/open` in `crates/replay/fuzz`.
#![no_main]

#[path = "../../tests/it/opening.rs"]
mod opening;

libfuzzer_sys::fuzz_target!(|data: &[u8]| opening::verify_folder(data));
