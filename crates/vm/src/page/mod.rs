//! Pages: the entry of each page frame, the ages of pages, and the pageblocks that they were allocated from.

pub mod age;
mod generation;
pub mod placed;
pub mod table;

pub(crate) use generation::{MAX_GENS, MAX_USES};
pub use table::{NO_ZONE, Owner, Page, PageFlags, PageTable};
