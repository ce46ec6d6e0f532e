//! Pages and address spaces: the entry of each page frame, and what stands at each index of a file or mapping.

pub mod age;
pub mod placed;
pub mod space;
pub mod table;

pub use table::{NO_ZONE, Owner, Page, PageFlags, PageTable};
