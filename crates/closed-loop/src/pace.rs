//! The speed at which the recorded machine reclaimed and wrote: the only times in a closed loop that are not from
//! the recording's clock.

use pageblock::request::Gfp;
use pageblock_replay::Error;
use pageblock_replay::demand::{Demand, Demands};
use pageblock_vm::work::Work;

/// Nanoseconds to reclaim and to migrate a page on a CPU of 2018, as `pageblock-simulate` charges them.
const RECLAIM_NS: u64 = 260;
const MIGRATE_NS: u64 = 2_114;
const SCAN_NS: u64 = 60;
const COMPACT_SCAN_NS: u64 = 14;
/// The least time of a step.
const LEAST_NS: u64 = 100;

/// Nanoseconds to write a page if a recording has too few writes to measure: a disk of 400 MB/s.
const WRITE_NS: u64 = 10_000;

/// How many times slower than that CPU a machine is, and how fast its files were written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pace {
    /// In sixteenths.
    slower: u64,
    /// Nanoseconds to write a page.
    pub(crate) write_ns: u64,
}

impl Pace {
    /// Measures the recorded kswapd: the time of its runs divided by the pages that reclaim freed in them. A
    /// recording without such runs counts as a CPU of 2018. The disk is as fast as file pages were requested to be
    /// written.
    pub(crate) fn of(demands: &Demands) -> Result<Self, Error> {
        let (mut since, mut busy_ms, mut pages) = (None, 0u64, 0u64);
        let (mut first, mut last, mut written) = (None, 0u32, 0u64);
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
                    Demand::Alloc { gfp, .. } if gfp.has(Gfp::WRITE) => {
                        (first, last) = (first.or(Some(timed.t_ms)), timed.t_ms);
                        written += 1;
                    }
                    _ => {}
                }
            }
        }
        let writing_ms = u64::from(last.saturating_sub(first.unwrap_or(last)));
        Ok(Self::measured((busy_ms, pages), (writing_ms, written)))
    }

    /// Adds milliseconds and pages of reclaim and of writes.
    fn measured(reclaim: (u64, u64), writes: (u64, u64)) -> Self {
        let a_page = |(ms, pages): (u64, u64)| (ms * 1_000_000).checked_div(pages);
        let reclaim_ns = a_page(reclaim).unwrap_or(RECLAIM_NS);
        let write_ns = a_page(writes).filter(|&ns| ns > 0).unwrap_or(WRITE_NS);
        Self { slower: (16 * reclaim_ns / RECLAIM_NS).max(16), write_ns }
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
        let unknown = Pace::measured((0, 0), (0, 0));
        assert_eq!(
            (unknown.cost(&work), unknown.write_ns),
            (100 * RECLAIM_NS + LEAST_NS, WRITE_NS)
        );
        let slow = Pace::measured((26, 10_000), (1000, 4000));
        assert_eq!(slow.cost(&work), 10 * (100 * RECLAIM_NS + LEAST_NS));
        assert_eq!(slow.write_ns, 250_000);
    }
}
