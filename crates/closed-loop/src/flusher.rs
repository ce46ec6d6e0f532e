//! The flusher: dirty pages of files are written, oldest first.
//!
//! The disk keeps up with the recorded writers at least: a kernel lets nobody dirty more pages than its limits allow.
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

/// Dirty pages by the index in their file, oldest first, with the nanosecond at which each was dirtied. Pages that are gone
/// or another page meanwhile are skipped.
pub(crate) struct Flusher {
    file: SpaceId,
    dirty: VecDeque<(u32, u64)>,
    /// Up to when it has worked.
    at: u64,
    write_ns: u64,
    /// Pages to write because reclaim asked for it.
    wanted: usize,
}

impl Flusher {
    pub(crate) fn new(file: SpaceId, write_ns: u64) -> Self {
        Self { file, dirty: VecDeque::new(), at: 0, write_ns, wanted: 0 }
    }

    /// A page was dirtied.
    pub(crate) fn push(&mut self, index: u32, now: u64) {
        self.dirty.push_back((index, now));
    }

    /// Writes until a time: above the background limit, what reclaim asks for, and what has been dirty for too long.
    pub(crate) fn until(&mut self, vm: &mut Vm<'_, Watch>, now: u64) {
        if vm.take_flusher_wanted() {
            self.wanted = self.dirty.len();
        }
        let expire = u64::from(vm.kernel().sysctl.dirty_expire_centisecs) * CENTISECOND_NS;
        let DirtyLimits { background, limit } = vm.dirty_limits();
        // Writers are held at this number of pages: half-way between the limit and where it begins to hold them.
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
