//! The allocator's slow path, performed.

mod atomic_boost;
pub mod slow;
