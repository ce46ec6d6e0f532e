//! Arbitrary calls, mistakes included, beside a shadow model:
//! `cargo +nightly fuzz run calls` in `crates/pageblock`.
#![no_main]

#[path = "../../tests/it/driver.rs"]
mod driver;
#[path = "../../tests/it/hostile.rs"]
mod hostile;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    driver::drive(data);
});
