//! Integration tests of trials.

mod guests;
