//! The protection of pages that were in use lately: kswapd rather kills a process than evict them.
//!
//! Source: `lru_gen_age_node`, `lruvec_is_reclaimable` (mm/vmscan.c).

use pageblock::event::Observer;
use pageblock_kernel::rules::mglru::GenAgeing;

use crate::pagecache::mglru::Kind;
use crate::reclaim::scan_control::ScanControl;
use crate::vm::Vm;

impl<O: Observer> Vm<'_, O> {
    /// Kills a process if no generation is older than `min_ttl_ms`.
    pub(in crate::reclaim) fn keep_young(&mut self, vec: usize, sc: &ScanControl) {
        let ttl = u64::from(self.kernel.mglru.min_ttl_ms);
        if ttl > 0 && !self.has_older_than(vec, ttl, sc) {
            self.oom_kill(sc.cpu);
        }
    }

    /// Returns whether there are pages to evict at this priority, and the oldest generation began before `ttl` milliseconds.
    fn has_older_than(&self, vec: usize, ttl: u64, sc: &ScanControl) -> bool {
        let of = self.lru().generations(vec);
        let swappiness = self.generations_swappiness(sc);
        if of.evictable(swappiness) >> sc.priority == 0 {
            return false;
        }
        let oldest = match self.kernel.mglru.gen_ageing {
            GenAgeing::ByShare => of.min_seq(Kind::File),
            GenAgeing::ByNumber => of.oldest(swappiness),
        };
        of.born_ms(oldest) + ttl < self.pages.now_ms()
    }
}
