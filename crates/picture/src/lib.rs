//! Pictures of runs and recordings: a page in one file, drawings for papers, and text for mails.
//!
//! Everything is drawn from [`pageblock_measure::History`], and nothing is measured here.
#![forbid(unsafe_code)]

pub mod page;
mod subject;

pub use subject::{Kind, Subject};
