//! The OOM killer: kills a process and frees its memory at once.
//!
//! A mapping stands for its process. The one with the most pages in memory and in swap is killed. Its pages are freed
//! here (`oom_reap_task`); the executor of the process checks [`is_killed`](crate::Vm::is_killed), ends it, and removes
//! the mapping.
//!
//! Source: `out_of_memory`, `select_bad_process`, `oom_badness` (mm/oom_kill.c).

use pageblock::event::Observer;
use pageblock::slowpath::OomResult;

use crate::pagecache::space::{Slot, SpaceId};
use crate::vm::Vm;

impl<O: Observer> Vm<'_, O> {
    /// Kills the process with the most memory (`out_of_memory`).
    // Linux: points for page tables and other values of `oom_score_adj` count too, and threads may share a mapping.
    pub(crate) fn oom_kill(&mut self, cpu: usize) -> OomResult {
        let Some(victim) = self.oom_victim() else { return OomResult::Nothing };
        self.stat.oom_kill += 1;
        self.kill(victim);
        for index in 0..self.spaces().get(victim).len() {
            self.unmap_page(cpu, victim, index);
        }
        OomResult::Killed
    }

    /// Returns the process with the most memory; of equals, the oldest.
    fn oom_victim(&self) -> Option<SpaceId> {
        let alive = self.spaces().iter().filter(|(_, space)| space.is_killable());
        let sized = alive.map(|(id, _)| (self.memory_of(id), id)).filter(|(pages, _)| *pages > 0);
        sized.max_by_key(|&(pages, id)| (pages, std::cmp::Reverse(id))).map(|(_, id)| id)
    }

    /// Returns the number of pages of a mapping, in memory and in swap.
    fn memory_of(&self, id: SpaceId) -> u64 {
        let len = self.spaces().get(id).len();
        let counts =
            |index: &u32| matches!(self.spaces().slot(id, *index), Slot::Page(_) | Slot::Swap(_));
        (0..len).filter(counts).count() as u64
    }
}
