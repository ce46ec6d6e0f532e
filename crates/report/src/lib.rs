//! Tables in the layouts that kernel developers post, plain tables, and JSON.
//!
//! Nothing here computes: every number, difference and star comes from `pageblock-measure`. Output is a
//! `String` of complete lines.
#![forbid(unsafe_code)]

pub mod bisect;
pub mod calibration;
pub mod call_sites;
pub mod certificate;
pub mod checkup;
pub mod chosen;
pub mod contents;
pub mod error_rates;
pub mod explain;
pub mod fleet;
pub mod flight;
pub mod forecast;
pub mod full;
pub mod json;
pub mod metrics;
pub mod mmtests;
pub mod monitors;
pub mod note;
mod placement;
pub mod prediction;
pub mod published;
pub mod ratio;
pub mod remedies;
pub mod replay;
pub mod seeds;
pub mod summary;
pub mod table;
pub mod tables;
pub mod text;
pub mod verify;
pub mod weiner;
