//! The history of a machine's memory is kept beside a run and changes nothing in it.

use pageblock_kernel::Named;
use pageblock_measure::value::history::Content;
use pageblock_simulate::simulate::Simulation;
use pageblock_simulate::workload::thpfioscale::Form;

use crate::simulate::machine;

#[test]
fn a_run_is_the_same_with_its_history() {
    let machine = machine(1, 256);
    let kernel = Named::parse("linux-6.9").unwrap();
    let workload = &Form::Madvhugepage;
    let simulation = Simulation { machine: &machine, kernel: &kernel, workload, seed: 3 };
    let plain = simulation.run(&mut |_| true).unwrap().unwrap();
    let mut with = simulation.run_with_history(&mut |_| true).unwrap().unwrap();
    let history = with.history.take().unwrap();
    assert_eq!(with, plain);

    let cells = history.cells().unwrap();
    assert!(cells.len() > 20, "{} samples", cells.len());
    assert!(history.times_us.is_sorted());
    let end = cells.last().unwrap();
    // The last sample and the run's own count of blocks see the same machine.
    let count = |content| end.iter().filter(|cell| cell.content == content).count() as u64;
    let blocks = end.len() as u64 - count(Content::Hole);
    assert_eq!(blocks, plain.blocks_by_type.unwrap().total());
    let free: u64 = plain.free_blocks.values().map(|free| pages(free)).sum();
    let of_history = |zone: &pageblock_measure::value::history::ZoneHistory| {
        let last: Vec<u64> = zone.free.iter().map(|free| *free.last().unwrap()).collect();
        pages(&last)
    };
    assert_eq!(history.zones.iter().map(of_history).sum::<u64>(), free);
    // Fallbacks of the boot are in the history, and not in the run.
    let events: u64 = history.fallbacks.iter().map(|row| row.events).sum();
    assert!(events >= plain.extfrag.total(), "{events}");
    assert_eq!(*history.fallbacks_until.last().unwrap(), events);
    let by_takers: u64 =
        history.takers.iter().map(|taker| taker.claims + taker.pollutions + taker.steals).sum();
    assert_eq!(by_takers, events);
}

fn pages(free: &[u64]) -> u64 {
    free.iter().enumerate().map(|(order, blocks)| blocks << order).sum()
}
