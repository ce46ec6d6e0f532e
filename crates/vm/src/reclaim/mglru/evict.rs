//! One eviction: which kind of pages it takes, and what becomes of them.
//!
//! Source: `evict_folios`, `isolate_folios`, `get_type_to_scan`, `get_tier_idx` (mm/vmscan.c).

use pageblock::event::Observer;
use pageblock_kernel::rules::mglru::{GenAgeing, GenBatch, GenType};

use super::sort::Taken;
use crate::pagecache::mglru::{Generations, Kind, MIN_GENS, TIERS};
use crate::reclaim::scan_control::ScanControl;
use crate::vm::Vm;

/// The largest swappiness.
const MAX_SWAPPINESS: u64 = 200;

/// What an eviction scanned and took, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Evicted {
    /// Pages scanned; 0 if there is nothing to evict.
    pub(super) scanned: u64,
    /// Pages of files that were taken.
    pub(super) file_taken: u64,
}

/// Returns the kind of pages to evict first; up to 6.13 also the last tier of it, where kinds are compared.
fn first_kind(of: &Generations, swappiness: u64) -> (Kind, Option<usize>) {
    let weights = [swappiness, MAX_SWAPPINESS - swappiness.min(MAX_SWAPPINESS)];
    let judge = |kind: Kind, tiers| of.tiers(kind).judge(tiers, weights[kind as usize]);
    let files_refault_less =
        |tiers: usize| judge(Kind::File, 0..tiers).refaults_less_than(&judge(Kind::Anon, 0..tiers));
    match (of.rules().gen_type, swappiness) {
        (_, 0) => (Kind::File, None),
        (GenType::Oldest, _) if of.min_seq(Kind::Anon) < of.min_seq(Kind::File) => {
            (Kind::Anon, None)
        }
        (_, 1) => (Kind::File, None),
        (_, MAX_SWAPPINESS..) => (Kind::Anon, None),
        (GenType::Oldest, _) => {
            let kind = if files_refault_less(1) { Kind::File } else { Kind::Anon };
            let standard = judge(kind.other(), 0..1);
            (kind, Some(of.tiers(kind).last_evicted(&standard, weights[kind as usize])))
        }
        (GenType::Refaults, _) if files_refault_less(TIERS) => (Kind::File, None),
        (GenType::Refaults, _) => (Kind::Anon, None),
    }
}

/// Returns the last tier of a kind that is evicted: those after it refault more than the first, with a margin.
fn last_tier(of: &Generations, kind: Kind) -> usize {
    let (first, others) = match of.rules().gen_type {
        GenType::Oldest => (1, 2),
        GenType::Refaults => (2, 3),
    };
    of.tiers(kind).last_evicted(&of.tiers(kind).judge(0..1, first), others)
}

impl<O: Observer> Vm<'_, O> {
    /// Evicts up to about 64 pages, for which it looks at up to `looks` folios.
    pub(super) fn evict(
        &mut self,
        vec: usize,
        swappiness: u64,
        looks: u64,
        sc: &mut ScanControl,
    ) -> Evicted {
        let counted = self.kernel.mglru.gen_batch == GenBatch::Counted;
        if counted {
            self.pagecache.generations(vec).drop_empty(swappiness);
        }
        let (kind, taken) = self.take_kind(vec, swappiness, looks, sc);
        let mut scanned = taken.scanned;
        if counted {
            if scanned > 0 {
                self.pagecache.generations(vec).drop_empty(swappiness);
            }
        } else {
            scanned += u64::from(self.pagecache.generations(vec).drop_empty(swappiness));
            // Pages must age before more are evicted: the caller stops.
            if self.is_out_of_generations(vec, swappiness) {
                scanned = 0;
            }
        }
        let before = sc.stat;
        let mut freed = 0;
        for &pfn in &taken.folios {
            freed += self.reclaim_isolated(pfn, sc).freed;
        }
        if counted
            && taken.isolated > 0
            && sc.stat.unqueued_dirty - before.unqueued_dirty == taken.isolated
        {
            self.pagecache.want_flusher();
        }
        sc.nr_scanned += taken.isolated;
        sc.nr_reclaimed += freed;
        self.work.reclaimed += freed;
        if sc.kswapd {
            self.stat.pgsteal_kswapd += freed;
        } else {
            self.stat.pgsteal_direct += freed;
        }
        let file_taken = if kind == Kind::File { taken.isolated } else { 0 };
        Evicted { scanned, file_taken }
    }

    /// Takes pages of the kind that is evicted first, or of the other if it has none.
    fn take_kind(
        &mut self,
        vec: usize,
        swappiness: u64,
        looks: u64,
        sc: &ScanControl,
    ) -> (Kind, Taken) {
        let of = self.lru().generations(vec);
        let (mut kind, mut tier) = first_kind(of, swappiness);
        let counted = of.rules().gen_batch == GenBatch::Counted;
        let mut scanned = 0;
        for _ in Kind::evictable(swappiness) {
            let last = tier.take().unwrap_or_else(|| last_tier(self.lru().generations(vec), kind));
            let mut taken = self.take_oldest((vec, kind), last, looks, sc);
            scanned += taken.scanned;
            if taken.isolated > 0 || (taken.scanned > 0 && !counted) {
                taken.scanned = scanned;
                return (kind, taken);
            }
            // From 7.2 on folios that were only sorted do not have the other kind evicted.
            if taken.scanned == 0 {
                kind = kind.other();
            }
        }
        (kind, Taken { scanned, ..Taken::default() })
    }

    /// Returns whether only the two generations are left that are not evicted: up to 6.13 of one kind, later of all.
    fn is_out_of_generations(&self, vec: usize, swappiness: u64) -> bool {
        let of = self.lru().generations(vec);
        match of.rules().gen_ageing {
            GenAgeing::ByShare => of.len(Kind::evictable(swappiness)[0]) == MIN_GENS,
            GenAgeing::ByNumber => of.oldest(swappiness) + MIN_GENS > of.max_seq(),
        }
    }
}
