//! kcompactd: compaction in the background, one thread a node, from 4.6; from 5.9 also proactive.
//!
//! Source: `kcompactd`, `kcompactd_do_work`, `proactive_compact_node`, `fragmentation_score_node`
//! (mm/compaction.c).

use pageblock::alloc_flags::AllocFlags;
use pageblock::event::Observer;
use pageblock::frame::Order;
use pageblock::layout::ZoneKind;
use pageblock::mobility::Migratetype;
use pageblock::policy::Nofragment;
use pageblock::slowpath::CompactResult;
use pageblock::zone::Zone;
use pageblock_kernel::rules::kcompactd::{Background, Proactive};

use super::evacuate::Evacuating;
use super::suitable::{Suitable, extfrag_for_order};
use super::{Compactor, Goal, Mode, ZoneStep, counted};
use crate::base::daemon::Daemon;
use crate::vm::Vm;

/// Nanoseconds between two checks of proactive compaction (`HPAGE_FRAG_CHECK_INTERVAL_MSEC`).
pub const PROACTIVE_NS: u64 = 500_000_000;
/// After a round without improvement the next check comes 64 times later (`COMPACT_MAX_DEFER_SHIFT`).
const PROACTIVE_BACKOFF: u64 = 64;

/// The state of a node's kcompactd.
#[derive(Clone, Debug, Default)]
pub struct Kcompactd {
    /// It was woken since it last ran.
    pub woken: bool,
    /// The largest order that was asked for and is still to do; 0 if none is. It stays if compaction could not help
    /// when it was asked for.
    order: Order,
    /// The lowest of the highest zones of those requests.
    highest: Option<ZoneKind>,
    run: Option<Run>,
    /// It waits for the next proactive check.
    waiting: bool,
    /// Nanoseconds that the next proactive check is delayed by.
    backoff: u64,
}

/// One round over the node's zones.
#[derive(Clone, Debug)]
struct Run {
    zones: Vec<usize>,
    compactor: Option<Compactor>,
    order: Option<Order>,
    highest: ZoneKind,
    /// For a proactive round, the target score and the score at its start, in percent.
    proactive: Option<(u64, u64)>,
    /// What a policy of one's own has emptied, without any zone.
    evacuating: Option<Evacuating>,
}

impl Run {
    /// Returns a round without a zone.
    fn new(highest: ZoneKind) -> Self {
        Self {
            zones: Vec::new(),
            compactor: None,
            order: None,
            highest,
            proactive: None,
            evacuating: None,
        }
    }
}

/// Returns the scores of a node at which proactive compaction stops and starts, in percent.
#[must_use]
pub fn proactive_marks(proactiveness: u64, rule: Proactive) -> (u64, u64) {
    let low = 100 - proactiveness.min(100);
    match rule {
        Proactive::HalfBelow => (low, (low + (low / 2).min(10)).min(100)),
        _ => {
            let low = low.max(5);
            (low, (low + 10).min(100))
        }
    }
}

/// Returns the share of the free memory of a node's zones that cannot serve huge pages, weighted by their sizes, in percent
/// (`fragmentation_score_node`).
#[must_use]
pub fn fragmentation_score<'z, 'm: 'z>(zones: impl Iterator<Item = &'z Zone<'m>>) -> u64 {
    let zones: Vec<&Zone<'_>> = zones.collect();
    let present: u64 = zones.iter().map(|zone| zone.present()).sum();
    let score = |zone: &&Zone<'_>| {
        // A page of page-table entries maps a huge page (`COMPACTION_HPAGE_ORDER`), whatever a pageblock is.
        let order = (zone.geometry().page_shift as Order - 3).min(zone.geometry().max_order);
        zone.present() * extfrag_for_order(zone, order) / (present + 1)
    };
    zones.iter().map(score).sum()
}

impl Kcompactd {
    /// Returns whether it compacts for a request, which is a stall for memory.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.order.is_some())
    }
}

impl<O: Observer> Vm<'_, O> {
    /// Wakes the kcompactd of a node for a block if compaction could help (`wakeup_kcompactd`).
    pub(crate) fn wake_kcompactd(&mut self, node: usize, order: Order, highest: ZoneKind) {
        if order == 0 || self.kernel.kcompactd.kcompactd == Background::Off {
            return;
        }
        let thread = &mut self.nodes[node].kcompactd;
        thread.order = thread.order.max(order);
        let highest = thread.highest.map_or(highest, |zone| zone.min(highest));
        thread.highest = Some(highest);
        // The thread compares the raised order when its round ends.
        if thread.run.is_some() {
            return;
        }
        let (order, zones) = (thread.order, self.allocator.zones());
        let helps = self
            .zones_of(node)
            .filter(|&z| zones[z].kind() <= highest && zones[z].managed() > 0)
            .any(|z| self.kcompactd_suitable(z, order, highest) == Suitable::Continue);
        self.nodes[node].kcompactd.woken |= helps;
    }

    fn fragmentation_score(&self, node: usize) -> u64 {
        fragmentation_score(self.zones_of(node).map(|zone| &self.allocator.zones()[zone]))
    }

    /// Runs one step of a node's kcompactd on a CPU.
    pub fn step_kcompactd(&mut self, node: usize, cpu: usize) -> Daemon {
        let Some(mut run) = self.nodes[node].kcompactd.run.take() else {
            return self.start_kcompactd(node);
        };
        if self.step_run(&mut run, cpu) {
            self.nodes[node].kcompactd.run = Some(run);
            return Daemon::Ran;
        }
        let improved =
            run.proactive.is_none_or(|(_, before)| self.fragmentation_score(node) < before);
        let thread = &mut self.nodes[node].kcompactd;
        // A round without improvement would be repeated every half second.
        thread.backoff = if improved { 0 } else { (PROACTIVE_BACKOFF - 1) * PROACTIVE_NS };
        if let Some(order) = run.order {
            // What was asked for meanwhile is done now only if it is more.
            thread.order = if thread.order > order { thread.order } else { 0 };
            if thread.highest.is_some_and(|zone| zone >= run.highest) {
                thread.highest = None;
            }
        }
        Daemon::Ran
    }

    /// Starts a round if something was asked for, even if the wait for a proactive check led here, or if proactive
    /// compaction is due.
    fn start_kcompactd(&mut self, node: usize) -> Daemon {
        if self.kernel.kcompactd.kcompactd == Background::Off {
            return Daemon::Sleep;
        }
        let zones: Vec<usize> = self.zones_of(node).collect();
        let thread = &mut self.nodes[node].kcompactd;
        thread.woken = false;
        let waited = std::mem::take(&mut thread.waiting);
        if thread.order > 0 {
            let (order, highest) = (thread.order, thread.highest.unwrap_or(ZoneKind::Movable));
            let kinds = self.allocator.zones();
            // Popped from the end: the lowest zone comes first.
            let zones = zones.into_iter().rev().filter(|&z| kinds[z].kind() <= highest).collect();
            self.stat.compact_daemon_wake += 1;
            self.nodes[node].kcompactd.run =
                Some(Run { zones, order: Some(order), ..Run::new(highest) });
            return Daemon::Ran;
        }
        let rule = self.kernel.kcompactd.proactive;
        let proactiveness = self.kernel.sysctl.compaction_proactiveness;
        if rule == Proactive::Off || proactiveness == 0 {
            return Daemon::Sleep;
        }
        // Only a wait that no request interrupted leads to a proactive check (`kcompactd`).
        if waited {
            let (low, high) = proactive_marks(proactiveness.into(), rule);
            let score = self.fragmentation_score(node);
            let reclaims = zones.iter().any(|&zone| self.allocator.zones()[zone].reclaim_active());
            if score > high && !reclaims {
                self.nodes[node].kcompactd.run = Some(Run {
                    zones: zones.into_iter().rev().collect(),
                    proactive: Some((low, score)),
                    ..Run::new(ZoneKind::Movable)
                });
                return Daemon::Ran;
            }
        }
        if let Some(evacuating) = self.evacuation(&zones) {
            let run = Run { evacuating: Some(evacuating), ..Run::new(ZoneKind::Movable) };
            self.nodes[node].kcompactd.run = Some(run);
            return Daemon::Ran;
        }
        let thread = &mut self.nodes[node].kcompactd;
        thread.waiting = true;
        Daemon::Nap(PROACTIVE_NS + std::mem::take(&mut thread.backoff))
    }

    /// Runs one step of a round. Returns whether there is more to do.
    fn step_run(&mut self, run: &mut Run, cpu: usize) -> bool {
        if let Some(evacuating) = &mut run.evacuating {
            return self.step_evacuation(evacuating, cpu);
        }
        let Some(compactor) = &mut run.compactor else { return self.next_zone(run) };
        let step = self.step_compactor(compactor, cpu, true);
        let (migrate, free) = counted(&compactor.scanned, self.kernel.compaction.compact_counts);
        self.stat.compact_daemon_migrate_scanned += migrate;
        self.stat.compact_daemon_free_scanned += free;
        let zone = compactor.goal().zone;
        let ZoneStep::Done(result) = step else { return true };
        run.compactor = None;
        if let Some(order) = run.order {
            match result {
                CompactResult::Success => self.compact[zone].deferral.succeed(order),
                CompactResult::Complete | CompactResult::PartialSkipped => {
                    // Pages that were freed by the move may be on the lists of other CPUs.
                    self.drain_all();
                    let most = self.kernel.compaction.compact_defer_max;
                    self.compact[zone].deferral.defer(order, most);
                }
                _ => {}
            }
        }
        true
    }

    /// Starts the next zone of a round. Returns whether there is one.
    fn next_zone(&mut self, run: &mut Run) -> bool {
        let Some(zone) = run.zones.pop() else { return false };
        if self.allocator.zones()[zone].managed() == 0 {
            return true;
        }
        if let Some(order) = run.order {
            let deferred = self.compact[zone].deferral.is_deferred(order);
            // Of the zone itself, whatever the requests may use.
            let kind = self.allocator.zones()[zone].kind();
            if deferred || self.kcompactd_suitable(zone, order, kind) != Suitable::Continue {
                return true;
            }
        }
        let goal = Goal {
            zone,
            order: run.order,
            // Of `GFP_KERNEL`.
            migratetype: Migratetype::Unmovable,
            mode: Mode::SyncLight,
            highest: run.highest,
            flags: AllocFlags::WMARK_MIN,
            whole_zone: run.proactive.is_some(),
            ignore_hints: run.proactive.is_some(),
            any_block: false,
            direct: None,
            proactive: run.proactive.map(|(low, _)| low),
            whole_blocks: self.kernel.allocator.nofragment == Nofragment::DefragMode,
            extfrag_threshold: self.kernel.sysctl.extfrag_threshold.into(),
        };
        run.compactor = Some(Compactor::new(goal, self.kernel.compaction));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::testing::with_allocator_of;
    use pageblock::frame::Pfn;
    use pageblock::ids::{CpuId, ZoneIndex};
    use pageblock::zone::Geometry;

    /// The table of docs/linux/compaction.md#proactive-compaction.
    #[test]
    fn marks_of_proactive_compaction() {
        let old = |p| proactive_marks(p, Proactive::TenBelow);
        let new = |p| proactive_marks(p, Proactive::HalfBelow);
        assert_eq!((old(20), new(20)), ((80, 90), (80, 90)));
        assert_eq!((old(100), new(100)), ((5, 15), (0, 0)));
        assert_eq!((old(95), new(95)), ((5, 15), (5, 7)));
    }

    /// Half of memory is free in blocks of order 9, which serve huge pages also where a pageblock is twice as large.
    #[test]
    fn the_score_is_by_huge_pages() {
        let geometry = Geometry { pageblock_order: 10, ..Geometry::default() };
        with_allocator_of("linux-6.12", geometry, 8192, |allocator| {
            let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            for block in (0..8192).step_by(1024) {
                assert_eq!(zone.isolate_free_page(Pfn(block)), Some(10));
            }
            for block in (0..8192).step_by(1024) {
                allocator.split_allocated(Pfn(block), 10, 9).unwrap();
                allocator.free(CpuId(0), Pfn(block), 9, &mut ()).unwrap();
            }
            allocator.drain_cpu(CpuId(0), &mut ()).unwrap();
            assert_eq!(fragmentation_score(allocator.zones().iter()), 0);
        });
    }
}
