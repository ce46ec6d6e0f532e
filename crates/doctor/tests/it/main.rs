//! Real reports, explained.

mod forecast;
mod fuzzed;
mod patterns;
mod reports;
