//! The operations of one CPU on zones that it owns or locks: the walk, frees, ranges, tuning.

mod alloc;
mod bulk;
pub(crate) mod contig;
mod exact;
pub(crate) mod extents;
mod fair;
mod free;
pub(crate) mod hotplug;
pub(crate) mod local;
pub(crate) mod locked;
pub(crate) mod retune;
mod walk;
