//! Attempts that fail. A zone above the watermark that has no block to give refills an empty CPU list with nothing.
//! That raises no event, but tunes the list as any refill does.
//!
//! A first attempt may not mix types (`ALLOC_NOFRAGMENT`) if a lower zone can serve instead. Only when all zones
//! have failed are they tried again without that flag.
//!
//! Source: `get_page_from_freelist`.

use pageblock::alloc_flags::AllocFlags;
use pageblock::cpu_cache::CpuCache;
use pageblock::fallback::Mode;
use pageblock::frame::Order;
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::layout::ZoneKind;
use pageblock::mobility::Migratetype;
use pageblock_recording::Other;

use super::Guided;

/// A request, as far as its refill shows it.
#[derive(Clone, Copy)]
pub(super) struct TaskRequest {
    pub(super) cpu: usize,
    pub(super) pid: u32,
    pub(super) order: Order,
    pub(super) mt: Migratetype,
    /// The highest zone that the request may use.
    pub(super) highest: ZoneKind,
}

/// The outcome of an attempt in a zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Try {
    /// The zone is below the watermark.
    Passed,
    /// A CPU list or the zone has a block.
    Serves,
    /// Neither has a block.
    Fails,
}

impl Guided<'_, '_> {
    /// Follows the attempts of a request before the one that takes a block from the zone `at`. Returns the flags of
    /// that one.
    pub(super) fn walk_before_refill(&mut self, at: usize, wanted: TaskRequest) -> AllocFlags {
        let zones = self.zones_tried(at, wanted.highest);
        let first =
            zones.first().and_then(|&zone| self.allocator.first_flags(ZoneIndex::new(zone)));
        let Some(first) = first.map(|first| first.with(AllocFlags::KSWAPD)) else {
            return AllocFlags::KSWAPD;
        };
        let slow = AllocFlags::KSWAPD.with(AllocFlags::WMARK_MIN);
        let passes = [first, first.without(AllocFlags::NOFRAGMENT), slow];
        // A task in the slow path is past the first two passes.
        let known = if self.tasks.in_slow_path.contains(&wanted.pid) { 2 } else { 0 };
        for flags in passes.into_iter().skip(known) {
            for &zone in &zones {
                match self.attempt(zone, wanted, flags, zone == at) {
                    Try::Passed => {}
                    Try::Serves => return flags,
                    Try::Fails => self.fail(zone, wanted),
                }
            }
        }
        slow
    }

    /// Notes that a task is in the slow path, where it may mix types: it has woken kswapd, or reclaimed or
    /// compacted itself.
    pub(super) fn note_slow_path(&mut self, pid: u32, other: &Other) {
        let slow = match &*other.name {
            // A boost wakes kswapd too, from the fast path.
            "mm_vmscan_wakeup_kswapd" => !other.args.contains("gfp_flags=none"),
            "mm_vmscan_direct_reclaim_end" | "mm_compaction_end" => true,
            _ => false,
        };
        if slow {
            self.tasks.in_slow_path.insert(pid);
        }
    }

    /// Follows the attempts of a request that a CPU list of the zone `at` served.
    pub(super) fn walk_before_alloc(&mut self, at: usize, wanted: TaskRequest) {
        // No zone is tried before the highest.
        if at + 1 == self.allocator.zones().len() {
            return;
        }
        let zones = self.zones_tried(at, wanted.highest);
        let Some(flags) =
            zones.first().and_then(|&zone| self.allocator.first_flags(ZoneIndex::new(zone)))
        else {
            return;
        };
        for &zone in zones.iter().take_while(|&&zone| zone != at) {
            if self.attempt(zone, wanted, flags, false) == Try::Fails {
                self.fail(zone, wanted);
            }
        }
    }

    /// Returns the zones of a node in the order in which they are tried.
    fn zones_tried(&self, at: usize, highest: ZoneKind) -> Vec<usize> {
        let zones = self.allocator.zones();
        let tried = |&zone: &usize| {
            zones[zone].node() == zones[at].node()
                && zones[zone].kind() <= highest
                && zones[zone].managed() > 0
        };
        (0..zones.len()).rev().filter(tried).collect()
    }

    /// Tries a zone. `refills`: the zone's CPU list is known to be empty.
    fn attempt(&mut self, at: usize, wanted: TaskRequest, flags: AllocFlags, refills: bool) -> Try {
        let TaskRequest { cpu, order, mt, highest, .. } = wanted;
        let Some((zone, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu))
        else {
            return Try::Passed;
        };
        let mark = zone.watermark(flags.selected_watermark());
        if !zone.watermark_ok(order, mark, highest, flags) {
            return Try::Passed;
        }
        let listed = cache.list_index(order, mt).and_then(|list| cache.next(zone, list));
        let serves = listed.is_some_and(|_| !refills)
            || zone.next_of_list(order, mt).is_some()
            || zone.find_fallback(order, mt, flags, Mode::Normal).found.is_some();
        if serves { Try::Serves } else { Try::Fails }
    }

    fn fail(&mut self, at: usize, TaskRequest { cpu, order, mt, .. }: TaskRequest) {
        let policy = *self.allocator.policy();
        let Some((zone, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu))
        else {
            return;
        };
        // An order without a list has none to refill.
        if cache.list_index(order, mt).is_some() {
            cache.impose_alloc();
            let below_high = zone.below_high();
            let refill = |cache: &mut CpuCache| cache.refill_count(&policy, order, below_high) > 0;
            self.lists.limits.each([cpu, at], cache, refill);
            let _ = cache.refill_count(&policy, order, below_high);
            self.counts.failed_attempts += 1;
        }
    }
}
