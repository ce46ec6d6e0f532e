//! The tables in the caller's memory, and the lists that are linked through them.

pub(crate) mod bits;
pub(crate) mod block;
pub(crate) mod chain;
pub(crate) mod freelist;
mod held;
pub(crate) mod links;
pub(crate) mod map;
pub mod memory;
pub mod movement;
pub(crate) mod state;
pub(crate) mod usage;
