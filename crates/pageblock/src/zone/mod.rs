//! A zone: a range of frames with its free lists, counters and watermarks.
//!
//! The zone makes every decision about its memory and is a pure machine: no clock, no lock, no
//! randomness, no allocation. It reports what it does to an [`Observer`](crate::event::Observer).
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
//! use pageblock::FrameState;
//! use pageblock::mobility::Migratetype;
//!
//! let pfn = allocator.alloc(CpuId(0), &Request::new(3, Gfp::GFP_KERNEL), &mut ()).unwrap();
//! let zone = &allocator.zones()[0];
//! assert_eq!(zone.state(pfn), Some(FrameState::Allocated { order: 3, movable: false }));
//! assert_eq!(zone.block_type(pfn), Some(Migratetype::Unmovable));
//! assert_eq!(zone.free_list(10, Migratetype::Movable).count(), 31);
//! ```

mod asked;
mod bitmaps;
mod boost;
mod buddy;
pub mod capture;
pub(crate) mod check;
mod claim;
pub mod compaction;
pub(crate) mod contig;
mod counters;
mod fair;
pub mod fallback;
mod hotplug;
#[cfg(feature = "replay")]
mod imposed;
pub mod isolate;
mod packing;
mod range;
mod release;
pub mod reserve;
pub(crate) mod retune;
mod rmqueue;
pub(crate) mod stat;
pub mod tuning;
mod view;
pub mod watermark;

pub use crate::base::error::FrameError;
pub use crate::base::geometry::Geometry;
use crate::policy::source::{Chosen, PolicySource};
pub use counters::ZoneCounters;

use crate::base::frame::{FrameRange, Order, Pfn, pages};
use crate::base::ids::NodeId;
use crate::base::layout::{MAX_NR_ZONES, ZoneKind};
use crate::base::mobility::{MIGRATETYPES, Migratetype};
use crate::policy::{MoveTo, Placement, Policy};
use crate::table::freelist::{End, FreeArea};
use crate::table::map::{FrameState, Index, PageMap};
use crate::table::memory::{Tables, TablesLayout};
use crate::zone::capture::CaptureSlot;
use crate::zone::packing::Packing;
use crate::zone::retune::CacheTuning;
use crate::zone::stat::MaskInputs;
use crate::zone::tuning::Watermarks;

/// Whether free pages are counted in or out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Count {
    In,
    Out,
}

/// Whether free pages are in blocks of at least the pageblock order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Size {
    Whole,
    Part,
}

/// One zone. See the [module](self).
///
/// # Lifecycle
///
/// | state | reached by | what holds |
/// |---|---|---|
/// | made | `new` | no tables; it is a placeholder, or about to get tables |
/// | reserved | `attach_map` | every frame of the span is reserved, no page is free |
/// | serving | [`release`](Self::release), then `retune` | blocks tile the span; each free one is on one list and counted once |
/// | away | `share` | the zone lies behind a lock, a placeholder in its old place |
///
/// A frame goes from reserved to free (`release`, `online`), from free to allocated or to a CPU list and back, from
/// free to reserved (`offline`), and between reserved and hole. Builds with debug assertions check both ends of each
/// of these steps, and [`check`](Self::check) checks the whole.
pub struct Zone<'m, P: PolicySource = Chosen> {
    map: PageMap<'m, P>,
    area: FreeArea,
    /// Used only if placement is packed.
    packing: Packing<'m>,
    policy: P,
    geometry: Geometry,
    mobility_off: bool,
    free_pages: u64,
    free_by_type: [u64; MIGRATETYPES],
    free_in_blocks: u64,
    isolated_blocks: u32,
    /// Pages in highatomic blocks (`nr_reserved_highatomic`).
    reserved_highatomic: u64,
    counters: ZoneCounters,
    /// See [`Zone::block_looks`].
    block_looks: u64,
    mask_inputs: MaskInputs,
    /// Holes that `present` excludes, but that no frame is marked as.
    unmarked_holes: u64,
    cache_tuning: CacheTuning,
    /// See [`ring_pages`](retune::ring_pages).
    ring_pages: u32,
    /// Frames were taken from the allocator at some time, or holes filled.
    any_returned: bool,
    /// The zone's node.
    node: NodeId,
    /// The kind of zone.
    kind: ZoneKind,
    /// The zone's frames, holes included.
    span: FrameRange,
    /// Pages that exist.
    present: u64,
    /// Pages handed to the allocator, or that the setup says will be.
    managed: u64,
    /// Managed pages that are yet to be released.
    unreleased: u64,
    /// Watermarks in pages, without the boost. Each is at least the one below it.
    watermarks: Watermarks,
    /// Pages added to each watermark until kswapd has reclaimed them (`watermark_boost`).
    boost: u64,
    /// Pages kept from requests whose highest zone is the indexed one.
    lowmem_reserve: [u64; MAX_NR_ZONES],
    /// Remaining pages of this round (`NR_ALLOC_BATCH`, 3.12 to 4.7). Not maintained without a fair zone allocator.
    alloc_batch: i64,
    /// kswapd must be woken for the boost (`ZONE_BOOSTED_WATERMARK`).
    boosted: bool,
    /// The zone is below its high watermark (`ZONE_BELOW_HIGH`).
    below_high: bool,
    /// kswapd is reclaiming (`ZONE_RECLAIM_ACTIVE`).
    reclaim_active: bool,
    /// The batch of this round is spent (`ZONE_FAIR_DEPLETED`).
    fair_depleted: bool,
    /// The task that compacts this zone, and gets the block that its work frees (`task_capc`).
    capture: Option<CaptureSlot>,
}

impl<'m, P: PolicySource> Zone<'m, P> {
    /// Returns the frames that a zone's tables cover: whole blocks of the largest order.
    pub(crate) fn table_range(span: FrameRange, geometry: Geometry) -> FrameRange {
        let order = geometry.table_order();
        FrameRange { start: span.start.align_down(order), end: span.end.align_up(order) }
    }

    /// Returns the number of frames in the tables; `None` if they cannot be numbered, as the last number is the end
    /// mark of lists.
    pub(crate) fn table_frames(span: FrameRange, geometry: Geometry) -> Option<usize> {
        let frames = Self::table_range(span, geometry).len();
        usize::try_from(frames).ok().filter(|_| frames < u64::from(Index::MAX))
    }

    pub(crate) fn layout(
        layout: TablesLayout,
        span: FrameRange,
        geometry: Geometry,
        policy: &Policy,
    ) -> Option<TablesLayout> {
        let frames = Self::table_frames(span, geometry)?;
        let layout =
            PageMap::<P>::layout(layout, frames, geometry.pageblock_order, policy.placement)?;
        match policy.placement {
            Placement::Linux => Some(layout),
            Placement::Packed => Packing::layout(layout, frames, geometry.pageblock_order),
        }
    }

    /// Returns a zone without memory and without tables.
    pub(crate) fn new(spec: &crate::base::layout::ZoneSpec, policy: P, geometry: Geometry) -> Self {
        let mut zone = Self {
            map: PageMap::EMPTY,
            area: FreeArea::EMPTY,
            packing: Packing::off(),
            policy,
            geometry,
            mobility_off: false,
            free_pages: 0,
            free_by_type: [0; MIGRATETYPES],
            free_in_blocks: 0,
            isolated_blocks: 0,
            reserved_highatomic: 0,
            counters: ZoneCounters::default(),
            block_looks: 0,
            mask_inputs: MaskInputs::default(),
            unmarked_holes: spec.span.len().saturating_sub(spec.present),
            cache_tuning: CacheTuning::default(),
            ring_pages: 0,
            any_returned: false,
            node: spec.node,
            kind: spec.kind,
            span: spec.span,
            present: spec.present,
            managed: spec.managed,
            unreleased: spec.managed,
            watermarks: Watermarks::default(),
            boost: 0,
            lowmem_reserve: [0; MAX_NR_ZONES],
            alloc_batch: 0,
            boosted: false,
            below_high: false,
            reclaim_active: false,
            fair_depleted: false,
            capture: None,
        };
        zone.area.watch.set_strict(zone.keeps_lists());
        zone
    }

    /// Returns a zone that takes this one's place and is never used.
    pub(crate) fn placeholder(&self) -> Self {
        let &Self { node, kind, span, present, managed, .. } = self;
        let spec = crate::base::layout::ZoneSpec { node, kind, span, present, managed };
        Self::new(&spec, self.policy, self.geometry)
    }

    /// Attaches the zone's tables, with every frame reserved; `None` if the tables do not fit. CPU lists have
    /// places for `ring_pages` pages.
    pub(crate) fn attach_map(&mut self, tables: &mut Tables<'m>, ring_pages: u32) -> Option<()> {
        self.ring_pages = ring_pages;
        let range = Self::table_range(self.span, self.geometry);
        let frames = Self::table_frames(self.span, self.geometry)?;
        let order = self.geometry.pageblock_order;
        self.map = PageMap::new(tables, range.start, frames, order, self.policy.placement)?;
        if self.is_packed() {
            self.packing = Packing::new(tables, frames, order)?;
        }
        self.map.fill(self.span, FrameState::Reserved);
        Some(())
    }

    /// Counts that the zone's lock would be taken.
    pub(crate) fn count_lock(&mut self) {
        self.counters.lock_acquired += 1;
    }

    /// Notes whether kswapd reclaims in the zone.
    pub(crate) fn set_reclaim_active(&mut self, active: bool) {
        self.reclaim_active = active;
    }

    /// Returns the first block of the smallest order that serves a request from one list.
    #[cfg(feature = "replay")]
    pub(crate) fn smallest(&self, order: Order, list: Migratetype) -> Option<(Index, Order)> {
        if self.is_packed() {
            return self.next_packed(order, list);
        }
        let found = self.area.smallest(order, list)?;
        Some((self.area.list(found, list).head()?, found))
    }

    /// Sets the skip hint of the pageblock that contains a frame (`set_pageblock_skip`).
    ///
    /// # Errors
    /// [`FrameError::Foreign`].
    pub fn set_skip(&mut self, pfn: Pfn, skip: bool) -> Result<(), FrameError> {
        let i = self.map.index(pfn).ok_or(FrameError::Foreign(pfn))?;
        self.map.set_skip(i, skip);
        Ok(())
    }

    /// Returns whether requests are served from the fullest pageblocks.
    pub(crate) fn is_packed(&self) -> bool {
        self.policy.placement == Placement::Packed
    }

    /// Must be called after the type of a frame's pageblock has changed.
    pub(crate) fn note_retyped(&mut self, i: Index) {
        if self.is_packed() {
            self.packing.note_retyped(&self.map, i);
        }
    }

    pub(crate) fn is_whole_block(&self, order: Order) -> bool {
        order >= self.geometry.pageblock_order
    }

    fn account(&mut self, count: Count, order: Order, mt: Migratetype) {
        let size = if self.is_whole_block(order) { Size::Whole } else { Size::Part };
        self.account_pages(count, pages(order), mt, size);
    }

    /// Counts pages of a list in or out.
    pub(crate) fn account_pages(&mut self, count: Count, n: u64, mt: Migratetype, size: Size) {
        let n = if count == Count::In { n } else { n.wrapping_neg() };
        let sign = |counter: &mut u64| *counter = counter.wrapping_add(n);
        sign(&mut self.free_by_type[mt as usize]);
        debug_assert!(
            self.free_by_type[mt as usize] <= u64::from(self.map.frames()),
            "more pages are counted than there are, or less than none"
        );
        if mt != Migratetype::Isolate {
            sign(&mut self.free_pages);
            if size == Size::Whole {
                sign(&mut self.free_in_blocks);
            }
        }
    }

    /// Puts a block on a free list.
    pub(crate) fn insert(&mut self, i: Index, order: Order, list: Migratetype, end: End) {
        self.link(i, order, list, end);
        self.account(Count::In, order, list);
    }

    /// Removes a free block from its list. The caller sets the new state of its first frame.
    pub(crate) fn remove(&mut self, i: Index, order: Order, list: Migratetype) {
        self.unlink(i, order, list);
        self.account(Count::Out, order, list);
    }

    /// Returns whether a block is aligned, inside the zone, and on no list.
    fn may_be_listed(&self, i: Index, order: Order) -> bool {
        let frames = self.map.frames();
        order <= self.geometry.max_order
            && i % (1 << order) == 0
            && i + (1 << order) <= frames
            && [i, i + (1 << order) - 1].iter().all(|&at| match self.map.state(at) {
                FrameState::Tail => true,
                FrameState::CpuList { .. } => self.map.has_bits(),
                _ => self.is_packed() && at == i,
            })
    }

    /// Puts a block on a free list. The caller counts its pages.
    pub(crate) fn link(&mut self, i: Index, order: Order, list: Migratetype, end: End) {
        debug_assert!(
            self.may_be_listed(i, order),
            "a block is put on a list that cannot be on one"
        );
        if self.is_packed() {
            return self.link_packed(i, order, list, end);
        }
        self.map.set_byte(i, FrameState::Free { order, list });
        match end {
            End::Head => self.area.push_head(&self.map, i, order, list),
            End::Tail => self.area.push_tail(&self.map, i, order, list),
        }
    }

    #[inline(never)]
    fn link_packed(&mut self, i: Index, order: Order, list: Migratetype, end: End) {
        let state = FrameState::Free { order, list };
        if self.is_whole_block(order) {
            self.map.set_whole(i, state);
        } else {
            self.map.set(i, state);
        }
        self.area.watch.one(&self.map, i, list);
        self.packing.insert(&self.map, &mut self.area, i, order, list, end);
    }

    /// Takes a free block off a list whose pages are taken into account otherwise.
    pub(crate) fn unlink(&mut self, i: Index, order: Order, list: Migratetype) {
        debug_assert_eq!(self.map.free_list(i, order), Some(list), "a block leaves another's list");
        if self.is_packed() {
            self.area.watch.one(&self.map, i, list);
            self.packing.remove(&self.map, &mut self.area, i, order, list);
            return;
        }
        self.area.remove(&self.map, i, order, list);
    }

    /// Moves a free block to the list of another type (`move_to_free_list`).
    pub(crate) fn move_to_list(
        &mut self,
        i: Index,
        order: Order,
        from: Migratetype,
        to: Migratetype,
    ) {
        let end = match self.policy.move_to {
            MoveTo::Head => End::Head,
            MoveTo::Tail => End::Tail,
        };
        self.account(Count::Out, order, from);
        self.map.set(i, FrameState::Free { order, list: to });
        if self.is_packed() {
            self.area.watch.change(&self.map, i, [from, to]);
            self.packing.remove(&self.map, &mut self.area, i, order, from);
            self.packing.insert(&self.map, &mut self.area, i, order, to, end);
        } else {
            self.area.change(&self.map, i, order, [from, to], end);
        }
        self.account(Count::In, order, to);
    }

    /// Must be called once pageblocks have the type of the lists to which their free pages were moved.
    pub(crate) fn settle(&mut self, frames: core::ops::Range<Index>) {
        self.area.watch.settle(&self.map, frames);
    }

    /// Must be called when the types of a list and of a pageblock come to differ although the policy keeps them
    /// equal.
    pub(crate) fn exempt_lists(&mut self) {
        self.area.watch.set_strict(false);
    }

    /// Changes the type of a pageblock, and moves its free pages to the lists of that type. Returns the number of
    /// pages moved.
    pub(crate) fn retype_block(&mut self, i: Index, to: Migratetype) -> u64 {
        let moved = self.move_freepages_block(i, to);
        self.set_block_type(i, to);
        let start = self.pageblock_of(i);
        self.settle(start..start + (1 << self.geometry.pageblock_order));
        debug_assert_eq!(self.map.block_type(i), to, "the pageblock kept its type");
        moved
    }

    /// Sets the type of a pageblock, which ends its isolation (`set_pageblock_migratetype`).
    pub(crate) fn set_block_type(&mut self, i: Index, mt: Migratetype) {
        let was = u32::from(self.map.block_type(i) == Migratetype::Isolate);
        self.isolated_blocks = self.isolated_blocks.saturating_sub(was);
        self.map.set_block_type(i, mt);
        self.note_retyped(i);
    }

    /// Sets the type of every pageblock of a block (`change_pageblock_range`).
    pub(crate) fn set_block_types(&mut self, i: Index, order: Order, mt: Migratetype) {
        let blocks = 1 << order.saturating_sub(self.geometry.pageblock_order);
        for block in 0..blocks {
            self.set_block_type(i + (block << self.geometry.pageblock_order), mt);
        }
    }
}
