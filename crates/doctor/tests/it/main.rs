//! Real reports, explained.

mod flight;
mod forecast;
mod fuzzed;
mod patterns;
mod reports;
