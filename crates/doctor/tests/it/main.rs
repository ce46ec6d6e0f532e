//! Real reports, explained.

mod flight;
mod forecast;
mod fuzzed;
mod guests;
mod patterns;
mod reports;
