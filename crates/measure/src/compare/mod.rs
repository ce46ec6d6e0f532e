//! Comparisons of runs: each beside the others, policies over seeds, with what was published, with real kernels.

pub mod bisect;
pub mod calibrate;
pub mod common;
pub mod comparable;
mod draws;
pub mod ended;
pub mod error_rates;
pub mod full;
pub mod monitors;
pub mod noise;
pub mod placement;
pub mod prediction;
pub mod published;
pub mod runs;
pub mod seeds;
pub mod summary;
pub mod verdict;
