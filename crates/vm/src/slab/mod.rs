//! Slab caches, and the sizes of what is allocated from them or straight from the page allocator.

pub mod caches;
pub mod process;
pub mod skb;

pub use caches::{Cache, CacheId, CacheSpec, SlabAllocator, Slabs, cpu_partial, min_partial};
