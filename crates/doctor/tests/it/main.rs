//! Real reports, explained.

mod forecast;
mod fuzzed;
mod guests;
mod patterns;
mod reports;
