//! Pages: the entry of each page frame, their ages, and where they were placed.

pub mod age;
pub mod placed;
pub mod table;

pub use table::{NO_ZONE, Owner, Page, PageFlags, PageTable};
