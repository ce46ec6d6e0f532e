//! Swap space.

pub(crate) mod map;
mod swap_in;
pub mod zram;
pub mod zsmalloc;
