//! Advice for enough free memory without a block that is large enough.

use pageblock::request::Gfp;

use super::{
    Advice, Case, advice, is_single_and_cannot_wait, is_small_and_cannot_wait, nothing_if_rare,
};
use crate::class::COSTLY_ORDER;
use crate::interfaces::has_compaction;

/// Returns the advice for free memory without blocks of this order.
pub(super) fn of_fragmentation(case: &Case<'_>, has: &dyn Fn(&str) -> bool) -> Vec<Advice> {
    let Case { order, flags, .. } = *case;
    if !case.has_mmu() {
        return vec![advice(
            "smaller programs and stacks, started early; sysctl vm.nr_trim_pages=0 keeps blocks whole",
            "without an MMU a mapping is one block, rounded up to a power of two, and nothing can be moved or swapped",
        )];
    }
    let mut all = Vec::new();
    if !has_compaction(case.version) {
        all.push(advice(
            "a kernel from 2.6.35 on, or single pages in the driver that asks",
            "this kernel cannot move pages: large blocks come back only as processes and caches go",
        ));
    } else if flags.has(Gfp::DIRECT_RECLAIM) {
        all.push(advice(
            "echo 1 > /proc/sys/vm/compact_memory, once, and look again",
            "compaction joins free memory where the pages between are movable; if it does not help, unmovable \
             pages hold the blocks",
        ));
    }
    let is_small = is_small_and_cannot_wait(order, flags);
    let more_free = is_small.then(|| {
        advice(
            case.min_free(),
            "a caller that cannot wait lives on what is free already; with more free, blocks of small orders are among it \
             more often",
        )
    });
    // If the version is not known, settings that every kernel has come first.
    let (first, later) = if case.version.is_none() { (more_free, None) } else { (None, more_free) };
    all.extend(first);
    if has("compaction_proactiveness") {
        all.push(advice(
            "sysctl vm.compaction_proactiveness=40 (from 5.9; the default is 20)",
            "kcompactd keeps large blocks free before somebody asks",
        ));
    }
    if order > COSTLY_ORDER {
        all.push(advice(
            "kvmalloc, scatter-gather or CMA in the driver that asks for this order",
            "above order 3 the kernel gives up early by design, and may fail at any time",
        ));
    } else if is_small {
        all.extend(later);
        all.push(nothing_if_rare(case));
    }
    all
}

/// Returns the advice if only CMA memory is free.
pub(super) fn of_only_cma(case: &Case<'_>) -> Vec<Advice> {
    let mut all = Vec::new();
    if case.order > 0 && case.flags.has(Gfp::DIRECT_RECLAIM) {
        all.push(advice(
            "echo 1 > /proc/sys/vm/compact_memory, once, and look again",
            "what is free outside of CMA is in smaller blocks, which compaction joins where the pages between are movable",
        ));
    }
    all.push(advice(
        "a smaller cma= on the kernel's command line",
        "free CMA memory serves movable requests only, and counts as free all the same",
    ));
    if is_single_and_cannot_wait(case.order, case.flags) {
        all.push(advice(
            case.min_free(),
            "kswapd leaves CMA out of what it keeps free, so that more single pages are there for callers \
             that cannot wait",
        ));
        all.push(nothing_if_rare(case));
    }
    all
}
