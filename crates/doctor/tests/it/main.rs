//! Real reports, explained.

mod reports;
