//! The history of the recording that is part of the project: what happened, and what a free replay makes of it.

use pageblock_measure::value::history::Content;
use pageblock_replay::machine::recorded_preset;
use pageblock_replay::{history, open_loop};

use crate::replay::shipped;

#[test]
fn what_happened_is_told_by_block_and_command() {
    let shipped = shipped("history");
    let (recording, columnar) = (&shipped.recording, &shipped.columnar);
    let history = history::recorded(recording, columnar, &mut |_, _| true).unwrap().unwrap();
    let cells = history.cells().unwrap();
    assert_eq!(cells.len(), history.samples());
    assert_eq!(*history.times_us.last().unwrap(), columnar.last_t_us - columnar.first_t_us);

    // The first sample is the state at the start.
    let free = |sample: usize| -> u64 {
        let zones = history.zones.iter().flat_map(|zone| (0..).zip(&zone.free));
        zones.map(|(order, free): (u32, _)| free[sample] << order).sum()
    };
    let start: u64 = recording.start.free.iter().map(|block| 1u64 << block.order).sum();
    assert!(free(0).abs_diff(start) < 64, "{} of {start}", free(0));

    let events: u64 = history.fallbacks.iter().map(|row| row.events).sum();
    assert_eq!(events, 1248, "as `pageblock recording stats` counts them");
    assert!(history.takers.iter().any(|taker| taker.command == "wl"));
    assert!(history.takers.iter().all(|taker| taker.lost <= taker.blocks));
    let movable = |sample: usize| {
        cells[sample].iter().filter(|cell| cell.content == Content::Movable).count()
    };
    assert!(movable(cells.len() - 1) > movable(0) + 100, "the load fills memory");
    assert!(history.counters["allocstall"].last() == Some(&4));

    // A free replay under the recorded policy starts from the same blocks, and samples at the same moments.
    let own = recorded_preset(recording);
    let replay = |with: bool| {
        let (demands, name, policy) = (&shipped.demands, own.name, &own.policy);
        let on = &mut |_, _| true;
        let replayed = match with {
            true => {
                open_loop::replay_with_history(recording, columnar, demands, (name, policy), on)
            }
            false => open_loop::replay(recording, demands, (name, policy), 0, on),
        };
        replayed.unwrap().unwrap().run
    };
    let mut with = replay(true);
    let replayed = with.history.take().unwrap();
    assert_eq!(with, replay(false), "a history changes nothing");
    assert_eq!(replayed.times_us, history.times_us);
    let alike = |sample: usize| {
        let other = replayed.cells().unwrap();
        let pairs = cells[sample].iter().zip(&other[sample]);
        pairs.filter(|(a, b)| a.content == b.content).count()
    };
    assert_eq!(alike(0), cells[0].len());
}
