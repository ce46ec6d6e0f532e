//! Any bytes as saved runs, compared and drawn:
//! `cargo +nightly fuzz run runs corpus seeds/runs` in `crates/picture/fuzz`.
#![no_main]

#[path = "../../tests/it/saved.rs"]
mod saved;

libfuzzer_sys::fuzz_target!(|data: &[u8]| saved::compare_and_draw(data));
