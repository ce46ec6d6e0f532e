//! Real reports, explained.

mod forecast;
mod reports;
