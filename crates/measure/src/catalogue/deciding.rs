//! The few measures that decide between policies.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use pageblock::mobility::Migratetype;

use super::{Measure, Shown, Unit, Value, vmstat};
use crate::certificate::Part;
use crate::run::Run;
use crate::statistics::stats::Direction::{self, Higher, Lower};
use crate::value::index::unusable_free_index;
use crate::value::names;

/// The names of the measures.
pub mod id {
    /// Runs in which the workload did not finish.
    pub const UNFINISHED: &str = "unfinished";
    /// The share of huge page faults that got a huge page.
    pub const HUGE_ON_FAULT: &str = "huge-pages-on-fault";
    /// Requests that no zone served.
    pub const FAILED: &str = "failed-requests";
    /// Fallbacks for unmovable requests into a block that they leave mixed.
    pub const UNMOVABLE_FALLBACKS: &str = "unmovable-fallbacks";
    /// Such fallbacks for reclaimable requests.
    pub const RECLAIMABLE_FALLBACKS: &str = "reclaimable-fallbacks";
    /// Such fallbacks for movable requests.
    pub const MOVABLE_FALLBACKS: &str = "movable-fallbacks";
    /// Pages that were allocated from a pageblock of another type.
    pub const MISMATCHED_PAGES: &str = "mismatched-pages";
    /// Pageblocks with pages of another type at the end.
    pub const MIXED_PAGEBLOCKS: &str = "mixed-pageblocks";
    /// The share of free memory in blocks below a pageblock at the end.
    pub const FREE_IN_SMALL_BLOCKS: &str = "free-in-small-blocks";
    /// Requests that reclaimed memory themselves.
    pub const ALLOCATION_STALLS: &str = "allocation-stalls";
    /// Pages that kswapd and direct reclaim freed.
    pub const PAGES_RECLAIMED: &str = "pages-reclaimed";
    /// Pages that both scanners of compaction looked at.
    pub const PAGES_SCANNED: &str = "pages-scanned-by-compaction";
}

/// Returns the measures, in the order of importance.
#[must_use]
pub fn measures() -> &'static [Measure] {
    static ALL: LazyLock<Vec<Measure>> = LazyLock::new(all);
    &ALL
}

/// Returns the id of every one.
#[must_use]
pub fn names() -> Vec<&'static str> {
    measures().iter().map(|measure| measure.id.as_ref()).collect()
}

/// Returns a measure by its name in [`id`].
#[must_use]
pub fn by_id(id: &str) -> Option<&'static Measure> {
    measures().iter().find(|measure| measure.id == id)
}

fn all() -> Vec<Measure> {
    use Migratetype::{Movable, Reclaimable, Unmovable};
    let (stalls, better, counter) = vmstat::ALLOCATION_STALLS;
    vec![
        measure(id::UNFINISHED, "Runs that did not finish", Unit::Runs, Lower, |run| {
            Some(f64::from(run.ended.is_some()))
        })
        .defined_as("the run's end"),
        measure(id::HUGE_ON_FAULT, "Huge pages on fault", Unit::Percent, Higher, huge_on_fault)
            .defined_as("thp_fault_alloc / (thp_fault_alloc + thp_fault_fallback)"),
        measure(id::FAILED, "Requests that failed", Unit::Requests, Lower, failed)
            .defined_as("mm_page_alloc without a page")
            .graded_as(Part::Failures),
        fallbacks(id::UNMOVABLE_FALLBACKS, "Fragmenting fallbacks, unmovable", Unmovable),
        fallbacks(id::RECLAIMABLE_FALLBACKS, "Fragmenting fallbacks, reclaimable", Reclaimable),
        fallbacks(id::MOVABLE_FALLBACKS, "Fragmenting fallbacks, movable", Movable),
        measure(
            id::MISMATCHED_PAGES,
            "Pages in a block of another type",
            Unit::Pages,
            Lower,
            |run| counted(run, names::TYPE_MISMATCH_PAGES),
        )
        .defined_as("mm_page_alloc and the pageblock's type")
        .graded_as(Part::Mismatch),
        measure(
            id::MIXED_PAGEBLOCKS,
            "Mixed pageblocks at the end",
            Unit::Pageblocks,
            Lower,
            |run| Some(run.mixed_blocks?.total() as f64),
        )
        .defined_as("mm/page_owner.c, pagetypeinfo_showmixedcount_print")
        .graded_as(Part::Mixed),
        measure(
            id::FREE_IN_SMALL_BLOCKS,
            "Free in too small blocks",
            Unit::Percent,
            Lower,
            free_in_small_blocks,
        )
        .defined_as("mm/vmstat.c, unusable_free_index, of all zones at the order of a pageblock")
        .graded_as(Part::FreePages),
        measure(id::ALLOCATION_STALLS, stalls, Unit::Requests, better, move |run| {
            counter.value(&run.counters).map(Value::as_f64)
        })
        .defined_as("allocstall, over all zones"),
        measure(id::PAGES_RECLAIMED, "Pages reclaimed", Unit::Pages, Lower, |run| {
            sum(run, ["pgsteal_kswapd", "pgsteal_direct"])
        })
        .defined_as("pgsteal_kswapd + pgsteal_direct"),
        measure(id::PAGES_SCANNED, "Pages scanned by compaction", Unit::Pages, Lower, |run| {
            sum(run, ["compact_migrate_scanned", "compact_free_scanned"])
        })
        .defined_as("compact_migrate_scanned + compact_free_scanned"),
    ]
}

/// Makes a measure; its label is the words and the unit.
fn measure(
    id: &'static str,
    words: &str,
    unit: Unit,
    direction: Direction,
    read: impl Fn(&Run) -> Option<f64> + Send + Sync + 'static,
) -> Measure {
    Measure {
        id: Cow::Borrowed(id),
        group: Cow::Borrowed(""),
        label: format!("{words}{}", unit.in_brackets()).into(),
        unit,
        direction,
        defined: Cow::Borrowed(""),
        part: None,
        counts_events: false,
        shown: Shown::NonZero,
        read: Arc::new(move |run| read(run).map(Value::Real)),
    }
}

fn fallbacks(id: &'static str, words: &str, mt: Migratetype) -> Measure {
    let of = measure(id, words, Unit::Events, Lower, move |run| {
        let order = run.pageblock_order();
        Some(run.extfrag.sum(|key| key.fragmenting(order) && key.alloc_mt == mt) as f64)
    });
    Measure { counts_events: true, ..of }
        .defined_as(names::MM_PAGE_ALLOC_EXTFRAG)
        .graded_as(Part::Fragmentation)
}

fn counted(run: &Run, name: &str) -> Option<f64> {
    run.counters.get(name).map(|count| count as f64)
}

fn sum(run: &Run, names: [&str; 2]) -> Option<f64> {
    names.iter().filter_map(|name| counted(run, name)).reduce(|a, b| a + b)
}

fn huge_on_fault(run: &Run) -> Option<f64> {
    let got = counted(run, "thp_fault_alloc")?;
    let wanted = got + counted(run, "thp_fault_fallback")?;
    (wanted > 0.0).then(|| 100.0 * got / wanted)
}

fn failed(run: &Run) -> Option<f64> {
    let orders = 0..=pageblock::frame::ORDER_LIMIT;
    let failed = orders.filter_map(|order| counted(run, &names::alloc_failed(order)));
    failed.reduce(|a, b| a + b)
}

/// Returns the share of all free pages in blocks below the order of a pageblock.
fn free_in_small_blocks(run: &Run) -> Option<f64> {
    let mut all: Vec<u64> = Vec::new();
    for blocks in run.free_blocks.values() {
        all.resize(all.len().max(blocks.len()), 0);
        all.iter_mut().zip(blocks).for_each(|(sum, blocks)| *sum += blocks);
    }
    let order = run.pageblock_order();
    (usize::from(order) < all.len()).then(|| unusable_free_index(&all, order) as f64 / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measure_is_named_once_and_says_where_it_is_defined() {
        for (at, measure) in measures().iter().enumerate() {
            let same = |other: &Measure| other.id == measure.id || other.label == measure.label;
            assert!(!measures()[..at].iter().any(same), "{measure:?}");
            assert!(!measure.defined.is_empty(), "{measure:?}");
            assert_eq!(measure.label.ends_with(" [%]"), measure.unit == Unit::Percent);
            assert!(!measures()[..at].iter().any(|other| other.column() == measure.column()));
        }
    }

    /// Queries of users have these names.
    #[test]
    fn columns_stay_what_queries_have() {
        let columns: Vec<String> = measures().iter().map(Measure::column).collect();
        assert_eq!(
            columns,
            [
                "unfinished",
                "huge_fault_percent",
                "failed_requests",
                "unmovable_fallbacks",
                "reclaimable_fallbacks",
                "movable_fallbacks",
                "mismatched_pages",
                "mixed_pageblocks",
                "free_in_small_blocks_percent",
                "allocation_stalls",
                "pages_reclaimed",
                "pages_scanned_by_compaction",
            ]
        );
    }

    /// Saved tables and JSON have these keys.
    #[test]
    fn labels_stay_what_tables_have() {
        let labels: Vec<&str> = measures().iter().map(|measure| &*measure.label).collect();
        assert_eq!(
            labels,
            [
                "Runs that did not finish",
                "Huge pages on fault [%]",
                "Requests that failed",
                "Fragmenting fallbacks, unmovable",
                "Fragmenting fallbacks, reclaimable",
                "Fragmenting fallbacks, movable",
                "Pages in a block of another type",
                "Mixed pageblocks at the end",
                "Free in too small blocks [%]",
                "Allocation stalls",
                "Pages reclaimed",
                "Pages scanned by compaction",
            ]
        );
    }
}
