//! The rows of a comparison, in sections: what each is, how it is read from a run, and which way is better.

use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{Measure, Shown, Unit, Value, gigabytes, vmstat};
use crate::certificate::Part;
use crate::run::Run;
use crate::run::policies::{of_workloads, titled};
use crate::statistics::stats::Direction;
use crate::value::ended::EndReason;
use crate::value::extfrag::{ExtfragKey, Harm};
use crate::value::index::unusable_free_index;
use crate::value::mismatch::mismatches;
use crate::value::names;
use pageblock::frame::{ORDER_LIMIT, Order, pages};
use pageblock::mobility::Migratetype;

/// The measures of one subject.
pub struct Subject {
    /// What is measured, with its unit.
    pub title: String,
    /// Whether they count `mm_page_alloc_extfrag` events.
    pub counts_events: bool,
    /// What part of a what-if it is, if a certificate of a recording grades it.
    pub part: Option<Part>,
    /// The measures.
    pub measures: Vec<Measure>,
}

impl Subject {
    fn new(title: impl Into<String>, measures: Vec<Measure>) -> Self {
        Self { title: title.into(), counts_events: false, part: None, measures }
    }

    fn of_events(title: impl Into<String>, measures: Vec<Measure>) -> Self {
        let event = |measure| Measure {
            unit: Unit::Events,
            defined: Cow::Borrowed(names::MM_PAGE_ALLOC_EXTFRAG),
            counts_events: true,
            ..measure
        };
        let measures = measures.into_iter().map(event).collect();
        Self { counts_events: true, ..Self::new(title, measures) }
    }

    /// Sets the unit of all, and where those are defined that do not say it themselves.
    fn in_unit(mut self, unit: Unit, defined: &'static str) -> Self {
        for measure in &mut self.measures {
            measure.unit = unit;
            if measure.defined.is_empty() {
                measure.defined = defined.into();
            }
        }
        self
    }

    fn graded_as(mut self, part: Part) -> Self {
        self.measures.iter_mut().for_each(|measure| measure.part = Some(part));
        Self { part: Some(part), ..self }
    }
}

fn count(
    name: (&str, impl AsRef<str>),
    direction: Direction,
    read: impl Fn(&Run) -> Option<u64> + Send + Sync + 'static,
) -> Measure {
    Measure::row(name, direction, move |run| read(run).map(Value::Count))
}

fn counter(name: (&str, impl AsRef<str>), counter: impl Into<String>) -> Measure {
    let counter = counter.into();
    let defined = counter.clone();
    count(name, LOWER, move |run| run.counters.get(&counter)).defined_as(defined)
}

impl Measure {
    fn if_non_zero(self) -> Self {
        Self { shown: Shown::NonZero, ..self }
    }
}

/// Returns every measure that some of the runs may have, in the order of the table.
#[must_use]
pub fn of_runs(runs: &[Run]) -> Vec<Subject> {
    let pageblock_order = runs.iter().map(Run::pageblock_order).max().unwrap_or(9);
    let of_workload = of_workloads(runs).flat_map(|tables| &tables.measures);
    let of_workload =
        of_workload.map(|spec| Subject::new(titled(&spec.title, runs), spec.measures()));
    let unfinished = Subject::new("Runs that did not finish (runs)", unfinished())
        .in_unit(Unit::Runs, "the run's end");
    let common = common(runs, pageblock_order);
    std::iter::once(unfinished).chain(of_workload).chain(common).collect()
}

/// Returns the measures that runs of every workload have.
fn common(runs: &[Run], pageblock_order: Order) -> Vec<Subject> {
    vec![
        Subject::of_events(
            format!(
                "External fragmentation events (mm_page_alloc_extfrag below order {pageblock_order})"
            ),
            fragmentation_events(pageblock_order),
        )
        .graded_as(Part::Fragmentation),
        Subject::of_events(
            "All fallbacks by what they do to the block (mm_page_alloc_extfrag)",
            harms(),
        )
        .graded_as(Part::Effects),
        Subject::new("Pages allocated into a block of another type (pages)", type_mismatch())
            .in_unit(Unit::Pages, "mm_page_alloc and the pageblock's type")
            .graded_as(Part::Mismatch),
        Subject::new("Pageblocks at the end (blocks)", blocks())
            .in_unit(Unit::Pageblocks, "/proc/pagetypeinfo")
            .graded_as(Part::Blocks),
        Subject::new("Mixed pageblocks at the end (blocks)", mixed())
            .in_unit(Unit::Pageblocks, "mm/page_owner.c, pagetypeinfo_showmixedcount_print")
            .graded_as(Part::Mixed),
        Subject::new("Unusable free space at the end (% of free pages)", unusable(runs))
            .in_unit(Unit::Percent, "mm/vmstat.c, unusable_free_index")
            .graded_as(Part::FreePages),
        Subject::new("Free pages at the end by order of their block (pages)", free_pages(runs))
            .in_unit(Unit::Pages, "/proc/buddyinfo")
            .graded_as(Part::FreePages),
        Subject::new("Gigabytes at the end (% of whole ones)", gigabytes::measures().to_vec()),
        Subject::new("Allocations that failed (requests)", failures())
            .in_unit(Unit::Requests, "mm_page_alloc without a page")
            .graded_as(Part::Failures),
        Subject::new("Work of the allocator (operations)", work())
            .in_unit(Unit::Operations, "the allocator's observer"),
        Subject::new("Counters (as mmtests names them)", vmstat::rows().to_vec()),
    ]
}

const LOWER: Direction = Direction::Lower;
const NEITHER: Direction = Direction::Neither;

/// Returns measures that are shown only if there is such a run.
fn unfinished() -> Vec<Measure> {
    let ends = |label, why| {
        let ended = move |run: &Run| run.ended.as_ref().is_some_and(|ended| ended.why == why);
        count(("Ended", label), LOWER, move |run| Some(ended(run).into())).if_non_zero()
    };
    vec![ends("livelock", EndReason::Livelock), ends("out-of-memory", EndReason::OutOfMemory)]
}

fn fragmentation_events(pageblock_order: Order) -> Vec<Measure> {
    let events = |label: String, which: Box<dyn Fn(&ExtfragKey) -> bool + Send + Sync>| {
        count(("Extfrag", label), LOWER, move |run| {
            let order = run.pageblock_order();
            Some(run.extfrag.sum(|key| key.fragmenting(order) && which(key)))
        })
    };
    let mut measures = vec![events("total".to_owned(), Box::new(|_| true))];
    for mt in Migratetype::ALL {
        let measure = events(format!("for-{mt}"), Box::new(move |key| key.alloc_mt == mt));
        measures.push(if mt.is_mergeable() { measure } else { measure.if_non_zero() });
    }
    for mt in Migratetype::ALL {
        let measure = events(format!("from-{mt}"), Box::new(move |key| key.fallback_mt == mt));
        measures.push(if mt.is_mergeable() { measure } else { measure.if_non_zero() });
    }
    for alloc in Migratetype::REQUESTABLE {
        for fallback in Migratetype::REQUESTABLE {
            let which =
                move |key: &ExtfragKey| (key.alloc_mt, key.fallback_mt) == (alloc, fallback);
            measures
                .push(events(format!("{alloc}-from-{fallback}"), Box::new(which)).if_non_zero());
        }
    }
    for order in 0..pageblock_order {
        let which = move |key: &ExtfragKey| key.fallback_order == order;
        measures.push(events(format!("found-order-{order}"), Box::new(which)).if_non_zero());
    }
    measures
}

fn harms() -> Vec<Measure> {
    let total = count(("Fallback", "total"), LOWER, |run| Some(run.extfrag.total()));
    let harm = |harm: Harm| {
        // A claim is not harmful in itself: it keeps types apart, at the cost of a block.
        let direction = if harm == Harm::Claim { NEITHER } else { LOWER };
        count(("Fallback", harm.name()), direction, move |run| Some(run.extfrag.harm(harm)))
    };
    std::iter::once(total).chain(Harm::ALL.map(harm)).collect()
}

fn type_mismatch() -> Vec<Measure> {
    let total = counter(("Mismatch", "total"), names::TYPE_MISMATCH_PAGES);
    let pairs = mismatches().map(|(requested, block)| {
        let label = format!("{requested}-in-{block}");
        counter(("Mismatch", label), names::type_mismatch(requested, block))
    });
    std::iter::once(total).chain(pairs).collect()
}

fn blocks() -> Vec<Measure> {
    let mut measures = Vec::new();
    for mt in Migratetype::ALL {
        let read = move |run: &Run| Some(run.blocks_by_type?[mt]);
        let measure = count(("Blocks", mt.name()), NEITHER, read);
        measures.push(if mt.is_mergeable() { measure } else { measure.if_non_zero() });
    }
    measures
}

fn mixed() -> Vec<Measure> {
    let total = |run: &Run| Some(run.mixed_blocks?.total());
    let mut measures = vec![count(("Mixed", "total"), LOWER, total)];
    for mt in Migratetype::ALL {
        let read = move |run: &Run| Some(run.mixed_blocks?[mt]);
        let measure = count(("Mixed", mt.name()), LOWER, read);
        measures.push(if mt.is_mergeable() { measure } else { measure.if_non_zero() });
    }
    measures
}

fn unusable(runs: &[Run]) -> Vec<Measure> {
    let mut measures = Vec::new();
    for zone in zones(runs) {
        for order in 0..=largest_order(runs) {
            let zone = zone.clone();
            let name = ("Unusable%", format!("{zone}-order-{order}"));
            measures.push(Measure::row(name, LOWER, move |run| {
                let saved = run.unusable_free_index.get(&zone);
                let saved = saved.and_then(|row| row.get(usize::from(order)).copied());
                let thousandths = saved.or_else(|| {
                    let free_blocks = run.free_blocks.get(&zone)?;
                    let known = usize::from(order) < free_blocks.len();
                    known.then(|| unusable_free_index(free_blocks, order))
                });
                thousandths.map(|index| Value::Real(index as f64 / 10.0))
            }));
        }
    }
    measures
}

fn free_pages(runs: &[Run]) -> Vec<Measure> {
    let total = count(("FreePages", "total"), NEITHER, |run| {
        (0..=ORDER_LIMIT).filter_map(|order| free_pages_of(run, order)).reduce(|a, b| a + b)
    });
    let of_order = |order| {
        let read = move |run: &Run| free_pages_of(run, order);
        count(("FreePages", format!("order-{order}")), NEITHER, read)
    };
    std::iter::once(total).chain((0..=largest_order(runs)).map(of_order)).collect()
}

fn failures() -> Vec<Measure> {
    let failed = |run: &Run, order| run.counters.get(&names::alloc_failed(order));
    let total = count(("Failed", "total"), LOWER, move |run| {
        (0..=ORDER_LIMIT).filter_map(|order| failed(run, order)).reduce(|a, b| a + b)
    });
    let of_order = |order| {
        let name = ("Failed", format!("order-{order}"));
        counter(name, names::alloc_failed(order)).if_non_zero()
    };
    std::iter::once(total).chain((0..=ORDER_LIMIT).map(of_order)).collect()
}

fn work() -> Vec<Measure> {
    vec![
        counter(("Work", "zone-lock-acquired"), names::ZONE_LOCK_ACQUIRED),
        counter(("Work", "list-probes"), names::LIST_PROBES),
    ]
}

/// Returns the free pages of one order in all zones; `None` if no zone has the order.
fn free_pages_of(run: &Run, order: Order) -> Option<u64> {
    let blocks = run.free_blocks.values().filter_map(|row| row.get(usize::from(order)));
    blocks.copied().reduce(|a, b| a + b).map(|blocks| blocks * pages(order))
}

fn zones(runs: &[Run]) -> BTreeSet<String> {
    let zones = |run: &Run| {
        let named: Vec<String> =
            run.unusable_free_index.keys().chain(run.free_blocks.keys()).cloned().collect();
        named
    };
    runs.iter().flat_map(zones).collect()
}

fn largest_order(runs: &[Run]) -> Order {
    let rows = |run: &Run| {
        let rows = run.unusable_free_index.values().chain(run.free_blocks.values());
        rows.map(Vec::len).max().unwrap_or(0)
    };
    let orders = runs.iter().map(rows).max().unwrap_or(0);
    Order::try_from(orders.saturating_sub(1)).unwrap_or(ORDER_LIMIT).min(ORDER_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_named_once_and_says_where_it_is_defined() {
        let mut run = Run::default();
        run.set_free_blocks("Normal", vec![1; 11]);
        let subjects = of_runs(&[run]);
        let all: Vec<&Measure> = subjects.iter().flat_map(|subject| &subject.measures).collect();
        for (at, measure) in all.iter().enumerate() {
            assert!(!all[..at].iter().any(|other| other.id == measure.id), "{measure:?}");
            assert!(!measure.defined.is_empty() && measure.unit != Unit::OfSection, "{measure:?}");
        }
    }
}
