//! The invariants of a zone: verifies lists, page map and counters against each other.

use crate::policy::source::PolicySource;
use core::fmt;

use crate::base::frame::{COSTLY_ORDER, Order, Pfn};
use crate::base::ids::CpuId;
use crate::base::mobility::{MIGRATETYPES, Migratetype};
use crate::policy::{MergeRule, Placement, Policy, SplitLarge};
use crate::table::chain::{Chain, Tag};
use crate::table::links::Links;
use crate::table::map::{FrameState, Index, PageMap};
use crate::zone::{Geometry, Zone};

/// A violated invariant and its place. Each is a defect of this crate, or of code that wrote to its tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Violation {
    /// The page map contradicts a list about one of its blocks.
    ListedOtherwise(Pfn, FrameState),
    /// The links of a list do not agree in both directions.
    BrokenLink(Pfn),
    /// A list's length is not the number of its blocks.
    Length {
        /// The order of the list.
        order: Order,
        /// Its type.
        list: Migratetype,
    },
    /// The page map has a free block, or a block on a CPU list, that is on no list.
    Unlisted(Pfn),
    /// Two blocks share a frame, or a frame belongs to no block.
    Frames(Pfn),
    /// A counter contradicts the lists.
    Counter {
        /// The counter's kernel name.
        name: &'static str,
        /// The counter's value.
        counted: u64,
        /// The value according to the lists.
        listed: u64,
    },
    /// Two free buddies that should have merged.
    Unmerged(Pfn, Order),
    /// From 6.10: a free block is not on the list of its pageblock's type.
    WrongList(Pfn, Migratetype),
    /// The count of this CPU's cache differs from the pages on its lists.
    CacheCount(CpuId),
    /// The tables of packed placement contradict the frames of the pageblock that starts here.
    Packing(Pfn),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ListedOtherwise(pfn, state) => write!(f, "frame {pfn} is listed, but {state:?}"),
            Self::BrokenLink(pfn) => write!(f, "the links at frame {pfn} do not agree"),
            Self::Length { order, list } => {
                write!(f, "the length of the {list} list of order {order} is wrong")
            }
            Self::Unlisted(pfn) => write!(f, "the block at frame {pfn} is on no list"),
            Self::Frames(pfn) => write!(f, "frame {pfn} is in two blocks, or in none"),
            Self::Counter { name, counted, listed } => {
                write!(f, "{name} is {counted}, but the lists hold {listed}")
            }
            Self::Unmerged(pfn, order) => {
                write!(f, "the free block at {pfn} of order {order} has a free buddy")
            }
            Self::WrongList(pfn, list) => {
                write!(f, "the free block at {pfn} is on the {list} list")
            }
            Self::Packing(pfn) => write!(f, "the pageblock at {pfn} is not packed as it says"),
            Self::CacheCount(cache) => {
                write!(f, "the page count of the cache of CPU {cache} is wrong")
            }
        }
    }
}

impl core::error::Error for Violation {}

/// Walks a list in both directions, and calls `visit` for every block. Returns its length.
pub(crate) fn walk(
    map: &PageMap<'_, impl PolicySource>,
    links: &impl Links,
    chain: &Chain,
    tag: Tag,
    mut visit: impl FnMut(Index) -> Result<(), Violation>,
) -> Result<u32, Violation> {
    let (mut length, mut before) = (0, None);
    for i in chain.iter(links) {
        let prev = links.prev(i) ^ tag;
        if before.is_some_and(|b| b != prev) || length > map.frames() {
            return Err(Violation::BrokenLink(map.pfn(i)));
        }
        visit(i)?;
        before = Some(i);
        length += 1;
    }
    match (before, chain.tail()) {
        (b, t) if b == t => Ok(length),
        (b, t) => Err(Violation::BrokenLink(map.pfn(b.or(t).unwrap_or(0)))),
    }
}

impl<P: PolicySource> Zone<'_, P> {
    /// Verifies lists, page map and counters against each other. Takes time linear in the zone's number of frames.
    ///
    /// # Errors
    /// The first [`Violation`] found.
    pub fn check(&self) -> Result<(), Violation> {
        let mut by_type = [0; MIGRATETYPES];
        let (mut blocks, mut in_blocks) = (0, 0);
        for list in Migratetype::ALL {
            for order in 0..=self.geometry.max_order {
                let length = self.check_list(order, list)?;
                if length != self.area.list(order, list).len()
                    || (length > 0) != (self.area.smallest(order, list) == Some(order))
                {
                    return Err(Violation::Length { order, list });
                }
                blocks += u64::from(length);
                by_type[list as usize] += u64::from(length) << order;
                if self.is_whole_block(order) && list != Migratetype::Isolate {
                    in_blocks += u64::from(length) << order;
                }
            }
        }
        let free: u64 = by_type.iter().sum();
        let counters = [
            ("nr_free_pages", self.free_pages, free - by_type[Migratetype::Isolate as usize]),
            ("nr_free_pages_blocks", self.free_in_blocks, in_blocks),
            (
                "nr_free_cma",
                self.free_pages_of(Migratetype::Cma),
                by_type[Migratetype::Cma as usize],
            ),
        ];
        for (name, counted, listed) in counters {
            if counted != listed {
                return Err(Violation::Counter { name, counted, listed });
            }
        }
        if by_type != self.free_by_type {
            let at = (0..MIGRATETYPES).find(|&t| by_type[t] != self.free_by_type[t]).unwrap_or(0);
            let (counted, listed) = (self.free_by_type[at], by_type[at]);
            return Err(Violation::Counter { name: Migratetype::ALL[at].name(), counted, listed });
        }
        self.packing.check(&self.map).map_err(Violation::Packing)?;
        let found = self.check_frames()?;
        if found == blocks { Ok(()) } else { Err(Violation::Unlisted(self.span.start)) }
    }

    /// Verifies one list, and returns its length. Free blocks that packed placement keeps on no list are counted.
    fn check_list(&self, order: Order, list: Migratetype) -> Result<u32, Violation> {
        if let Some(blocks) = self.packed_blocks(order, list) {
            return Ok(blocks.count() as u32);
        }
        let chain = self.area.list(order, list).chain();
        let listed = |i| {
            let state = self.map.state(i);
            if state == (FrameState::Free { order, list }) {
                Ok(())
            } else {
                Err(Violation::ListedOtherwise(self.map.pfn(i), state))
            }
        };
        match self.is_packed() {
            true => walk(&self.map, self.packing.links(), chain, 0, listed),
            false => walk(&self.map, &self.map, chain, 0, listed),
        }
    }

    /// Verifies that blocks tile the zone. Returns the number of free blocks.
    fn check_frames(&self) -> Result<u64, Violation> {
        let mut free = 0;
        let mut at = 0;
        while at < self.map.frames() {
            let pfn = self.map.pfn(at);
            let state = self.map.state(at);
            let inside = self.span.contains(pfn);
            let (FrameState::Free { order, .. }
            | FrameState::CpuList { order, .. }
            | FrameState::Allocated { order, .. }) = state
            else {
                let lone = match state {
                    FrameState::Hole => true,
                    FrameState::Reserved => inside,
                    _ => false,
                };
                if !lone {
                    return Err(Violation::Frames(pfn));
                }
                at += 1;
                continue;
            };
            let tails = at + 1..at + (1 << order);
            let aligned = pfn.is_aligned(order) && order <= self.geometry.max_order;
            if !inside || !aligned || tails.end > self.map.frames() {
                return Err(Violation::Frames(pfn));
            }
            if let Some(tail) = tails.clone().find(|&t| self.map.state(t) != FrameState::Tail) {
                return Err(Violation::Frames(self.map.pfn(tail)));
            }
            if let FrameState::Free { list, .. } = state {
                free += 1;
                self.check_free(at, order, list)?;
            }
            at = tails.end;
        }
        Ok(free)
    }

    fn check_free(&self, i: Index, order: Order, list: Migratetype) -> Result<(), Violation> {
        let pfn = self.map.pfn(i);
        if self.lists_are_strict() {
            let blocks = 1 << order.saturating_sub(self.geometry.pageblock_order);
            let mut starts = (0..blocks).map(|b| i + (b << self.geometry.pageblock_order));
            if starts.any(|start| self.map.block_type(start) != list) {
                return Err(Violation::WrongList(pfn, list));
            }
        }
        let buddy = i ^ (1 << order);
        let free = order < self.geometry.max_order && self.map.free_list(buddy, order).is_some();
        // Different types at the time of the free may have kept blocks of the pageblock order and larger apart.
        let apart = self.is_whole_block(order) && self.policy.merge_rule != MergeRule::Free;
        if !free || apart { Ok(()) } else { Err(Violation::Unmerged(pfn, order)) }
    }

    /// Returns whether every free page must be on the list of its pageblock's type.
    fn lists_are_strict(&self) -> bool {
        self.keeps_lists() && (self.isolated_blocks == 0 || self.keeps_isolated_lists())
    }

    /// [`lists_are_strict`](Self::lists_are_strict) while no pageblock is isolated.
    pub(crate) fn keeps_lists(&self) -> bool {
        keeps_lists(&self.policy, self.geometry)
    }

    /// Returns whether isolation keeps lists and pageblock types equal.
    pub(crate) fn keeps_isolated_lists(&self) -> bool {
        keeps_isolated_lists(&self.policy, self.geometry)
    }
}

/// 6.10 to 6.18 retype only the first pageblock of a buddy, but for packed placement.
fn keeps_lists(policy: &Policy, geometry: Geometry) -> bool {
    let small_buddies = geometry.max_order <= geometry.pageblock_order + 1
        || policy.merge_rule == MergeRule::RetypeAll
        || policy.placement == Placement::Packed;
    policy.list_type_strict() && small_buddies
}

/// 6.10 and CPU lists free a block larger than a pageblock as a whole, although one of its pageblocks may be
/// isolated.
fn keeps_isolated_lists(policy: &Policy, geometry: Geometry) -> bool {
    policy.split_large == SplitLarge::On && geometry.pageblock_order >= COSTLY_ORDER
}
