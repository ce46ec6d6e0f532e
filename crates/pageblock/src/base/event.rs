//! What the allocator reports, in the vocabulary of the kernel's tracepoints.
//!
//! The same type carries the events of a recorded kernel, so that what counts them cannot tell a
//! simulated run from a recorded one.
//!
//! ```
//! # use pageblock::{alloc::Allocator, frame::FrameRange, ids::*, layout::{ZoneKind, ZoneSpec}};
//! # use pageblock::{policy::Policy, request::{Gfp, Request}, setup::Setup, zone::Geometry};
//! # let span = FrameRange::new(0, 1 << 15);
//! # let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
//! # let policy = Policy::parse("linux-6.12").unwrap();
//! # let setup = Setup::new(policy, &zones, &[NodeId(0)]);
//! # let mut memory = vec![std::mem::MaybeUninit::uninit(); setup.metadata_size().unwrap()];
//! # let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
//! # allocator.release(span).unwrap();
//! # allocator.retune();
//! use pageblock::event::{Event, Observer};
//!
//! /// Counts blocks that were served from lists of other types.
//! #[derive(Default)]
//! struct Fallbacks(u32);
//!
//! impl Observer for Fallbacks {
//!     fn event(&mut self, event: Event) {
//!         self.0 += u32::from(matches!(event, Event::Extfrag(_)));
//!     }
//! }
//!
//! let mut fallbacks = Fallbacks::default();
//! // All memory is movable at first; the first kernel page takes a pageblock of it.
//! allocator.alloc(CpuId(0), &Request::new(0, Gfp::GFP_KERNEL), &mut fallbacks).unwrap();
//! assert_eq!(fallbacks.0, 1);
//! ```

use crate::base::decide::{Decide, Linux};
use crate::base::frame::{FrameRange, Order, Pfn};
use crate::base::ids::NodeId;
use crate::base::layout::ZoneKind;
use crate::base::mobility::Migratetype;
use crate::base::request::Gfp;

/// One tracepoint of the `kmem` group, or one that this project adds beside them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// `mm_page_alloc`: a request was served, or failed (`pfn` is `None`).
    PageAlloc {
        /// The block's first frame.
        pfn: Option<Pfn>,
        /// The block's order.
        order: Order,
        /// The type that was requested.
        migratetype: Migratetype,
        /// The request's flags.
        gfp: Gfp,
    },
    /// `mm_page_free`: a block was freed.
    PageFree {
        /// The block's first frame.
        pfn: Pfn,
        /// The block's order.
        order: Order,
    },
    /// `mm_page_free_batched`: a page of a batch is freed to its CPU list.
    PageFreeBatched {
        /// The frame.
        pfn: Pfn,
    },
    /// `mm_page_alloc_zone_locked`: a block leaves the buddy lists.
    ZoneLocked {
        /// The block's first frame.
        pfn: Pfn,
        /// The block's order.
        order: Order,
        /// The type that was requested.
        migratetype: Migratetype,
        /// Whether it goes to a CPU list.
        percpu_refill: bool,
    },
    /// `mm_page_pcpu_drain`: a block goes from a CPU list to the buddy lists.
    PcpuDrain {
        /// The block's first frame.
        pfn: Pfn,
        /// The block's order.
        order: Order,
        /// The type of the list it is freed to.
        migratetype: Migratetype,
    },
    /// `mm_page_alloc_extfrag`: a request is served from a list of another type.
    Extfrag(Extfrag),
}

/// The fields of `mm_page_alloc_extfrag`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extfrag {
    /// The first frame of the block that was found.
    pub pfn: Pfn,
    /// The order that was requested.
    pub alloc_order: Order,
    /// The order of the block that was found.
    pub fallback_order: Order,
    /// The type that was requested.
    pub alloc_migratetype: Migratetype,
    /// The type of the list it was found on. Linux 3.10 prints the type after the operation, as
    /// its variable was already overwritten; this is that value too, under that policy.
    pub fallback_migratetype: Migratetype,
    /// As the kernel version prints it: docs/linux/tracepoints.md#mm_page_alloc_extfrag.
    pub change_ownership: bool,
}

impl Extfrag {
    /// Tells what the event prints as `fragmenting`: less than a whole pageblock was found.
    #[must_use]
    pub const fn fragmenting(&self, pageblock_order: Order) -> bool {
        self.fallback_order < pageblock_order
    }
}

/// What `node_reclaim` achieved for a zone that is short (docs/linux/fast-path.md#node-reclaim).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeReclaim {
    /// Nothing was tried.
    NoScan,
    /// Nothing is left to reclaim.
    Full,
    /// Some pages were reclaimed; the watermark is tested again.
    Some,
}

/// Receives the events of an allocator, and answers what only its surroundings know. Statically
/// dispatched: `()` costs nothing.
pub trait Observer {
    /// Called once for every event, in the order in which the kernel would print them.
    fn event(&mut self, event: Event);

    /// Returns whether a node may take another dirty page (`node_dirty_ok`); asked for `__GFP_WRITE`, perhaps more than
    /// once for a request.
    #[inline(always)]
    fn node_dirty_ok(&mut self, _node: NodeId) -> bool {
        true
    }

    /// Reclaims in a node that is short, if `zone_reclaim_mode` asks for it.
    #[inline(always)]
    fn node_reclaim(&mut self, _node: NodeId, _order: Order) -> NodeReclaim {
        NodeReclaim::NoScan
    }

    /// Wakes the kswapd of a node for one of its zones, whose watermark was boosted.
    #[inline(always)]
    fn wake_kswapd(&mut self, _node: NodeId, _zone: ZoneKind, _order: Order) {}

    /// Returns who decides in Linux's place ([`decide`](crate::decide)); nobody by default.
    #[inline(always)]
    fn decider(&mut self) -> Option<impl Decide> {
        None::<Linux>
    }

    /// Called when pageblocks become wholly free: their memory can be given back to whoever lent it (`madvise`, a
    /// balloon) until a block of them is allocated again. A shared zone's lock is held. What moves between lists may be
    /// reported again; blocks on CPU lists are not free.
    #[inline(always)]
    fn emptied(&mut self, _pageblocks: FrameRange) {}
}

impl Observer for () {
    #[inline(always)]
    fn event(&mut self, _: Event) {}
}

impl<T: Observer> Observer for &mut T {
    #[inline(always)]
    fn event(&mut self, event: Event) {
        (**self).event(event);
    }
    fn node_dirty_ok(&mut self, node: NodeId) -> bool {
        (**self).node_dirty_ok(node)
    }
    fn node_reclaim(&mut self, node: NodeId, order: Order) -> NodeReclaim {
        (**self).node_reclaim(node, order)
    }
    fn wake_kswapd(&mut self, node: NodeId, zone: ZoneKind, order: Order) {
        (**self).wake_kswapd(node, zone, order);
    }
    #[inline(always)]
    fn decider(&mut self) -> Option<impl Decide> {
        (**self).decider()
    }
    fn emptied(&mut self, pageblocks: FrameRange) {
        (**self).emptied(pageblocks);
    }
}
