//! Numbers that name a CPU, a node, a zone or a CPU list. Each is a type, so that none is taken for another.
//!
//! ```
//! use pageblock::ids::{CpuId, ZoneIndex};
//!
//! let zones = ["DMA32", "Normal"];
//! assert_eq!(zones[ZoneIndex(1).index()], "Normal");
//! assert_eq!(CpuId(3).to_string(), "3");
//! // A number that does not fit becomes one that names nothing.
//! assert_eq!(ZoneIndex::new(1), ZoneIndex(1));
//! assert!(zones.get(ZoneIndex::new(1 << 40).index()).is_none());
//! ```

use core::fmt;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident($number:ty);)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        #[repr(transparent)]
        pub struct $name(pub $number);

        impl $name {
            /// Returns the value for a number; the largest, which names nothing, for a number that does not fit.
            #[inline(always)]
            #[must_use]
            pub const fn new(number: usize) -> Self {
                const MAX: usize = <$number>::MAX as usize;
                Self(if number < MAX { number as $number } else { <$number>::MAX })
            }

            /// Returns the values below `count`, from 0 on.
            pub fn up_to(count: usize) -> impl DoubleEndedIterator<Item = Self> + Clone {
                (0..count).map(Self::new)
            }

            /// Returns the number, to index a table.
            #[inline(always)]
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// The number of a CPU (`smp_processor_id`), from 0.
    CpuId(usize);
    /// The number of a node (`nid`), below [`MAX_NUMNODES`](crate::layout::MAX_NUMNODES). Numbers may be
    /// missing.
    NodeId(u8);
    /// The place of a zone in [`Allocator::zones`](crate::alloc::Allocator::zones): node by node, lowest kind
    /// first.
    ZoneIndex(u16);
    /// The place of a list in a [`CpuCache`](crate::cpu_cache::CpuCache) (`pindex`).
    ListIndex(usize);
}

impl NodeId {
    /// Returns the node's bit in a nodemask, for a node below
    /// [`MAX_NUMNODES`](crate::layout::MAX_NUMNODES).
    #[inline(always)]
    pub(crate) const fn bit(self) -> u64 {
        1 << self.0
    }
}
