//! The allocator's slow path, performed.

pub mod slow;
