//! The page cache.

pub mod filemap;
pub mod lru;
mod workingset;
pub mod writeback;
