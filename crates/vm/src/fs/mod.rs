//! File systems.

pub mod buffer;
pub mod cil;
pub mod extent;
pub mod inode;
mod prune;
