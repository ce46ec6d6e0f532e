//! Statistics beside those of SciPy, and the structure of the crate.

#[path = "../../../pageblock/tests/it/circles.rs"]
mod circles;
#[path = "../../../pageblock/tests/it/folders.rs"]
mod folders;
mod rings;
#[path = "../../../pageblock/tests/it/source.rs"]
mod source;
mod vectors;
