//! The flusher writes dirty file pages, oldest first.
//!
//! The disk is at least as fast as the recorded writers: a kernel lets no task dirty more pages than its limits
//! allow.
//!
//! Source: `wb_workfn`, `wb_over_bg_thresh`, `wakeup_flusher_threads` (fs/fs-writeback.c), `balance_dirty_pages`
//! (mm/page-writeback.c).

use std::collections::VecDeque;

use pageblock_replay::watch::Watch;
use pageblock_vm::Vm;
use pageblock_vm::space::{Slot, SpaceId};
use pageblock_vm::writeback::DirtyLimits;

/// Nanoseconds in a hundredth of a second.
const CENTISECOND_NS: u64 = 10_000_000;

/// Dirty pages by their index in the file, oldest first, with the nanosecond at which each was dirtied. Entries of
/// pages that are gone or were replaced are skipped.
pub(crate) struct Flusher {
    file: SpaceId,
    dirty: VecDeque<(u32, u64)>,
    /// The time up to which it has worked.
    at: u64,
    write_ns: u64,
    /// Pages to write because reclaim asked for it.
    wanted: usize,
}

impl Flusher {
    pub(crate) fn new(file: SpaceId, write_ns: u64) -> Self {
        Self { file, dirty: VecDeque::new(), at: 0, write_ns, wanted: 0 }
    }

    /// Notes that a page was dirtied.
    pub(crate) fn push(&mut self, index: u32, now: u64) {
        self.dirty.push_back((index, now));
    }

    /// Writes until a time: pages above the background limit, pages that reclaim asked for, and pages that have
    /// been dirty for too long.
    pub(crate) fn until(&mut self, vm: &mut Vm<'_, Watch>, now: u64) {
        if vm.take_flusher_wanted() {
            self.wanted = self.dirty.len();
        }
        let expire = u64::from(vm.kernel().sysctl.dirty_expire_centisecs) * CENTISECOND_NS;
        let DirtyLimits { background, limit } = vm.dirty_limits();
        // Writers are throttled at this number of pages: half-way between the limit and the point where throttling
        // begins.
        let setpoint = ((background + limit) / 2 + limit) / 2;
        while let Some(&(index, since)) = self.dirty.front() {
            let dirty = vm.nr_dirty().0;
            let idle = self.wanted == 0 && dirty <= background && now - since <= expire;
            if dirty <= setpoint && (idle || self.at >= now) {
                break;
            }
            self.dirty.pop_front();
            self.wanted = self.wanted.saturating_sub(1);
            if let Slot::Page(pfn) = vm.spaces().slot(self.file, index) {
                vm.clean_plain(pfn);
                if self.at < now {
                    self.at += self.write_ns;
                }
            }
        }
        self.at = self.at.max(now);
    }
}
