//! Files of `/proc` and `/sys`, of this machine or copied from another.

pub mod tree;
pub mod zoneinfo;
