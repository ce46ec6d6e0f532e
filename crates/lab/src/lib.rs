//! Part of Pageblock.

pub mod policy_file;
