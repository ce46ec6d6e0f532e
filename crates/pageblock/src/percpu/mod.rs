//! What one CPU has: its caches, what it reads of zones without their locks, and its fast paths.

pub mod cache;
pub(crate) mod caches;
mod check;
mod fast_path;
mod list;
pub(crate) mod machine;
pub(crate) mod mailbox;
pub(crate) mod snapshot;
mod tuning;
