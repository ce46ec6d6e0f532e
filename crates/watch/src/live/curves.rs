//! The figures of this machine over time.

use pageblock_doctor::checkup::Rates;
use pageblock_measure::value::history::Content;
use pageblock_measure::value::index::unusable_free_index;

use crate::source::{About, Curve, Moment};

/// The moments that are kept: an hour by the second.
const KEPT: usize = 3600;

/// What the figures of a moment come from.
pub(super) struct Now<'a> {
    pub(super) moment: &'a Moment,
    pub(super) about: &'a About,
    pub(super) rates: Option<&'a Rates>,
    /// By requesting type: unmovable, movable, reclaimable; since the moment before.
    pub(super) fallbacks: Option<[u64; 3]>,
}

/// The figures, those that matter most first.
pub(super) struct Curves {
    curves: Vec<Curve>,
}

impl Curves {
    pub(super) fn new(pageblock_order: u8) -> Self {
        let unusable = format!("free below order {pageblock_order}");
        let names = [
            ("fallbacks: unmovable", "/s"),
            ("fallbacks: reclaimable", "/s"),
            ("fallbacks: movable", "/s"),
            ("stalls: direct reclaim", "/s"),
            ("stalls: compaction", "/s"),
            ("waited for memory", "%"),
            ("faults: not huge", "/s"),
            ("faults: huge pages", "/s"),
            ("kswapd freed", "pages/s"),
            ("kcompactd scanned", "pages/s"),
            ("swapped out", "pages/s"),
            ("free memory", "MiB"),
            (unusable.as_str(), "%"),
            ("blocks held", ""),
        ];
        let curve = |(name, unit): (&str, &'static str)| Curve {
            name: name.to_owned(),
            unit,
            values: Vec::new(),
        };
        Self { curves: names.map(curve).to_vec() }
    }

    pub(super) fn all(&self) -> &[Curve] {
        &self.curves
    }

    pub(super) fn len(&self) -> usize {
        self.curves.first().map_or(0, |curve| curve.values.len())
    }

    /// Adds a moment.
    pub(super) fn push(&mut self, now: &Now<'_>) {
        let Now { moment, about, rates, fallbacks } = *now;
        let rate = |of: fn(&Rates) -> f64| rates.map(of);
        let fallback = |at: usize| Some(fallbacks?[at] as f64 / rates?.seconds);
        let free: u64 = moment.zones.iter().map(|zone| zone.free).sum();
        let held = |cell: &pageblock_measure::value::history::Cell| {
            cell.stuck > 0 && cell.content != Content::Reserved
        };
        let read = moment.cells.iter().flatten();
        let all = moment.cells.iter().all(Option::is_some) && !moment.cells.is_empty();
        let values = [
            fallback(0),
            fallback(2),
            fallback(1),
            rate(|rates| rates.direct_reclaim),
            rate(|rates| rates.compact_stall),
            rates.and_then(|rates| rates.pressure_some),
            rate(|rates| rates.thp_fallback),
            rate(|rates| rates.thp_alloc),
            rate(|rates| rates.kswapd_freed),
            rate(|rates| rates.kcompactd_scanned),
            rate(|rates| rates.swapped_out),
            Some(about.mib(free)),
            unusable(moment, about.pageblock_order),
            all.then(|| read.filter(|cell| held(cell)).count() as f64),
        ];
        for (curve, value) in self.curves.iter_mut().zip(values) {
            if curve.values.len() == KEPT {
                curve.values.remove(0);
            }
            curve.values.push(value);
        }
    }
}

/// Returns the share of free memory in blocks below an order, in percent.
fn unusable(moment: &Moment, order: u8) -> Option<f64> {
    let free = crate::screen::free_blocks(&moment.zones, None);
    let any = free.iter().any(|&blocks| blocks > 0);
    any.then(|| unusable_free_index(&free, order) as f64 / 10.0)
}
