//! Statistics of samples, which know nothing of runs.

pub mod multiops;
pub mod multiple;
pub mod rank_sum;
pub mod resampling;
pub mod sequential;
pub mod stats;
pub mod trend;
