//! Reclaim from generations of pages, in steps: pages age by generations, and the oldest are evicted.
//!
//! Source: `lru_gen_shrink_node`, `try_to_shrink_lruvec` (mm/vmscan.c).

mod age;
mod evict;
mod look_around;
mod sort;
mod ttl;
mod walk;

use pageblock::event::Observer;
use pageblock_kernel::rules::mglru::GenBatch;

pub(super) use self::look_around::Found;
use self::walk::Walk;
use super::scan_control::{DEF_PRIORITY, ScanControl, Stepped};
use crate::pagecache::mglru::{MAX_BATCH, MIN_BATCH};
use crate::vm::Vm;

/// Evictions in one step, so that others run in between.
const EVICTIONS_A_STEP: u32 = 4;

/// A scan of a node's generations at one priority.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShrinkGenerations {
    vec: usize,
    /// 0 if anonymous pages are not to be evicted.
    swappiness: u64,
    /// What was reclaimed before this scan.
    reclaimed_before: u64,
    scanned: u64,
    /// Pages left to scan, from 7.2 on.
    left: u64,
    /// The generation that page tables are walked for, while that lasts.
    walks: Option<u64>,
    /// Pages have aged; that ends the scan from 7.2 on.
    aged: bool,
    /// Pages of files that were taken, to see whether all were dirty.
    file_taken: u64,
}

impl ShrinkGenerations {
    /// Returns a scan, and sets the priority at which kswapd begins.
    pub(super) fn new<O: Observer>(vm: &Vm<'_, O>, vec: usize, sc: &mut ScanControl) -> Self {
        vm.set_initial_priority(vec, sc);
        sc.walks = sc.kswapd;
        let swappiness = vm.generations_swappiness(sc);
        Self {
            vec,
            swappiness,
            reclaimed_before: sc.nr_reclaimed,
            scanned: 0,
            left: vm.lru().generations(vec).evictable(swappiness) >> sc.priority,
            walks: None,
            aged: false,
            file_taken: 0,
        }
    }

    /// Scans a little further.
    pub(super) fn step<O: Observer>(
        &mut self,
        vm: &mut Vm<'_, O>,
        sc: &mut ScanControl,
    ) -> Stepped {
        let step = match vm.kernel.mglru.gen_batch {
            GenBatch::Whole => Self::step_whole,
            GenBatch::Counted => Self::step_counted,
        };
        for _ in 0..EVICTIONS_A_STEP {
            if step(self, vm, sc) == Stepped::Done {
                self.end(vm, sc);
                return Stepped::Done;
            }
            // A walk of page tables is long: it takes steps of its own.
            if self.walks.is_some() {
                break;
            }
        }
        Stepped::More
    }

    /// Up to 7.1: ages if pages are not spread well over the generations, which ends the scan, or else evicts until the share
    /// of all pages that the priority says was scanned.
    fn step_whole<O: Observer>(&mut self, vm: &mut Vm<'_, O>, sc: &mut ScanControl) -> Stepped {
        if let Some(seq) = self.walks {
            return self.walk(vm, seq, sc);
        }
        let (ages, pages) = vm.should_age(self.vec, self.swappiness);
        // Without need nothing ages at the first priority.
        if ages && sc.priority != DEF_PRIORITY {
            self.walks = Some(vm.lru().generations(self.vec).max_seq());
            return Stepped::More;
        }
        let wanted = pages >> sc.priority;
        if wanted == 0 {
            return Stepped::Done;
        }
        let scanned = self.evict(vm, MAX_BATCH, sc);
        self.scanned += scanned;
        if scanned == 0
            || self.scanned >= wanted
            || vm.should_abort(self.vec, self.reclaimed(sc), sc)
        {
            return Stepped::Done;
        }
        Stepped::More
    }

    /// From 7.2: as many pages as the priority said at the start, with pages aged as soon as too few generations are left.
    fn step_counted<O: Observer>(&mut self, vm: &mut Vm<'_, O>, sc: &mut ScanControl) -> Stepped {
        if self.left == 0 {
            return Stepped::Done;
        }
        if let Some(seq) = self.walks {
            if self.walk(vm, seq, sc) == Stepped::More {
                return Stepped::More;
            }
        } else if !self.aged && vm.should_age_at(self.vec, self.swappiness, sc.priority) {
            self.walks = Some(vm.lru().generations(self.vec).max_seq());
            return Stepped::More;
        }
        let scanned = self.evict(vm, self.left.min(MIN_BATCH), sc);
        self.left = self.left.saturating_sub(scanned);
        if scanned == 0 || self.aged || vm.should_abort(self.vec, self.reclaimed(sc), sc) {
            return Stepped::Done;
        }
        Stepped::More
    }

    /// Walks page tables a little further for the generation after `seq`.
    fn walk<O: Observer>(&mut self, vm: &mut Vm<'_, O>, seq: u64, sc: &mut ScanControl) -> Stepped {
        let walk = Walk { vec: self.vec, seq, swappiness: self.swappiness };
        if !walk.step(vm, sc) {
            return Stepped::More;
        }
        self.walks = None;
        self.aged = true;
        Stepped::Done
    }

    fn evict<O: Observer>(&mut self, vm: &mut Vm<'_, O>, looks: u64, sc: &mut ScanControl) -> u64 {
        let evicted = vm.evict(self.vec, self.swappiness, looks, sc);
        self.file_taken += evicted.file_taken;
        evicted.scanned
    }

    /// Returns what was reclaimed: of kswapd in this scan, of a task in all.
    const fn reclaimed(&self, sc: &ScanControl) -> u64 {
        sc.nr_reclaimed - if sc.kswapd { self.reclaimed_before } else { 0 }
    }

    /// Wakes the flusher if all pages of files were dirty (up to 7.1; later each eviction does). Nobody waits for them.
    fn end<O: Observer>(&self, vm: &mut Vm<'_, O>, sc: &mut ScanControl) {
        let dirty = sc.stat.unqueued_dirty;
        let whole = vm.kernel.mglru.gen_batch == GenBatch::Whole;
        if whole && dirty > 0 && dirty == self.file_taken {
            vm.pagecache.want_flusher();
        }
        sc.stat = super::scan_control::ReclaimStat::default();
    }
}
