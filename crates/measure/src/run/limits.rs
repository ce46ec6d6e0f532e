//! Bounds of the numbers in a saved run. What is above them is damage: no machine counts that far, and sums and
//! products of it would overflow.

use pageblock::frame::ORDER_LIMIT;

use super::Run;
use crate::value::history::History;

/// The orders that a block may have.
const ORDERS: usize = ORDER_LIMIT as usize + 1;
/// The most of anything that is counted: 2^48 pages are an exbibyte, 2^48 ns three days of one operation.
const COUNT_MAX: u64 = 1 << 48;
/// The most free pages: physical addresses have at most 52 bits.
const PAGES_MAX: u64 = 1 << 40;
/// The most numbers of one kind, which may be added up: a sum stays below 2^63.
const LIST_MAX: usize = 1 << 15;

/// Returns what is wrong with the numbers of a run, in words.
pub(crate) fn check(run: &Run) -> Result<(), String> {
    if usize::from(run.pageblock_order()) >= ORDERS {
        return Err(format!("pageblock_order: allowed: 0 to {}", ORDERS - 1));
    }
    all_small("counters", run.counters.iter().map(|(_, count)| count))?;
    all_small("extfrag", run.extfrag.iter().map(|(_, count)| count))?;
    for (zone, blocks) in &run.free_blocks {
        let key = format!("free_blocks.{zone}");
        orders(&key, blocks.len())?;
        blocks.iter().enumerate().try_for_each(|(order, &blocks)| free(&key, order, blocks))?;
    }
    for counts in [&run.blocks_by_type, &run.mixed_blocks].into_iter().flatten() {
        all_small("blocks", counts.iter().map(|(_, count)| count))?;
    }
    for samples in run.samples.values() {
        samples.iter().try_for_each(|&sample| small("samples", sample))?;
    }
    if let Some(wrong) =
        run.measured.values().find(|value| !(0.0..=COUNT_MAX as f64).contains(value))
    {
        return Err(format!("measured: {wrong}; allowed: 0 to 2^48"));
    }
    if let Some(ended) = &run.ended {
        small("ended", ended.at_ms)?;
        small("ended", ended.since_ms)?;
    }
    run.history.as_ref().map_or(Ok(()), history)
}

fn history(of: &History) -> Result<(), String> {
    if usize::from(of.pageblock_order) >= ORDERS {
        return Err(format!("history.pageblock_order: allowed: 0 to {}", ORDERS - 1));
    }
    if !of.times_us.is_sorted() {
        return Err("history.times_us: a sample is before the one above it".to_owned());
    }
    all_small("history.times_us", of.times_us.iter().copied())?;
    for list in of.counters.values().chain([&of.fallbacks_until]) {
        all_small("history.counters", list.iter().copied())?;
    }
    for zone in &of.zones {
        orders("history.zones.free", zone.free.len())?;
        for (order, blocks) in zone.free.iter().enumerate() {
            blocks.iter().try_for_each(|&blocks| free("history.zones.free", order, blocks))?;
        }
        all_small("history.zones", zone.boost.iter().copied().chain(zone.watermarks))?;
        all_small("history.zones", [zone.start, zone.blocks, zone.managed].into_iter())?;
    }
    all_small("history.fallbacks", of.fallbacks.iter().flat_map(|row| [row.events, row.blocks]))?;
    let takers = of
        .takers
        .iter()
        .flat_map(|t| [t.claims, t.pollutions, t.steals, t.blocks, t.lost, t.stuck]);
    takers.into_iter().try_for_each(|count| small("history.takers", count))
}

fn orders(key: &str, lists: usize) -> Result<(), String> {
    match lists <= ORDERS {
        true => Ok(()),
        false => Err(format!("{key}: {lists} orders; allowed: {ORDERS}")),
    }
}

fn free(key: &str, order: usize, blocks: u64) -> Result<(), String> {
    match blocks <= PAGES_MAX >> order {
        true => Ok(()),
        false => Err(format!("{key}: {blocks} blocks of order {order}; allowed: 2^40 pages")),
    }
}

fn all_small(key: &str, numbers: impl Iterator<Item = u64>) -> Result<(), String> {
    let mut len = 0;
    for number in numbers {
        small(key, number)?;
        len += 1;
    }
    match len <= LIST_MAX {
        true => Ok(()),
        false => Err(format!("{key}: {len} numbers; allowed: {LIST_MAX}")),
    }
}

fn small(key: &str, number: u64) -> Result<(), String> {
    match number <= COUNT_MAX {
        true => Ok(()),
        false => Err(format!("{key}: {number}; allowed: at most 2^48")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::run::saved;

    #[test]
    fn numbers_that_no_machine_has_are_named() {
        let text = |run: &Run| {
            let json = saved::to_json(std::slice::from_ref(run));
            saved::parse(Path::new("a.json"), json.as_bytes()).map_err(|error| error.to_string())
        };
        let run =
            Run { counters: [("pgfault", COUNT_MAX)].into_iter().collect(), ..Run::default() };
        assert_eq!(text(&run), Ok(vec![run]));
        let run = Run { counters: [("pgfault", u64::MAX)].into_iter().collect(), ..Run::default() };
        let expected = "a.json: run 1: counters: 18446744073709551615; allowed: at most 2^48";
        assert_eq!(text(&run), Err(expected.to_owned()));
        let mut run = Run { pageblock_order: Some(ORDERS as u8), ..Run::default() };
        assert_eq!(text(&run).unwrap_err(), "a.json: run 1: pageblock_order: allowed: 0 to 14");
        run.pageblock_order = None;
        run.set_free_blocks("Normal", vec![0, 1]);
        run.free_blocks.insert("Normal".into(), vec![0, 1 << 40]);
        assert!(text(&run).unwrap_err().contains("1099511627776 blocks of order 1"));
        run.free_blocks.insert("Normal".into(), vec![0; 17]);
        assert!(text(&run).unwrap_err().contains("17 orders"));
        run.free_blocks.clear();
        run.measured.set("mixed-pageblocks", -1.0);
        assert_eq!(text(&run).unwrap_err(), "a.json: run 1: measured: -1; allowed: 0 to 2^48");
        run.measured.retain(|_| false);
        run.history = Some(History { times_us: vec![2, 1], ..History::default() });
        assert!(text(&run).unwrap_err().contains("before the one above"));
    }
}
