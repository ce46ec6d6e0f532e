//! How fast the recorded machine reclaimed: the only time in a closed loop that is not the recording's clock.

use pageblock_replay::Error;
use pageblock_replay::demand::{Demand, Demands};
use pageblock_vm::work::Work;

/// Nanoseconds to reclaim a page on a CPU of 2018, and to migrate one, as `pageblock-simulate` charges them.
const RECLAIM_NS: u64 = 260;
const MIGRATE_NS: u64 = 2_114;
const SCAN_NS: u64 = 60;
const COMPACT_SCAN_NS: u64 = 14;
/// A step takes at least so long.
const LEAST_NS: u64 = 100;

/// How many times slower than that a machine is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pace {
    /// In sixteenths.
    slower: u64,
}

impl Pace {
    /// Measures the recorded kswapd: the time of its runs over the pages that reclaim freed in them; a recording without is
    /// taken to be as fast as a CPU of 2018.
    pub(crate) fn of(demands: &Demands) -> Result<Self, Error> {
        let (mut since, mut busy_ms, mut pages) = (None, 0u64, 0u64);
        let mut chunks = demands.chunks()?;
        while let Some(chunk) = chunks.next_chunk()? {
            for timed in chunk {
                match timed.demand {
                    Demand::Kswapd { running: true, .. } => {
                        since.get_or_insert(timed.t_ms);
                    }
                    Demand::Kswapd { running: false, .. } => {
                        let since = since.take().unwrap_or(timed.t_ms);
                        busy_ms += u64::from(timed.t_ms.saturating_sub(since));
                    }
                    Demand::Free { order, reclaimed: true, .. } if since.is_some() => {
                        pages += 1 << order;
                    }
                    _ => {}
                }
            }
        }
        Ok(Self::measured(busy_ms, pages))
    }

    fn measured(busy_ms: u64, pages: u64) -> Self {
        let a_page = (busy_ms * 1_000_000).checked_div(pages).unwrap_or(RECLAIM_NS);
        Self { slower: (16 * a_page / RECLAIM_NS).max(16) }
    }

    /// Returns the nanoseconds that work takes.
    pub(crate) const fn cost(self, work: &Work) -> u64 {
        let ns = work.scanned * SCAN_NS
            + work.reclaimed * (RECLAIM_NS - SCAN_NS)
            + work.compact_scanned * COMPACT_SCAN_NS
            + work.migrated * MIGRATE_NS
            + LEAST_NS;
        ns * self.slower / 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recorded_kswapd_tells_the_pace() {
        let work = Work { scanned: 100, reclaimed: 100, ..Work::default() };
        assert_eq!(Pace::measured(0, 0).cost(&work), 100 * RECLAIM_NS + LEAST_NS);
        assert_eq!(Pace::measured(26, 10_000).cost(&work), 10 * (100 * RECLAIM_NS + LEAST_NS));
    }
}
