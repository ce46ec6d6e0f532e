//! The public interface: the allocator of one owner, the shared one, and a CPU's handle on it.

pub mod alloc;
pub mod bulk;
pub mod check;
pub mod contig;
pub mod cpu;
pub mod exact;
pub mod extents;
mod free;
pub mod hotplug;
pub mod proc;
pub mod request_stats;
mod retune;
pub mod setup;
pub mod sharing;
