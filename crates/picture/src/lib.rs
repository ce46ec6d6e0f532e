//! Pictures of runs and recordings: a page in one file, drawings for papers, and text for mails.
//!
//! Everything is drawn from [`pageblock_measure::History`], and nothing is measured here.
#![forbid(unsafe_code)]

pub mod error;
mod opened;
pub mod page;
pub mod plain;
pub mod plot;
mod series;
mod subject;
mod theme;

pub use error::Error;
pub use opened::Opened;
pub use plain::character;
pub use series::{Series, timeline};
pub use subject::{Kind, Subject};
pub use theme::{Rgb, Theme};
