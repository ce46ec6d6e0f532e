//! A policy of one's own: a trait with a method for each decision, whose default is what the switches decide.
//!
//! An [`Observer`](crate::event::Observer) that has a decider ([`decider`](crate::event::Observer::decider)) is asked
//! before each decision, and told what Linux would do under the allocator's [`Policy`](crate::policy::Policy). It sees
//! a zone through a [`View`], which it cannot change. An answer that the zone's state does not allow is refused: then
//! Linux's counts, and [`refused`](Decide::refused) is called. Dispatch is static, and without a decider nothing is
//! asked and no code is left of the question.
//!
//! ```
//! # use pageblock::{alloc::Allocator, frame::FrameRange, ids::*, layout::{ZoneKind, ZoneSpec}};
//! # use pageblock::{policy::Policy, request::{Gfp, Request}, setup::Setup};
//! # let span = FrameRange::new(0, 1 << 15);
//! # let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
//! # let policy = Policy::parse("linux-7.3").unwrap();
//! # let setup = Setup::new(policy, &zones, &[NodeId(0)]);
//! # let mut memory = vec![std::mem::MaybeUninit::uninit(); setup.metadata_size().unwrap()];
//! # let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
//! # allocator.release(span).unwrap();
//! # allocator.retune();
//! use pageblock::decide::{Decide, Fallback, View, Want};
//! use pageblock::event::{Event, Observer};
//!
//! /// No request takes memory of another type.
//! struct Never;
//!
//! impl Decide for Never {
//!     fn fallback(&mut self, _: &dyn View, _: Want, _: Option<Fallback>) -> Option<Fallback> {
//!         None
//!     }
//! }
//!
//! struct Mine(Never);
//!
//! impl Observer for Mine {
//!     fn event(&mut self, _: Event) {}
//!     fn decider(&mut self) -> Option<impl Decide> {
//!         Some(&mut self.0)
//!     }
//! }
//!
//! // All memory is movable at first, and stays so.
//! let request = Request::new(0, Gfp::GFP_KERNEL);
//! assert!(allocator.alloc(CpuId(0), &request, &mut Mine(Never)).is_err());
//! assert!(allocator.alloc(CpuId(0), &request, &mut ()).is_ok());
//! ```

use crate::base::alloc_flags::AllocFlags;
use crate::base::frame::{FrameRange, Order, Pfn};
use crate::base::ids::CpuId;
use crate::base::mobility::Migratetype;
use crate::base::request::Gfp;

/// What becomes of the pageblock of a block that a fallback takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The block is at least a pageblock: all of it gets the requested type.
    ClaimWhole,
    /// The pageblock gets the requested type, and its free pages move to that type's lists.
    Claim,
    /// The free pages move, but the pageblock keeps its type (up to 6.9).
    Refile,
    /// Only the block itself is used.
    Single,
}

/// A block of another type that serves a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fallback {
    /// The block's first frame.
    pub pfn: Pfn,
    /// The block's order.
    pub order: Order,
    /// The type of the block's list.
    pub from: Migratetype,
    /// What becomes of the block's pageblock.
    pub outcome: Outcome,
}

/// End of a free list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Its blocks are allocated first.
    Head,
    /// Its blocks have the most time to merge.
    Tail,
}

/// Where a block goes that is freed to a CPU list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// To the head of the list, from which requests are served.
    Head,
    /// To the tail of the list, from which it is drained.
    Tail,
    /// Past the list to the zone.
    Zone,
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want {
    /// The order.
    pub order: Order,
    /// The requested type.
    pub kind: Migratetype,
    /// The attempt's flags.
    pub flags: AllocFlags,
}

/// A free block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Its first frame.
    pub pfn: Pfn,
    /// Its order.
    pub order: Order,
    /// The type of its list.
    pub kind: Migratetype,
}

/// What a pageblock holds, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pageblock {
    /// Its type.
    pub kind: Migratetype,
    /// Free pages.
    pub free: u64,
    /// Allocated pages whose content can be moved.
    pub movable: u64,
    /// All others: unmovable ones, those on CPU lists, and what was never handed to the allocator.
    pub other: u64,
}

/// The lists of a CPU for a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuLists {
    /// The order of the block that is asked for or freed.
    pub order: Order,
    /// Pages on all its lists.
    pub count: u32,
    /// Pages that they may hold now.
    pub high: u32,
    /// Pages that are moved at a time.
    pub batch: u32,
}

/// What a background thread empties of pages that can be moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Evacuation {
    /// Whole pageblocks of the zone.
    pub from: FrameRange,
    /// Frames that the pages do not go to, `from` among them.
    pub apart: FrameRange,
}

/// A decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// [`Decide::serve`].
    Serve,
    /// [`Decide::fallback`].
    Fallback,
    /// [`Decide::claim`].
    Claim,
    /// [`Decide::boost`].
    Boost,
    /// [`Decide::refill`].
    Refill,
    /// [`Decide::drain`].
    Drain,
    /// [`Decide::owner`].
    Owner,
    /// [`Decide::evacuate`].
    Evacuate,
}

/// What a decider sees of a zone. What it looks at is counted as a kernel's work: a list looked at is one of
/// [`list_probes`](crate::zone::ZoneCounters::list_probes), a block or page looked at one of
/// [`block_looks`](crate::zone::Zone::block_looks).
pub trait View {
    /// Returns the order of a pageblock.
    fn pageblock_order(&self) -> Order;

    /// Returns the largest order.
    fn max_order(&self) -> Order;

    /// Returns the zone's frames, which no other zone has.
    fn span(&self) -> FrameRange;

    /// Returns the number of pages that the allocator manages here.
    fn managed(&self) -> u64;

    /// Returns the number of free pages.
    fn free_pages(&self) -> u64;

    /// Returns the high watermark with the boost, in pages.
    fn high_watermark(&self) -> u64;

    /// Returns the number of free blocks of an order and type, which every kernel counts.
    fn free_blocks(&self, order: Order, kind: Migratetype) -> u64;

    /// Shows the free blocks of an order and type from the head of their list on, until `visit` returns `false`. Looks
    /// at a list, and at each block that is shown.
    fn each(&self, order: Order, kind: Migratetype, visit: &mut dyn FnMut(Pfn) -> bool);

    /// Does the same without counting a look: for what a kernel would have at hand by other tables, whose lists a decider
    /// counts itself ([`looked_at`](Self::looked_at)).
    fn shown(&self, order: Order, kind: Migratetype, visit: &mut dyn FnMut(Pfn) -> bool);

    /// Counts lists that a kernel would look at.
    fn looked_at(&self, lists: u64);

    /// Shows the free blocks in the pageblock of a frame by address, until `visit` returns `false`; none of a block larger
    /// than a pageblock. Looks at each free block and at every other page.
    fn free_in_block(&self, pfn: Pfn, visit: &mut dyn FnMut(Block) -> bool);

    /// Tells whether a block is free and on the list of its order and type.
    fn is_free(&self, block: Block) -> bool;

    /// Returns the type of the pageblock of a frame; `None` where the zone has no such frame.
    fn kind_of(&self, pfn: Pfn) -> Option<Migratetype>;

    /// Returns the free pages in the pageblock of a frame, as a counter of two bytes would have it: one look.
    fn free_in_pageblock(&self, pfn: Pfn) -> Option<u64>;

    /// Counts what the pageblock of a frame holds, and looks at each free block and at every other page. `None` where
    /// the zone does not have it whole.
    fn pageblock(&self, pfn: Pfn) -> Option<Pageblock>;
}

impl dyn View + '_ {
    /// Returns the block with the largest `key` among the first `most` of a list; of equals the first.
    pub fn best<K: Ord>(
        &self,
        (order, kind): (Order, Migratetype),
        most: usize,
        mut key: impl FnMut(Pfn) -> K,
    ) -> Option<Pfn> {
        let (mut best, mut left) = (None::<(K, Pfn)>, most);
        if most > 0 {
            self.each(order, kind, &mut |pfn| {
                let of_this = key(pfn);
                if best.as_ref().is_none_or(|(of_best, _)| of_this > *of_best) {
                    best = Some((of_this, pfn));
                }
                left -= 1;
                left > 0
            });
        }
        best.map(|(_, pfn)| pfn)
    }
}

/// A policy of one's own. `linux` is what the allocator's policy decides; a method that is not written returns it.
pub trait Decide {
    /// Names the CPU that asks for memory until the next call, and its request's flags.
    #[inline(always)]
    fn on(&mut self, _cpu: CpuId, _gfp: Gfp) {}

    /// Whether a request that may use CMA tries it before memory of its own type. Asked for such requests only.
    #[inline(always)]
    fn cma_first(&mut self, _zone: &dyn View, _want: Want, linux: bool) -> bool {
        linux
    }

    /// Whether a request goes past the free blocks of its own type, to CMA and to a fallback. Not asked where placement is
    /// packed.
    #[inline(always)]
    fn passes(&mut self, _zone: &dyn View, _want: Want) -> bool {
        false
    }

    /// Which block of the requested type serves, of the requested order or larger (`__rmqueue_smallest`). Not asked
    /// where placement is packed.
    #[inline(always)]
    fn serve(&mut self, _zone: &dyn View, _want: Want, linux: Block) -> Pfn {
        linux.pfn
    }

    /// Which block of another type serves, and what becomes of its pageblock (`__rmqueue_claim`, `__rmqueue_steal`);
    /// `None` if none does.
    #[inline(always)]
    fn fallback(
        &mut self,
        _zone: &dyn View,
        _want: Want,
        linux: Option<Fallback>,
    ) -> Option<Fallback> {
        linux
    }

    /// What becomes of the pageblock of a block that Linux looks at for a fallback, and whose order is large enough for
    /// a claim (`try_to_claim_block`). [`Outcome::ClaimWhole`] is no answer.
    #[inline(always)]
    fn claim(&mut self, _want: Want, _block: Block, _holds: Pageblock, linux: Outcome) -> Outcome {
        linux
    }

    /// By how many pages a fallback raises the zone's watermarks until kswapd has reclaimed them (`boost_watermark`); at
    /// most an eighth of the zone in all.
    #[inline(always)]
    fn boost(&mut self, _zone: &dyn View, _kind: Migratetype, linux: u64) -> u64 {
        linux
    }

    /// Where a freed block goes after it has merged (`__free_one_page`). The zone does not show it as free yet. Not
    /// asked where placement is packed.
    #[inline(always)]
    fn freed_to(&mut self, _zone: &dyn View, _block: Block, linux: End) -> End {
        linux
    }

    /// Where a block goes that a CPU frees and has a list for (`free_unref_page_commit`). The zone shows it as allocated.
    /// Not asked where placement is packed.
    #[inline(always)]
    fn keep(&mut self, _zone: &dyn View, _block: Block, linux: Kept) -> Kept {
        linux
    }

    /// Whose lists a block goes to that a CPU (`linux`) frees and has a list for. Asked before [`keep`](Self::keep), where
    /// one owner acts for all CPUs ([`Allocator`](crate::alloc::Allocator)), and not where placement is packed. The zone
    /// shows the block as allocated.
    #[inline(always)]
    fn owner(&mut self, _zone: &dyn View, _block: Block, linux: CpuId) -> CpuId {
        linux
    }

    /// How many blocks a refill of a CPU list takes (`nr_pcp_alloc`): at least one, and at most as many as the lists may
    /// ever hold.
    #[inline(always)]
    fn refill(&mut self, _lists: CpuLists, linux: u32) -> u32 {
        linux
    }

    /// How many pages the lists of a CPU give back (`nr_pcp_free`), asked when they hold as many as they may, or were
    /// freed to in a long run: at most what they hold.
    #[inline(always)]
    fn drain(&mut self, _lists: CpuLists, linux: u32) -> u32 {
        linux
    }

    /// What is emptied next in the background; `None`: nothing. Linux empties nothing. Asked where the embedder has a thread
    /// for it ([`Zone::evacuation`](crate::zone::Zone::evacuation)), in the simulation when kcompactd has nothing to do.
    #[inline(always)]
    fn evacuate(&mut self, _zone: &dyn View) -> Option<Evacuation> {
        None
    }

    /// Called when an answer was refused.
    #[inline(always)]
    fn refused(&mut self, _decision: Decision) {}
}

/// What the switches decide.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

impl Decide for Linux {}

impl<D: Decide + ?Sized> Decide for &mut D {
    #[inline(always)]
    fn passes(&mut self, zone: &dyn View, want: Want) -> bool {
        (**self).passes(zone, want)
    }
    #[inline(always)]
    fn on(&mut self, cpu: CpuId, gfp: Gfp) {
        (**self).on(cpu, gfp);
    }
    #[inline(always)]
    fn cma_first(&mut self, zone: &dyn View, want: Want, linux: bool) -> bool {
        (**self).cma_first(zone, want, linux)
    }
    #[inline(always)]
    fn owner(&mut self, zone: &dyn View, block: Block, linux: CpuId) -> CpuId {
        (**self).owner(zone, block, linux)
    }
    #[inline(always)]
    fn serve(&mut self, zone: &dyn View, want: Want, linux: Block) -> Pfn {
        (**self).serve(zone, want, linux)
    }
    #[inline(always)]
    fn fallback(
        &mut self,
        zone: &dyn View,
        want: Want,
        linux: Option<Fallback>,
    ) -> Option<Fallback> {
        (**self).fallback(zone, want, linux)
    }
    #[inline(always)]
    fn claim(&mut self, want: Want, block: Block, holds: Pageblock, linux: Outcome) -> Outcome {
        (**self).claim(want, block, holds, linux)
    }
    #[inline(always)]
    fn boost(&mut self, zone: &dyn View, kind: Migratetype, linux: u64) -> u64 {
        (**self).boost(zone, kind, linux)
    }
    #[inline(always)]
    fn freed_to(&mut self, zone: &dyn View, block: Block, linux: End) -> End {
        (**self).freed_to(zone, block, linux)
    }
    #[inline(always)]
    fn keep(&mut self, zone: &dyn View, block: Block, linux: Kept) -> Kept {
        (**self).keep(zone, block, linux)
    }
    #[inline(always)]
    fn refill(&mut self, lists: CpuLists, linux: u32) -> u32 {
        (**self).refill(lists, linux)
    }
    #[inline(always)]
    fn drain(&mut self, lists: CpuLists, linux: u32) -> u32 {
        (**self).drain(lists, linux)
    }
    #[inline(always)]
    fn evacuate(&mut self, zone: &dyn View) -> Option<Evacuation> {
        (**self).evacuate(zone)
    }
    #[inline(always)]
    fn refused(&mut self, decision: Decision) {
        (**self).refused(decision);
    }
}
