//! The metrics of a replay comparison: how each is read from a run, and which direction is better.

use std::collections::BTreeSet;

use pageblock::frame::{ORDER_LIMIT, Order, pages};
use pageblock::mobility::Migratetype;
use serde::Serialize;

use crate::certificate::Part;
use crate::ended::EndReason;
use crate::event_unit::EventUnit;
use crate::extfrag::{ExtfragKey, Harm};
use crate::index::unusable_free_index;
use crate::mismatch::mismatches;
use crate::names;
use crate::run::Run;
use crate::stats::Direction;
use crate::tables;
use crate::vmstat;

/// A value of a table.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A count.
    Count(u64),
    /// A share, or a cost that is not a whole number.
    Real(f64),
}

impl Value {
    /// Returns the value as a floating-point number, for ratios and printing.
    #[must_use]
    pub const fn as_f64(self) -> f64 {
        match self {
            Self::Count(count) => count as f64,
            Self::Real(real) => real,
        }
    }
}

/// The condition under which a metric has a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// Some run has a value.
    Measured,
    /// Some run has a value other than 0.
    NonZero,
}

type Read = Box<dyn Fn(&Run) -> Option<Value>>;

/// One metric.
pub struct Metric {
    /// The first column of the table, common to related rows.
    pub group: String,
    /// The second column.
    pub label: String,
    /// The better direction.
    pub direction: Direction,
    shown: Shown,
    /// Whether it counts `mm_page_alloc_extfrag` events.
    counts_events: bool,
    read: Read,
}

impl Metric {
    fn new(
        (group, label): (&str, impl Into<String>),
        direction: Direction,
        read: impl Fn(&Run) -> Option<Value> + 'static,
    ) -> Self {
        let (group, label) = (group.to_owned(), label.into());
        let shown = Shown::Measured;
        Self { group, label, direction, shown, counts_events: false, read: Box::new(read) }
    }

    fn count(
        name: (&str, impl Into<String>),
        direction: Direction,
        read: impl Fn(&Run) -> Option<u64> + 'static,
    ) -> Self {
        Self::new(name, direction, move |run| read(run).map(Value::Count))
    }

    fn counter(name: (&str, impl Into<String>), counter: impl Into<String>) -> Self {
        let counter = counter.into();
        Self::count(name, Direction::Lower, move |run| run.counters.get(&counter))
    }

    /// Makes a metric of which lower values are better.
    pub(crate) fn lower(
        name: (&str, &str),
        read: impl Fn(&Run) -> Option<Value> + 'static,
    ) -> Self {
        Self::new(name, Direction::Lower, read)
    }

    fn if_non_zero(mut self) -> Self {
        self.shown = Shown::NonZero;
        self
    }

    /// Reports whether the values of two runs have the same meaning.
    #[must_use]
    pub fn comparable(&self, a: &Run, b: &Run) -> bool {
        !self.counts_events || EventUnit::comparable(a, b)
    }

    /// Returns the value in a run; `None` if it was not measured.
    #[must_use]
    pub fn value(&self, run: &Run) -> Option<Value> {
        (self.read)(run)
    }

    /// Reports whether the metric has a row with these values.
    #[must_use]
    pub fn is_shown(&self, values: &[Option<Value>]) -> bool {
        match self.shown {
            Shown::Measured => values.iter().any(Option::is_some),
            Shown::NonZero => values.iter().flatten().any(|value| value.as_f64() != 0.0),
        }
    }
}

/// The metrics of one subject.
pub struct Subject {
    /// What is measured, with its unit.
    pub title: String,
    /// Whether they count `mm_page_alloc_extfrag` events.
    pub counts_events: bool,
    /// What part of a what-if it is, if a certificate of a recording grades it.
    pub part: Option<Part>,
    /// The metrics.
    pub metrics: Vec<Metric>,
}

impl Subject {
    fn new(title: impl Into<String>, metrics: Vec<Metric>) -> Self {
        Self { title: title.into(), counts_events: false, part: None, metrics }
    }

    fn of_events(title: impl Into<String>, mut metrics: Vec<Metric>) -> Self {
        metrics.iter_mut().for_each(|metric| metric.counts_events = true);
        Self { title: title.into(), counts_events: true, part: None, metrics }
    }

    fn graded_as(self, part: Part) -> Self {
        Self { part: Some(part), ..self }
    }
}

/// Returns every metric that some of the runs may have, in the order of the table.
#[must_use]
pub fn catalogue(runs: &[Run]) -> Vec<Subject> {
    let pageblock_order = runs.iter().map(Run::pageblock_order).max().unwrap_or(9);
    let of_workload = tables::of_workloads(runs).flat_map(|tables| &tables.measures);
    let of_workload =
        of_workload.map(|spec| Subject::new(tables::titled(&spec.title, runs), spec.metrics()));
    let unfinished = Subject::new("Runs that did not finish (runs)", unfinished());
    let common = common(runs, pageblock_order);
    std::iter::once(unfinished).chain(of_workload).chain(common).collect()
}

/// Returns the metrics that runs of every workload have.
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
            .graded_as(Part::Mismatch),
        Subject::new("Pageblocks at the end (blocks)", blocks()).graded_as(Part::Blocks),
        Subject::new("Unusable free space at the end (% of free pages)", unusable(runs))
            .graded_as(Part::FreePages),
        Subject::new("Free pages at the end by order of their block (pages)", free_pages(runs))
            .graded_as(Part::FreePages),
        Subject::new("Allocations that failed (requests)", failures()).graded_as(Part::Failures),
        Subject::new("Work of the allocator (operations)", work()),
        Subject::new("Counters (as mmtests names them)", vmstat_rows()),
    ]
}

const LOWER: Direction = Direction::Lower;
const NEITHER: Direction = Direction::Neither;

/// Returns metrics that are shown only if there is such a run.
fn unfinished() -> Vec<Metric> {
    let ends = |label, why| {
        let ended = move |run: &Run| run.ended.as_ref().is_some_and(|ended| ended.why == why);
        Metric::count(("Ended", label), LOWER, move |run| Some(ended(run).into())).if_non_zero()
    };
    vec![ends("livelock", EndReason::Livelock), ends("out-of-memory", EndReason::OutOfMemory)]
}

fn fragmentation_events(pageblock_order: Order) -> Vec<Metric> {
    let events = |label: String, which: Box<dyn Fn(&ExtfragKey) -> bool>| {
        Metric::count(("Extfrag", label), LOWER, move |run| {
            let order = run.pageblock_order();
            Some(run.extfrag.sum(|key| key.fragmenting(order) && which(key)))
        })
    };
    let mut metrics = vec![events("total".to_owned(), Box::new(|_| true))];
    for mt in Migratetype::ALL {
        let metric = events(format!("for-{mt}"), Box::new(move |key| key.alloc_mt == mt));
        metrics.push(if mt.is_mergeable() { metric } else { metric.if_non_zero() });
    }
    for mt in Migratetype::ALL {
        let metric = events(format!("from-{mt}"), Box::new(move |key| key.fallback_mt == mt));
        metrics.push(if mt.is_mergeable() { metric } else { metric.if_non_zero() });
    }
    for alloc in Migratetype::REQUESTABLE {
        for fallback in Migratetype::REQUESTABLE {
            let which =
                move |key: &ExtfragKey| (key.alloc_mt, key.fallback_mt) == (alloc, fallback);
            metrics.push(events(format!("{alloc}-from-{fallback}"), Box::new(which)).if_non_zero());
        }
    }
    for order in 0..pageblock_order {
        let which = move |key: &ExtfragKey| key.fallback_order == order;
        metrics.push(events(format!("found-order-{order}"), Box::new(which)).if_non_zero());
    }
    metrics
}

fn harms() -> Vec<Metric> {
    let total = Metric::count(("Fallback", "total"), LOWER, |run| Some(run.extfrag.total()));
    let harm = |harm: Harm| {
        // A claim is not harmful in itself: it keeps types apart, at the cost of a block.
        let direction = if harm == Harm::Claim { NEITHER } else { LOWER };
        Metric::count(("Fallback", harm.name()), direction, move |run| Some(run.extfrag.harm(harm)))
    };
    std::iter::once(total).chain(Harm::ALL.map(harm)).collect()
}

fn type_mismatch() -> Vec<Metric> {
    let total = Metric::counter(("Mismatch", "total"), names::TYPE_MISMATCH_PAGES);
    let pairs = mismatches().map(|(requested, block)| {
        let label = format!("{requested}-in-{block}");
        Metric::counter(("Mismatch", label), names::type_mismatch(requested, block))
    });
    std::iter::once(total).chain(pairs).collect()
}

fn blocks() -> Vec<Metric> {
    let mut metrics = Vec::new();
    for mt in Migratetype::ALL {
        let read = move |run: &Run| Some(run.blocks_by_type?[mt]);
        let metric = Metric::count(("Blocks", mt.name()), NEITHER, read);
        metrics.push(if mt.is_mergeable() { metric } else { metric.if_non_zero() });
    }
    let total = |run: &Run| Some(run.mixed_blocks?.total());
    metrics.push(Metric::count(("Mixed", "total"), LOWER, total));
    for mt in Migratetype::ALL {
        let read = move |run: &Run| Some(run.mixed_blocks?[mt]);
        let metric = Metric::count(("Mixed", mt.name()), LOWER, read);
        metrics.push(if mt.is_mergeable() { metric } else { metric.if_non_zero() });
    }
    metrics
}

fn unusable(runs: &[Run]) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for zone in zones(runs) {
        for order in 0..=largest_order(runs) {
            let zone = zone.clone();
            let name = ("Unusable%", format!("{zone}-order-{order}"));
            metrics.push(Metric::new(name, LOWER, move |run| {
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
    metrics
}

fn free_pages(runs: &[Run]) -> Vec<Metric> {
    let total = Metric::count(("FreePages", "total"), NEITHER, |run| {
        (0..=ORDER_LIMIT).filter_map(|order| free_pages_of(run, order)).reduce(|a, b| a + b)
    });
    let of_order = |order| {
        let read = move |run: &Run| free_pages_of(run, order);
        Metric::count(("FreePages", format!("order-{order}")), NEITHER, read)
    };
    std::iter::once(total).chain((0..=largest_order(runs)).map(of_order)).collect()
}

fn failures() -> Vec<Metric> {
    let failed = |run: &Run, order| run.counters.get(&names::alloc_failed(order));
    let total = Metric::count(("Failed", "total"), LOWER, move |run| {
        (0..=ORDER_LIMIT).filter_map(|order| failed(run, order)).reduce(|a, b| a + b)
    });
    let of_order = |order| {
        let name = ("Failed", format!("order-{order}"));
        Metric::counter(name, names::alloc_failed(order)).if_non_zero()
    };
    std::iter::once(total).chain((0..=ORDER_LIMIT).map(of_order)).collect()
}

fn work() -> Vec<Metric> {
    vec![
        Metric::counter(("Work", "zone-lock-acquired"), names::ZONE_LOCK_ACQUIRED),
        Metric::counter(("Work", "list-probes"), names::LIST_PROBES),
    ]
}

fn vmstat_rows() -> Vec<Metric> {
    vmstat::OPS
        .iter()
        .map(|op| {
            Metric::new(("Ops", op.label), op.direction, |run| op.value(&run.counters))
                .if_non_zero()
        })
        .collect()
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
