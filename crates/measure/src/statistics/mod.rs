//! Statistics of samples, which know nothing of runs.

pub mod multiops;
pub mod paired;
pub mod stats;
pub mod trend;
