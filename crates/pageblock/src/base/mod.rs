//! The vocabulary of the crate: frames and orders, ids, types, requests, the machine's layout, events and
//! errors.

pub mod alloc_flags;
pub mod decide;
pub(crate) mod error;
pub mod event;
pub mod frame;
pub(crate) mod geometry;
pub mod ids;
pub mod interrupts;
pub mod layout;
pub mod locks;
pub mod mobility;
pub mod request;
#[cfg(feature = "std")]
pub(crate) mod std_locks;
pub(crate) mod sync;
pub mod zonelist;
