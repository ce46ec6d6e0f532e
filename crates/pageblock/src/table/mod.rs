//! The tables in the caller's memory, and the lists that are linked through them.

pub(crate) mod chain;
pub(crate) mod freelist;
pub(crate) mod links;
pub(crate) mod map;
pub mod memory;
pub mod movement;
pub(crate) mod usage;
