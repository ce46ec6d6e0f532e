//! What every subsystem uses: lists, counters, the pressure on shrinkers, what a daemon does next.

pub mod daemon;
pub mod inject;
pub(crate) mod list;
pub(crate) mod shrink;
pub mod stalls;
pub mod stat;
pub mod work;
