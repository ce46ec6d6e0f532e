//! Real reports, explained.

mod flight;
mod forecast;
mod fuzzed;
mod guests;
mod pasted;
mod patterns;
mod reports;
