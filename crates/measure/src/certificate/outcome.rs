//! What a recording and a replay of it are compared in.

use std::collections::{BTreeMap, BTreeSet};

use pageblock::frame::Order;
use pageblock::mobility::Migratetype;
use serde::{Deserialize, Serialize};

use super::course::Course;
use super::support::{Distance, FEW, Measure};
use crate::value::blocks::TypeCounts;
use crate::value::counters::Counters;
use crate::value::extfrag::{ExtfragMatrix, Harm};
use crate::value::names;

/// What happened, recorded or replayed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// The fallbacks; `None` if the recording lacks their events.
    pub extfrag: Option<ExtfragMatrix>,
    /// When fragmenting fallbacks happened.
    pub fallbacks: Course,
    /// Pages allocated into a block of another type ([`crate::value::mismatch::TypeMismatch::counters`]); `None` if the
    /// blocks' types are unknown.
    pub mismatch: Option<Counters>,
    /// Requests that failed.
    pub failed: u64,
    /// Pageblocks at the end with pages that were requested as another type; `None` if the requests or the blocks' types are
    /// unknown.
    pub mixed: Option<u64>,
    /// The state at the end; `None` if it is unknown.
    pub end: Option<EndState>,
}

/// Free memory and pageblocks at the end.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct EndState {
    /// Free pages of the buddy lists by the order of their block and the list's type, such as `3 Movable`; the
    /// type is `?` where it is unknown.
    pub free_pages: BTreeMap<String, u64>,
    /// Pageblocks by type; `None` if they are unknown.
    pub blocks: Option<TypeCounts>,
}

impl EndState {
    /// Adds free blocks.
    pub fn add_free(&mut self, order: Order, mt: Option<Migratetype>, blocks: u64) {
        let mt = mt.map_or("?", Migratetype::name);
        *self.free_pages.entry(format!("{order} {mt}")).or_default() += blocks << order;
    }

    fn by_order(&self) -> BTreeMap<&str, u64> {
        let mut sums = BTreeMap::new();
        for (key, pages) in &self.free_pages {
            *sums.entry(key.split(' ').next().unwrap_or_default()).or_default() += pages;
        }
        sums
    }

    fn types_are_known(&self) -> bool {
        !self.free_pages.keys().any(|key| key.ends_with('?'))
    }
}

impl Outcome {
    /// Returns how far a replay is from this recorded outcome, by every measure that both have.
    #[must_use]
    pub fn distances(&self, replayed: &Self, pageblock_order: Order) -> Vec<Distance> {
        let mut distances = Vec::new();
        if let (Some(a), Some(b)) = (&self.extfrag, &replayed.extfrag) {
            let totals = (a.fragmenting(pageblock_order), b.fragmenting(pageblock_order));
            let by_type = |matrix: &ExtfragMatrix| by_type(matrix, pageblock_order);
            distances.push(relative(Measure::FallbackTotal, totals));
            distances.push(cells(Measure::FallbackTypes, &by_type(a), &by_type(b)));
            distances.push(cells(Measure::FallbackEffects, &by_effect(a), &by_effect(b)));
            let (recorded, replayed) = (&self.fallbacks, &replayed.fallbacks);
            if recorded.total().min(replayed.total()) >= FEW
                && let Some(gap) = recorded.distance(replayed)
            {
                // All fallbacks have a time, those of whole pageblocks too.
                let all = (recorded.total(), replayed.total());
                distances.push(Distance::new(Measure::FallbackTime, all, gap));
            }
        }
        if let (Some(a), Some(b)) = (&self.mismatch, &replayed.mismatch) {
            let total = |of: &Counters| of.get(names::TYPE_MISMATCH_PAGES).unwrap_or(0);
            distances.push(relative(Measure::MismatchTotal, (total(a), total(b))));
            distances.push(cells(Measure::MismatchTypes, &pairs(a), &pairs(b)));
        }
        distances.push(relative(Measure::Failed, (self.failed, replayed.failed)));
        if let (Some(a), Some(b)) = (self.mixed, replayed.mixed) {
            distances.push(relative(Measure::MixedBlocks, (a, b)));
        }
        if let (Some(a), Some(b)) = (&self.end, &replayed.end) {
            distances.extend(shares(Measure::FreeByOrder, &a.by_order(), &b.by_order()));
            if a.types_are_known() && b.types_are_known() {
                distances.extend(shares(Measure::FreeByType, &a.free_pages, &b.free_pages));
            }
            if let (Some(a), Some(b)) = (&a.blocks, &b.blocks) {
                let map = |of: &TypeCounts| of.iter().collect::<BTreeMap<_, _>>();
                distances.extend(shares(Measure::Blocks, &map(a), &map(b)));
            }
        }
        distances
    }
}

/// Returns of the distances of several replays the median one of each measure.
#[must_use]
pub fn median(mut draws: Vec<Vec<Distance>>) -> Vec<Distance> {
    draws.sort_by_key(Vec::len);
    let measures: Vec<Measure> = draws.last().into_iter().flatten().map(|d| d.measure).collect();
    let middle = |measure| {
        let mut of: Vec<&Distance> =
            draws.iter().flatten().filter(|d| d.measure == measure).collect();
        of.sort_by_key(|d| d.permyriad);
        of.get(of.len() / 2).map(|&distance| distance.clone())
    };
    measures.into_iter().filter_map(middle).collect()
}

fn by_type(
    matrix: &ExtfragMatrix,
    pageblock_order: Order,
) -> BTreeMap<(Migratetype, Migratetype), u64> {
    let mut sums = BTreeMap::new();
    for (key, count) in matrix.iter().filter(|(key, _)| key.fragmenting(pageblock_order)) {
        *sums.entry((key.alloc_mt, key.fallback_mt)).or_default() += count;
    }
    sums
}

fn by_effect(matrix: &ExtfragMatrix) -> BTreeMap<&'static str, u64> {
    Harm::ALL.into_iter().map(|harm| (harm.name(), matrix.harm(harm))).collect()
}

fn pairs(mismatch: &Counters) -> BTreeMap<&str, u64> {
    mismatch.iter().filter(|(name, _)| *name != names::TYPE_MISMATCH_PAGES).collect()
}

/// The difference of two counts as a share of the recorded one.
fn relative(measure: Measure, (recorded, replayed): (u64, u64)) -> Distance {
    let share = recorded.abs_diff(replayed) as f64 / recorded.max(FEW) as f64;
    Distance::new(measure, (recorded, replayed), share)
}

/// The sum of the differences of all cells as a share of the recorded sum.
fn cells<K: Ord>(
    measure: Measure,
    recorded: &BTreeMap<K, u64>,
    replayed: &BTreeMap<K, u64>,
) -> Distance {
    let value = |of: &BTreeMap<K, u64>, key| of.get(key).copied().unwrap_or(0);
    let keys: BTreeSet<&K> = recorded.keys().chain(replayed.keys()).collect();
    let differences =
        keys.into_iter().map(|key| value(recorded, key).abs_diff(value(replayed, key)));
    let sums = (recorded.values().sum::<u64>(), replayed.values().sum());
    let share = differences.sum::<u64>() as f64 / sums.0.max(FEW) as f64;
    Distance::new(measure, sums, share)
}

/// The share of one whole that lies in other cells than in the other whole (total variation, 0 to 1); `None`
/// if one of them is empty.
fn shares<K: Ord>(
    measure: Measure,
    recorded: &BTreeMap<K, u64>,
    replayed: &BTreeMap<K, u64>,
) -> Option<Distance> {
    let sums = (recorded.values().sum::<u64>(), replayed.values().sum::<u64>());
    if sums.0 == 0 || sums.1 == 0 {
        return None;
    }
    let share =
        |of: &BTreeMap<K, u64>, key, sum| of.get(key).copied().unwrap_or(0) as f64 / sum as f64;
    let keys: BTreeSet<&K> = recorded.keys().chain(replayed.keys()).collect();
    let gaps = keys
        .into_iter()
        .map(|key| (share(recorded, key, sums.0) - share(replayed, key, sums.1)).abs());
    let moved = gaps.sum::<f64>() / 2.0;
    Some(Distance::new(measure, sums, moved))
}
