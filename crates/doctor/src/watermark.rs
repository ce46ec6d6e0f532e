//! The arithmetic of a failed request, zone by zone (`__zone_watermark_ok`): what was free, what had to stay, and
//! which free blocks it could have used.

use serde::Serialize;

use crate::gfp::{Flags, Version};
use crate::log::{FreeList, MemInfo, Zone, ZoneKind};

/// A zone as a request sees it. Sizes are kB.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Check {
    /// The node.
    pub node: u32,
    /// The zone.
    pub kind: ZoneKind,
    /// The lines that say so: of the watermarks, and of the free lists.
    pub lines: Vec<usize>,
    /// Free memory; `None` if it was not printed.
    pub free: Option<u64>,
    /// What of it the request may not use: CMA, and highatomic reserves.
    pub unusable_cma: u64,
    /// Free memory in highatomic pageblocks, which the request may not use.
    pub unusable_highatomic: u64,
    /// What the watermark asks of this request, in whole pages as the kernel reckons; `None` if it was not printed.
    pub mark: Option<u64>,
    /// What of the min watermark is a boost, which reclaim lowers again; `None` if it was not printed.
    pub boost: Option<u64>,
    /// Whether the request fits once the boost is gone, and not before.
    pub fits_without_boost: bool,
    /// What must be left for requests that can use nothing else (`lowmem_reserve`); `None` if it was not printed.
    pub reserve: Option<u64>,
    /// Free blocks of the order or larger that the request may use; `None` if the lists were not printed.
    pub blocks: Option<u64>,
    /// Free blocks of the order or larger that it may not use: of CMA, and of the highatomic reserve.
    pub other_blocks: u64,
    /// Whether some of these are CMA's.
    pub other_is_cma: bool,
    /// What follows.
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
    /// There is a block, but the watermark of the order is not met (per-order walk up to 4.3).
    TooFewLarge,
    /// The request fits.
    Fits,
    /// What was printed does not tell.
    Unknown,
}

impl Check {
    /// Returns what the request needed: the watermark and the reserve, as far as it was printed.
    #[must_use]
    pub fn needed(&self) -> Option<u64> {
        Some(self.mark? + self.reserve.unwrap_or(0))
    }
}

/// Checks every zone that the request may use, the highest first. `node`s that are not allowed are left out.
#[must_use]
pub fn checks(
    memory: &MemInfo,
    order: u32,
    flags: Flags,
    version: Option<Version>,
    allowed: impl Fn(u32) -> bool,
) -> Vec<Check> {
    let highest = flags.highest_zone();
    let zones = memory.zones.iter().filter(|zone| zone.kind <= highest && allowed(zone.node));
    let mut checks: Vec<Check> =
        zones.map(|zone| check(memory, zone, order, flags, version)).collect();
    checks.sort_by_key(|check| (check.node, std::cmp::Reverse(check.kind)));
    checks
}

fn check(
    memory: &MemInfo,
    zone: &Zone,
    order: u32,
    flags: Flags,
    version: Option<Version>,
) -> Check {
    let page = memory.page_kb();
    let unusable_cma = if flags.movable { 0 } else { zone.free_cma.unwrap_or(0) };
    let printed = zone.free_highatomic.or(zone.reserved_highatomic);
    let unusable_highatomic = if flags.harder { 0 } else { printed.unwrap_or(0) };
    let usable = |list: &&FreeList| may_use(list, order, flags, version);
    let large = |list: &&FreeList| list.block_kb >= page << order;
    let blocks = (!zone.lists.is_empty())
        .then(|| zone.lists.iter().filter(large).filter(usable).map(|list| list.blocks).sum());
    let all: u64 = zone.lists.iter().filter(large).map(|list| list.blocks).sum();
    let mut check = Check {
        node: zone.node,
        kind: zone.kind,
        lines: zone.line.into_iter().chain(zone.list_line).collect(),
        free: zone.free,
        unusable_cma,
        unusable_highatomic,
        mark: zone
            .min
            .map(|min| mark(min - pardoned(zone, order, flags, version), page, flags, version)),
        boost: zone.boost,
        fits_without_boost: false,
        reserve: reserve(memory, zone, flags).map(|pages| pages * page),
        blocks,
        other_blocks: all - blocks.unwrap_or(0),
        other_is_cma: zone.lists.iter().filter(large).filter(|list| !usable(list)).any(is_cma),
        verdict: Verdict::Unknown,
    };
    let request = Request { order, page, flags, version };
    check.verdict = request.judge(zone, &check, check.mark);
    if let (Some(min), Some(boost @ 1..)) = (zone.min, zone.boost)
        && check.verdict != Verdict::Fits
    {
        let unboosted = mark(min.saturating_sub(boost), page, flags, version);
        check.fits_without_boost = request.judge(zone, &check, Some(unboosted)) == Verdict::Fits;
    }
    check
}

/// What a zone is judged for.
struct Request {
    order: u32,
    /// The size of a page in kB.
    page: u64,
    flags: Flags,
    version: Option<Version>,
}

impl Request {
    /// Returns what follows where the watermark asks for `mark`.
    fn judge(&self, zone: &Zone, check: &Check, mark: Option<u64>) -> Verdict {
        let &Self { order, page, flags, version } = self;
        let Check { unusable_cma, unusable_highatomic, blocks, .. } = *check;
        let (Some(free), Some(mark)) = (check.free, mark) else {
            return match blocks {
                Some(0) if order > 0 => Verdict::NoBlock,
                _ => Verdict::Unknown,
            };
        };
        // The rest of the block that is asked for does not count as free.
        let rest = (page << order) - page;
        let needed = mark + check.reserve.unwrap_or(0);
        let above = |free: u64| free > needed + rest;
        let usable = free.saturating_sub(unusable_cma).saturating_sub(unusable_highatomic);
        if flags.memalloc || above(usable) {
            let printed = zone.free_highatomic.or(zone.reserved_highatomic);
            let hidden = match (flags.harder, printed) {
                (false, None) => hidden_reserve(zone, version),
                _ => 0,
            };
            let walks = version.is_some_and(|v| v <= (4, 3));
            // What was not printed may be the reserve that the zone has not.
            let fits = match check.reserve {
                None if !flags.memalloc => Verdict::Unknown,
                _ => Verdict::Fits,
            };
            match blocks {
                None if order == 0 => fits,
                None => Verdict::Unknown,
                // Reserves may be used to their end, and the end is there.
                Some(0) if flags.memalloc && usable <= rest => Verdict::Below,
                Some(_) if !flags.memalloc && !above(usable.saturating_sub(hidden)) => {
                    Verdict::Below
                }
                Some(0) if check.other_blocks > 0 => Verdict::OtherBlocks,
                Some(0) => Verdict::NoBlock,
                Some(_) if walks && !walk(zone, usable - rest, needed, order, page) => {
                    Verdict::TooFewLarge
                }
                Some(_) => fits,
            }
        } else if above(free.saturating_sub(unusable_highatomic)) {
            Verdict::BelowWithoutCma
        } else if above(free) && unusable_highatomic > 0 {
            Verdict::BelowWithoutHighatomic
        } else {
            Verdict::Below
        }
    }
}

/// Returns the min watermark as it holds for a request, in kB: half for `__GFP_HIGH`, a quarter less for callers that
/// cannot wait. The kernel divides pages, and so rounds otherwise than kB would.
fn mark(min: u64, page: u64, flags: Flags, version: Option<Version>) -> u64 {
    let mut mark = min / page;
    if flags.high {
        mark -= mark / 2;
    }
    // From 6.3 on only together with __GFP_HIGH.
    if flags.harder && (flags.high || version.is_none_or(|v| v < (6, 3))) {
        mark -= mark / 4;
    }
    mark * page
}

/// Returns what of the min watermark, in kB, does not hold for a request: a single page of a caller that cannot wait is
/// looked for once more without the boost, from 5.10 on.
fn pardoned(zone: &Zone, order: u32, flags: Flags, version: Option<Version>) -> u64 {
    let is_atomic = order == 0 && flags.high && flags.harder;
    match (zone.boost, zone.min) {
        (Some(boost), Some(min)) if is_atomic && version.is_none_or(|v| v >= (5, 10)) => {
            boost.min(min)
        }
        _ => 0,
    }
}

fn is_cma(list: &FreeList) -> bool {
    list.types.as_ref().is_some_and(|types| types.contains('C'))
}

/// The walk over orders up to 4.3: what lies in smaller blocks does not count, and the watermark halves.
fn walk(zone: &Zone, free: u64, needed: u64, order: u32, page: u64) -> bool {
    let (mut free, mut needed) = (free / page, needed / page);
    for list in zone.lists.iter().filter(|list| list.block_kb < page << order) {
        free = free.saturating_sub(list.blocks * list.block_kb / page);
        needed /= 2;
        if free <= needed {
            return false;
        }
    }
    true
}

/// Returns the most that the highatomic reserve can have where the kernel does not print it (4.4 to 5.7, and some
/// later ones), and lists show that there is one: 1 % of the zone and a pageblock.
fn hidden_reserve(zone: &Zone, version: Option<Version>) -> u64 {
    let has_reserve =
        |list: &FreeList| list.types.as_ref().is_some_and(|types| types.contains('H'));
    if version.is_some_and(|v| v < (4, 4)) || !zone.lists.iter().any(has_reserve) {
        return 0;
    }
    zone.managed.unwrap_or(0) / 100 + zone.lists.last().map_or(0, |list| list.block_kb)
}

/// Tells whether a request may use some block of a list, by its letters. Single pages come from the per-CPU lists,
/// which the highatomic reserve does not fill before 6.12.
fn may_use(list: &FreeList, order: u32, flags: Flags, version: Option<Version>) -> bool {
    // Before 3.8 there are no letters.
    let Some(types) = &list.types else { return list.blocks > 0 };
    // Up to 4.3 R is the reserve, the last fallback of every request.
    let reserve = version.is_none_or(|v| v <= (4, 3));
    types.chars().any(|letter| match letter {
        'U' | 'M' | 'E' => true,
        'R' => reserve,
        'C' => flags.movable,
        'H' => flags.harder && (order > 0 || version.is_some_and(|v| v >= (6, 12))),
        _ => false,
    })
}

/// Returns the pages that a request must leave in a zone for those that can use nothing else; `None` if they were not
/// printed. In the highest zone that it may use there are none.
fn reserve(memory: &MemInfo, zone: &Zone, flags: Flags) -> Option<u64> {
    let highest = flags.highest_zone();
    let printed = reserve_index(memory, highest).and_then(|at| zone.lowmem_reserve.get(at));
    printed.copied().or((zone.kind == highest).then_some(0))
}

/// Returns where `lowmem_reserve` has the reserve for requests of a zone; `None` if the zones that the kernel is built
/// with cannot be told.
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
    for kind in [ZoneKind::DMA, ZoneKind::DMA32] {
        if printed(kind) {
            kinds.push(kind);
        }
    }
    for kind in [ZoneKind::DMA32, ZoneKind::Device, ZoneKind::DMA] {
        let highmem = kind == ZoneKind::DMA32 && printed(ZoneKind::HighMem);
        if kinds.len() < len && !kinds.contains(&kind) && !highmem {
            kinds.push(kind);
        }
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
