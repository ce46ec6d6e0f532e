//! Tables as kernel developers post them, plain tables for people, and JSON.
//!
//! Nothing here computes: every number, difference and star was decided in `pageblock-measure`.
//! What is printed is a `String` of whole lines.
#![forbid(unsafe_code)]

pub mod calibration;
pub mod full;
pub mod json;
pub mod mmtests;
pub mod monitors;
pub mod published;
pub mod ratio;
pub mod replay;
pub mod seeds;
pub mod table;
pub mod tables;
pub mod verify;
pub mod weiner;
