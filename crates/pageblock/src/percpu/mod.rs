//! The data of one CPU: its caches, the lock-free snapshots of zones, and its fast paths.

mod asked;
pub mod cache;
pub(crate) mod caches;
mod check;
pub(crate) mod fast_path;
mod list;
pub(crate) mod machine;
pub(crate) mod mailbox;
pub(crate) mod snapshot;
mod tuning;
