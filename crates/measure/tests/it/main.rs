//! Statistics beside those of SciPy, and the structure of the crate.

mod rings;
#[path = "../../../pageblock/tests/it/source.rs"]
mod source;
mod vectors;
