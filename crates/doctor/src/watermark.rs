//! The arithmetic of a failed request, zone by zone: the free memory, the part that had to stay free, and the blocks it could have
//! used. Watermarks and reserves are the allocator's own ([`pageblock::watermark`]), in pages.

use pageblock::alloc_flags::AllocFlags;
use pageblock::frame::{ORDER_LIMIT, Order};
use pageblock::layout::ZoneKind;
use pageblock::mobility::Migratetype;
use pageblock::policy::{Policy, WmarkCheck};
use pageblock::request::Gfp;
use pageblock::reserve::takes_highatomic_last;
use pageblock::slowpath::{Caller, Demand, reserve_flags, slow_alloc_flags};
use pageblock::watermark::{
    Checks, counts_highatomic, enough_above_each_order, finds_highatomic, forgives_boost,
    reduced_mark,
};
use pageblock::zone::Geometry;
use serde::Serialize;

use crate::log::{FreeList, MemInfo, Zone, kind_name};

/// A zone as a request sees it. Sizes are kB.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Check {
    /// The node.
    pub node: u32,
    /// The zone.
    #[serde(serialize_with = "kind_name")]
    pub kind: ZoneKind,
    /// The lines of the watermarks and of the free lists.
    pub lines: Vec<usize>,
    /// Free memory; `None` if it was not printed.
    pub free: Option<u64>,
    /// The free memory that the request may not use: CMA, and highatomic reserves.
    pub unusable_cma: u64,
    /// Free memory in highatomic pageblocks, which the request may not use; a lower bound if the kernel does not print it.
    pub unusable_highatomic: u64,
    /// The further memory that the highatomic reserve can have, if the kernel does not print its size.
    pub hidden_highatomic: u64,
    /// The watermark for this request, rounded to whole pages like the kernel's; `None` if it was not printed.
    pub mark: Option<u64>,
    /// The part of the min watermark that is a boost, which reclaim lowers again; `None` if it is not known.
    pub boost: Option<u64>,
    /// Whether the boost is a lower bound, because it was not printed.
    pub is_boost_inferred: bool,
    /// Whether the request fits only without the boost.
    pub fits_without_boost: bool,
    /// Pages that must be left for requests that can only use this zone (`lowmem_reserve`); `None` if they were not printed.
    pub reserve: Option<u64>,
    /// Free blocks of the order or larger that the request may use; `None` if the lists were not printed.
    pub blocks: Option<u64>,
    /// Free blocks of the order or larger that it may not use: those of CMA and of the highatomic reserve.
    pub other_blocks: u64,
    /// Whether some of these are CMA's.
    pub other_is_cma: bool,
    /// The verdict.
    pub verdict: Verdict,
}

/// Why a zone did not serve a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Free memory is not above the watermark.
    Below,
    /// It is not above the watermark once CMA is left out.
    BelowWithoutCma,
    /// It is not above the watermark once the highatomic reserve is left out.
    BelowWithoutHighatomic,
    /// There is enough, but no block is large enough.
    NoBlock,
    /// There is enough, but the large blocks are CMA's or reserved.
    OtherBlocks,
    /// A block is free, but the watermark of the order is not met (per-order walk up to 4.3).
    TooFewLarge,
    /// The request fits, but free memory is not above the high watermark. The last attempt before an OOM kill, which checks
    /// whether another kill freed memory, requires that.
    BelowHigh,
    /// The request fits.
    Fits,
    /// The report does not tell.
    Unknown,
}

impl Check {
    /// Returns the free memory that the request needed: the watermark and the reserve, as far as they were printed.
    #[must_use]
    pub fn needed(&self) -> Option<u64> {
        Some(self.mark? + self.reserve.unwrap_or(0))
    }
}

/// A request as the zones of a kernel see it.
#[derive(Clone, Copy)]
pub struct Request<'p> {
    policy: &'p Policy,
    order: u32,
    gfp: Gfp,
    /// The flags of the last attempt.
    flags: AllocFlags,
    /// Whether it ignores watermarks.
    is_unbound: bool,
    /// Whether the OOM killer was called for it.
    is_of_oom: bool,
}

impl<'p> Request<'p> {
    /// Returns a request for a block of an order with these flags, of a task without priority.
    #[must_use]
    pub fn new(policy: &'p Policy, order: u32, gfp: Gfp) -> Self {
        let Geometry { max_order, pageblock_order, .. } = Geometry::default();
        let migratetype = gfp.migratetype().unwrap_or(Migratetype::Unmovable);
        let demand =
            Demand { gfp, order: as_order(order), migratetype, max_order, pageblock_order };
        let caller = Caller::default();
        let reserves = reserve_flags(policy, gfp, &caller);
        let flags = slow_alloc_flags(policy, &demand, &caller);
        Self {
            policy,
            order,
            gfp,
            flags,
            is_unbound: reserves == Some(AllocFlags::NO_WATERMARKS),
            is_of_oom: false,
        }
    }

    /// Sets whether the OOM killer was called for the request.
    #[must_use]
    pub const fn of_oom(self, is_of_oom: bool) -> Self {
        Self { is_of_oom, ..self }
    }

    /// Checks every zone that the request may use, the highest first. `node`s that are not allowed are left out.
    #[must_use]
    pub fn checks(&self, memory: &MemInfo, allowed: impl Fn(u32) -> bool) -> Vec<Check> {
        let highest = self.gfp.highest_zone();
        let zones = memory.zones.iter().filter(|zone| zone.kind <= highest && allowed(zone.node));
        let mut checks: Vec<Check> = zones.map(|zone| self.check(memory, zone)).collect();
        checks.sort_by_key(|check| (check.node, std::cmp::Reverse(check.kind)));
        checks
    }

    fn check(&self, memory: &MemInfo, zone: &Zone) -> Check {
        let page = memory.page_kb();
        let usable = |list: &&FreeList| self.may_use(list);
        let large = |list: &&FreeList| list.block_kb >= page << self.order;
        let blocks = (!zone.lists.is_empty())
            .then(|| zone.lists.iter().filter(large).filter(usable).map(|list| list.blocks).sum());
        let all: u64 = zone.lists.iter().filter(large).map(|list| list.blocks).sum();
        let boost = zone.known_boost().unwrap_or(0);
        let order = as_order(self.order);
        let forgiven = match forgives_boost(Checks::of(self.policy), order, self.flags, self.gfp) {
            true => boost,
            false => 0,
        };
        let mark = |boost: u64| Some(self.mark(zone.min?.saturating_sub(boost) / page) * page);
        let mut check = Check {
            node: zone.node,
            kind: zone.kind,
            lines: zone.line.into_iter().chain(zone.list_line).collect(),
            free: zone.free.or(zone.listed),
            unusable_cma: match self.flags.has(AllocFlags::CMA) {
                true => 0,
                false => zone.free_cma.unwrap_or(0),
            },
            unusable_highatomic: match self.counts_highatomic() {
                true => 0,
                false => zone.highatomic().unwrap_or_else(|| listed_highatomic(zone)),
            },
            hidden_highatomic: self.hidden_reserve(zone),
            mark: mark(forgiven),
            boost: zone.known_boost(),
            is_boost_inferred: zone.boost.is_none() && zone.inferred_boost.is_some(),
            fits_without_boost: false,
            reserve: reserve(memory, zone, self.gfp.highest_zone()).map(|pages| pages * page),
            blocks,
            other_blocks: all - blocks.unwrap_or(0),
            other_is_cma: zone.lists.iter().filter(large).filter(|list| !usable(list)).any(is_cma),
            verdict: Verdict::Unknown,
        };
        check.verdict = self.judge(zone, &check, check.mark, page);
        if self.is_of_oom && check.verdict == Verdict::Fits && is_below_high(zone, &check) {
            check.verdict = Verdict::BelowHigh;
        }
        if boost > 0 && zone.min.is_some() && check.verdict != Verdict::Fits {
            let unboosted = self.judge(zone, &check, mark(boost), page);
            check.fits_without_boost = unboosted == Verdict::Fits;
        }
        check
    }

    /// Returns the verdict for a watermark of `mark` kB, with pages of `page` kB.
    fn judge(&self, zone: &Zone, check: &Check, mark: Option<u64>, page: u64) -> Verdict {
        let (Some(free), Some(mark)) = (check.free, mark) else {
            return match check.blocks {
                Some(0) if check.other_blocks > 0 => Verdict::OtherBlocks,
                Some(0) if self.order > 0 => Verdict::NoBlock,
                _ => Verdict::Unknown,
            };
        };
        let (free, mark) = (free / page, mark / page);
        // The rest of the requested block does not count as free.
        let rest = (1 << self.order) - 1;
        let needed = mark + check.reserve.unwrap_or(0) / page;
        let above = |free: u64| free > needed + rest;
        let (cma, highatomic) = (check.unusable_cma / page, check.unusable_highatomic / page);
        let usable = free.saturating_sub(cma).saturating_sub(highatomic);
        if !self.is_unbound && !above(usable) {
            return match () {
                () if above(free.saturating_sub(highatomic)) => Verdict::BelowWithoutCma,
                () if above(free) && highatomic > 0 => Verdict::BelowWithoutHighatomic,
                () => Verdict::Below,
            };
        }
        // A missing number may be the reserve, which the zone then lacks.
        let fits = match check.reserve {
            None if !self.is_unbound => Verdict::Unknown,
            _ => Verdict::Fits,
        };
        let hidden = check.hidden_highatomic / page;
        match check.blocks {
            None if self.order == 0 => fits,
            None => Verdict::Unknown,
            // Reserves may be used to their end, and the end is there.
            Some(0) if self.is_unbound && usable <= rest => Verdict::Below,
            Some(_) if !self.is_unbound && !above(usable.saturating_sub(hidden)) => Verdict::Below,
            Some(0) if check.other_blocks > 0 => Verdict::OtherBlocks,
            Some(0) => Verdict::NoBlock,
            Some(_) if self.is_unbound || self.has_enough_large(zone, free - rest, mark, page) => {
                fits
            }
            Some(_) => Verdict::TooFewLarge,
        }
    }

    /// Returns the watermark that applies to the request, in pages, from the zone's watermark in pages.
    fn mark(&self, pages: u64) -> u64 {
        reduced_mark(self.policy.wmark_check, pages.cast_signed(), self.flags).cast_unsigned()
    }

    fn counts_highatomic(&self) -> bool {
        counts_highatomic(self.policy.wmark_check, self.flags)
    }

    /// Returns whether the watermark of each smaller order is met, if the kernel requires that. `free` and `mark` are pages
    /// of `page` kB.
    fn has_enough_large(&self, zone: &Zone, free: u64, mark: u64, page: u64) -> bool {
        let blocks = |order| {
            let list = zone.lists.iter().find(|list| list.block_kb == page << order);
            list.map_or(0, |list| list.blocks)
        };
        let (free, mark) = (free.cast_signed(), mark.cast_signed());
        self.policy.wmark_check != WmarkCheck::HalvePerOrder
            || enough_above_each_order(as_order(self.order), free, mark, blocks)
    }

    /// Returns the largest size in kB of the highatomic reserve beyond the blocks on lists, if the kernel does not print it
    /// (4.4 to 5.7, and some later ones) and the lists have such blocks: 1 % of the zone plus one pageblock in all.
    fn hidden_reserve(&self, zone: &Zone) -> u64 {
        let is_reserved = |list: &FreeList| list.has('H');
        let is_printed = zone.highatomic().is_some();
        if is_printed || self.counts_highatomic() || !zone.lists.iter().any(is_reserved) {
            return 0;
        }
        let most =
            zone.managed.unwrap_or(0) / 100 + zone.lists.last().map_or(0, |list| list.block_kb);
        most.saturating_sub(listed_highatomic(zone))
    }

    /// Returns whether the request may use some block of a list, by its letters.
    fn may_use(&self, list: &FreeList) -> bool {
        // Before 3.8 there are no letters.
        let Some(types) = &list.types else { return list.blocks > 0 };
        let check = self.policy.wmark_check;
        types.chars().any(|letter| match letter {
            // R is the reserve of up to 4.3, the last fallback of every request.
            'U' | 'M' | 'E' | 'R' => true,
            'C' => self.flags.has(AllocFlags::CMA),
            'H' if self.order == 0 => takes_highatomic_last(check, self.flags),
            'H' => finds_highatomic(check, self.flags),
            _ => false,
        })
    }
}

/// Returns whether the free memory that a request may use is not above the zone's high watermark.
fn is_below_high(zone: &Zone, check: &Check) -> bool {
    let unusable = check.unusable_cma + check.unusable_highatomic;
    let free = zone.free.map(|free| free.saturating_sub(unusable));
    let high = zone.high.map(|high| high + check.reserve.unwrap_or(0));
    free.zip(high).is_some_and(|(free, high)| free <= high)
}

/// Returns an order that a report prints, or the largest order if no kernel has it.
fn as_order(order: u32) -> Order {
    Order::try_from(order).unwrap_or(ORDER_LIMIT).min(ORDER_LIMIT)
}

/// Returns the size in kB of the free blocks that are known to be in the highatomic reserve: those of orders without others.
fn listed_highatomic(zone: &Zone) -> u64 {
    let reserved = zone.lists.iter().filter(|list| list.types.as_deref() == Some("H"));
    reserved.map(|list| list.blocks.saturating_mul(list.block_kb)).fold(0, u64::saturating_add)
}

fn is_cma(list: &FreeList) -> bool {
    list.has('C')
}

/// Returns the pages that a request must leave in a zone for requests that can only use that zone; `None` if they were not
/// printed. In the highest zone that it may use the number is 0.
fn reserve(memory: &MemInfo, zone: &Zone, highest: ZoneKind) -> Option<u64> {
    let printed = reserve_index(memory, highest).and_then(|at| zone.lowmem_reserve.get(at));
    printed.copied().or((zone.kind == highest).then_some(0))
}

/// Returns the index in `lowmem_reserve` for requests of a zone; `None` if it is not known with which zones the kernel is
/// built.
fn reserve_index(memory: &MemInfo, highest: ZoneKind) -> Option<usize> {
    let len = memory.zones.iter().map(|zone| zone.lowmem_reserve.len()).max().filter(|&n| n > 0)?;
    let printed = |kind| match kind {
        ZoneKind::HighMem => memory.has_highmem(),
        _ => memory.zones.iter().any(|zone| zone.kind == kind),
    };
    let mut kinds = vec![ZoneKind::Normal];
    if printed(ZoneKind::HighMem) {
        kinds.push(ZoneKind::HighMem);
    }
    kinds.push(ZoneKind::Movable);
    // Zones that the kernel is built with are not all printed: those without memory are not.
    for kind in [ZoneKind::Dma, ZoneKind::Dma32] {
        if printed(kind) {
            kinds.push(kind);
        }
    }
    let highmem = printed(ZoneKind::HighMem);
    if kinds.len() < len && !kinds.contains(&ZoneKind::Dma32) && !highmem {
        kinds.push(ZoneKind::Dma32);
    }
    // Those of devices come last.
    let len = if kinds.len() < len { len - 1 } else { len };
    if kinds.len() < len && !kinds.contains(&ZoneKind::Dma) {
        kinds.push(ZoneKind::Dma);
    }
    if kinds.len() > len && !printed(ZoneKind::Movable) {
        // Kernels before 2.6.23 have no such zone.
        kinds.retain(|&kind| kind != ZoneKind::Movable);
    }
    kinds.sort_unstable();
    if kinds.len() != len {
        return None;
    }
    let highest = if kinds.contains(&highest) { highest } else { ZoneKind::Normal };
    kinds.iter().position(|&kind| kind == highest)
}
