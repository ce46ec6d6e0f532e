//! Real reports, explained.

mod edited;
mod excerpts;
mod flight;
mod forecast;
mod fuzzed;
mod guests;
mod marks;
mod pasted;
mod patterns;
mod posts;
mod reports;
mod steps;
mod strangers;
