//! Compaction's fast searches of the free lists, in recordings without a probe on its isolation.
//!
//! A search reports only the range from which it wanted a page, the number of entries it scanned, and the number of
//! pages it took. If the lists are in the kernel's order, the same search finds the same block.

use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::mobility::Migratetype::Movable;
use pageblock::zone::Zone;
use pageblock_recording::Other;

use super::Guided;
use super::unseen::{Inferred, range};
use crate::look_ahead::Destination;

/// `COMPACT_CLUSTER_MAX`.
const CLUSTER: u32 = 32;
/// `PAGE_ALLOC_COSTLY_ORDER`.
const COSTLY: Order = 3;

/// A run of compaction (`struct compact_control`).
#[derive(Clone, Copy)]
pub(super) struct Run {
    /// The event after the run's first: it identifies the run.
    pub(super) since: u64,
    zone: usize,
    order: Order,
    search_order: Order,
    fails: u32,
    migrate: Pfn,
    free: Pfn,
}

/// The target of a search of the free scanner.
#[derive(Clone, Copy)]
struct SearchTarget {
    /// It takes the first page from here on,
    low: Pfn,
    /// or otherwise the highest page from here on.
    min: Pfn,
    order: Order,
}

/// The outcome of a search.
#[derive(Default, Clone)]
struct Outcome {
    scanned: u64,
    found: Option<(Pfn, Order)>,
    /// It is a page from the preferred range.
    preferred: bool,
    /// The blocks that become heads of their lists.
    heads: Vec<Pfn>,
}

/// The movable free lists of a zone, tail to head.
struct Lists {
    blocks: Vec<Vec<Pfn>>,
    /// By order: whether the zone has a free block, of any type.
    any: Vec<bool>,
}

impl Lists {
    fn of(zone: &Zone<'_>, below: Order) -> Self {
        let last_first = |order| {
            let mut blocks: Vec<Pfn> = zone.free_list(order, Movable).collect();
            blocks.reverse();
            blocks
        };
        Self {
            blocks: (0..below).map(last_first).collect(),
            any: (0..below).map(|order| zone.nr_free(order) > 0).collect(),
        }
    }

    /// Searches like `fast_isolate_freepages`, starting with an order, for a number of entries.
    fn search(&self, wanted: SearchTarget, from: Order, mut limit: usize) -> Outcome {
        let mut outcome = Outcome::default();
        let mut order = from;
        loop {
            if self.any[usize::from(order)] {
                let scanned = self.search_list(wanted, order, &mut limit, &mut outcome);
                if outcome.found.is_some() {
                    return outcome;
                }
                if scanned >= limit {
                    limit = (limit / 2).max(1);
                }
            }
            order = order.checked_sub(1).unwrap_or(wanted.order - 1);
            if order == from {
                return outcome;
            }
        }
    }

    /// Searches one list. Returns the number of blocks scanned.
    fn search_list(
        &self,
        wanted: SearchTarget,
        order: Order,
        limit: &mut usize,
        outcome: &mut Outcome,
    ) -> usize {
        let (mut scanned, mut high, mut last) = (0, None, None);
        for &pfn in &self.blocks[usize::from(order)] {
            scanned += 1;
            outcome.scanned += 1;
            if pfn >= wanted.low {
                (outcome.found, outcome.preferred) = (Some((pfn, order)), true);
                break;
            }
            if pfn >= wanted.min && high.is_none_or(|high| pfn > high) {
                high = Some(pfn);
                *limit /= 2;
            }
            if scanned >= *limit {
                last = Some(pfn);
                break;
            }
        }
        outcome.found = outcome.found.or(high.map(|pfn| (pfn, order)));
        outcome.heads.extend(outcome.found.map(|(pfn, _)| pfn).or(last));
        scanned
    }
}

/// Returns the number of entries that a search scans after this many failures (`freelist_scan_limit`).
fn scan_limit(fails: u32) -> usize {
    (CLUSTER.checked_shr(fails).unwrap_or(0) + 1) as usize
}

impl Guided<'_, '_> {
    /// Follows `mm_compaction_begin`.
    pub(super) fn begin_run(&mut self, event: u64, pid: u32, other: &Other) {
        let frame = |key: &str| super::unseen::frame_of(other, key);
        let (Some(start), Some(migrate), Some(free)) =
            (frame("zone_start="), frame("migrate_pfn="), frame("free_pfn="))
        else {
            return;
        };
        let Some(zone) = self.zone_of(start) else { return };
        let order = self.compaction.wanted_order.get(&pid).copied().unwrap_or(0);
        let run =
            Run { since: event + 1, zone, order, search_order: order, fails: 0, migrate, free };
        self.compaction.runs.insert(pid, run);
    }

    /// Follows `mm_compaction_fast_isolate_freepages`.
    pub(super) fn searched_for_free(&mut self, event: u64, pid: u32, other: &Other) {
        let (Some((min, free)), Some(run)) =
            (range(other), self.compaction.runs.get(&pid).copied())
        else {
            return;
        };
        let number = |key| other.number(key).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        let (scanned, taken) = (number("nr_scanned"), number("nr_taken"));
        let pageblock_order = self.allocator.geometry().pageblock_order;
        // Compaction without an order makes no fast search (`fast_isolate_freepages`).
        if run.order == 0 {
            return;
        }
        let distance = free.0.saturating_sub(run.migrate.0);
        let low = Pfn(free.0 - distance / 4).align_down(pageblock_order).max(min);
        let zone = &self.allocator.zones()[run.zone];
        let whole = free >= Pfn(zone.span().end.0 - 1).align_down(pageblock_order);
        let lists = Lists::of(zone, run.order);
        let wanted = SearchTarget { low, min, order: run.order };
        let fits = |outcome: &Outcome| {
            let entries = scanned - taken.saturating_sub(1).min(scanned);
            outcome.scanned == entries
                && (taken == 0
                    || outcome.found.is_some_and(|(pfn, order)| {
                        1 << order == taken && self.look_ahead.untraced().block(pfn, order, event)
                    }))
        };
        let near = (scan_limit(run.fails) / 2).max(1);
        let far = 1 << (pageblock_order - 1);
        // The number of failures before, which halves the limit, is inferred: other numbers are tried after it.
        let mut limits = if whole { vec![far, near] } else { vec![near, far] };
        limits.extend((0..6).map(|fails| (scan_limit(fails) / 2).max(1)));
        let first = run.search_order.min(run.order - 1);
        let orders = (0..run.order).map(|n| (first + run.order - n) % run.order);
        let tries =
            limits.iter().flat_map(|&limit| orders.clone().map(move |order| (order, limit)));
        let found = tries
            .map(|(order, limit)| (order, lists.search(wanted, order, limit)))
            .find(|(_, outcome)| fits(outcome));
        match found {
            Some((from, outcome)) => self.follow_search(pid, from, &outcome, taken > 0),
            None => self.take_likely(event, pid, wanted, &lists, taken),
        }
        if let Some(run) = self.compaction.runs.get_mut(&pid) {
            run.free = free;
        }
    }

    fn follow_search(&mut self, pid: u32, from: Order, outcome: &Outcome, taken: bool) {
        let Some(run) = self.compaction.runs.get_mut(&pid) else { return };
        let zone = run.zone;
        run.search_order = from;
        if let (Some((_, order)), true) = (outcome.found, outcome.preferred) {
            (run.search_order, run.fails) = (order, 0);
        }
        if !taken {
            // It tried every order, or gave up.
            run.search_order = run.search_order.checked_sub(1).unwrap_or(run.order - 1);
            run.fails += 1;
        }
        debug_assert!(run.search_order < run.order, "a search of lists that it may not use");
        if let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(zone), CpuId(0)) {
            outcome.heads.iter().for_each(|&pfn| zone.rotate_free_list(pfn));
        }
        if let (Some((pfn, order)), true) = (outcome.found, taken) {
            self.isolated_unseen(pid, pfn, order, Destination::Sought);
            self.counts.searches_followed += 1;
        }
    }

    /// Takes a block if the lists are not in the kernel's order: the block that a search would find first among
    /// those that left the lists.
    fn take_likely(
        &mut self,
        event: u64,
        pid: u32,
        wanted: SearchTarget,
        lists: &Lists,
        taken: u64,
    ) {
        // A search takes a single block, smaller than the wanted one.
        if !taken.is_power_of_two() || taken.ilog2() >= u32::from(wanted.order) {
            return;
        }
        let order = taken.ilog2() as Order;
        let left = |pfn: &&Pfn| self.look_ahead.untraced().block(**pfn, order, event);
        let blocks = &lists.blocks[usize::from(order)];
        let mut likely = blocks.iter().filter(|&&pfn| pfn >= wanted.low).filter(left);
        let found = likely
            .next()
            .or_else(|| blocks.iter().filter(|&&pfn| pfn >= wanted.min).filter(left).max());
        self.counts.searches_lost += 1;
        if let Some(&pfn) = found {
            self.isolated_unseen(pid, pfn, order, Destination::Sought);
        }
    }

    /// Takes a block of free pages that compaction keeps until it uses or releases them.
    pub(super) fn isolated_unseen(
        &mut self,
        pid: u32,
        pfn: Pfn,
        order: Order,
        destination: Destination,
    ) {
        self.counts.unseen += 1 << order;
        self.isolate(pfn, order, destination);
        self.event.inferred.push(Inferred::Isolated { pfn, order });
        let since = self.compaction.runs.get(&pid).map_or(0, |run| run.since);
        self.compaction
            .isolated
            .extend((pfn.0..pfn.0 + (1 << order)).map(|page| (Pfn(page), since)));
    }

    /// Returns whether a compacting task had isolated this page and keeps it. Forgets the page otherwise.
    pub(super) fn keeps(&mut self, pid: u32, pfn: Pfn, destination: Destination) -> bool {
        let of_run = self.compaction.runs.get(&pid).map(|run| run.since);
        let kept = destination == Destination::Kept
            && of_run.is_some()
            && self.compaction.isolated.get(&pfn) == of_run.as_ref();
        if !kept {
            self.compaction.isolated.remove(&pfn);
        }
        kept
    }

    /// Follows `mm_compaction_isolate_migratepages`. The start of the scan shows whether a fast search led there
    /// (`fast_find_migrateblock`), which rotates the lists that it scanned.
    pub(super) fn scanned_to_migrate(&mut self, pid: u32, other: &Other) {
        let (Some((start, end)), Some(run)) =
            (range(other), self.compaction.runs.get(&pid).copied())
        else {
            return;
        };
        let pageblock_order = self.allocator.geometry().pageblock_order;
        let zone_start = self.allocator.zones()[run.zone].span().start;
        let at_start = run.migrate == zone_start;
        if (at_start || run.migrate.is_aligned(pageblock_order)) && run.order > COSTLY {
            let distance = run.free.0.saturating_sub(run.migrate.0) >> if at_start { 1 } else { 3 };
            let high = Pfn(run.migrate.0 + distance).align_down(pageblock_order);
            let found = self.find_migrate_block(run, high, start.align_down(pageblock_order));
            if let Some(run) = self.compaction.runs.get_mut(&pid) {
                run.fails = if found { 0 } else { run.fails + 1 };
            }
        }
        if let Some(run) = self.compaction.runs.get_mut(&pid) {
            run.migrate = end;
        }
    }

    fn find_migrate_block(&mut self, run: Run, high: Pfn, block: Pfn) -> bool {
        let pageblock_order = self.allocator.geometry().pageblock_order;
        let limit = scan_limit(run.fails);
        let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(run.zone), CpuId(0))
        else {
            return false;
        };
        let mut scanned = 0;
        for order in (COSTLY..run.order).rev() {
            if scanned >= limit {
                break;
            }
            let blocks: Vec<Pfn> = zone.free_list(order, Movable).take(limit + 2).collect();
            for (at, &pfn) in blocks.iter().enumerate() {
                let found = pfn < high && pfn.align_down(pageblock_order) == block;
                let over = scanned >= limit;
                scanned += 1;
                if over || found {
                    // All blocks up to this one move to the end.
                    if let Some(&next) = blocks.get(at + 1) {
                        zone.rotate_free_list(next);
                    }
                    if found && !over {
                        return true;
                    }
                    break;
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: SearchTarget = SearchTarget { low: Pfn(80), min: Pfn(50), order: 2 };

    fn search(of_order_1: &[u64], limit: usize) -> Outcome {
        let blocks = vec![Vec::new(), of_order_1.iter().copied().map(Pfn).collect()];
        Lists { blocks, any: vec![false, true] }.search(WANTED, 1, limit)
    }

    #[test]
    fn a_search_takes_the_last_block_of_the_top_quarter() {
        let outcome = search(&[10, 90, 95], 16);
        assert_eq!((outcome.found, outcome.scanned), (Some((Pfn(90), 1)), 2));
        assert!(outcome.preferred);
        assert_eq!(outcome.heads, [Pfn(90)]);
    }

    #[test]
    fn a_search_looks_less_far_once_it_has_a_candidate() {
        let outcome = search(&[60, 70, 90], 4);
        assert_eq!((outcome.found, outcome.scanned), (Some((Pfn(70), 1)), 2));
        assert!(!outcome.preferred);
    }

    #[test]
    fn a_search_that_fails_rotates_the_list_to_where_it_stopped() {
        let outcome = search(&[10, 20, 90], 2);
        assert_eq!((outcome.found, outcome.heads), (None, vec![Pfn(20)]));
    }
}
