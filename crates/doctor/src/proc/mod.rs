//! Files of `/proc` and `/sys`, of this machine or copied from another.

pub mod iomem;
pub mod page_size;
pub mod tree;
pub mod zoneinfo;
