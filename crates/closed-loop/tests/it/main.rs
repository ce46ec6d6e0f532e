//! Closed-loop replays of the recording that is part of the project.

use std::path::PathBuf;

use pageblock_kernel::Named;
use pageblock_measure::Run;
use pageblock_measure::certificate::Measure;
use pageblock_recording::Recording;
use pageblock_replay::demand::{Demand, Demands};
use pageblock_replay::open_loop::{self, Replayed};

struct Shipped {
    recording: Recording,
    demands: Demands,
}

impl Shipped {
    fn new(test: &str) -> Self {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../recordings");
        let path = folder.join("debian-6.12-640m").canonicalize().expect("it is in the repository");
        let recording = Recording::open(&path).expect("it is whole");
        let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
        std::fs::create_dir_all(&cache).expect("cargo gives a folder to write to");
        let columnar = recording.columnar(&cache, &mut |_, _| {}).expect("it can be converted");
        let demands =
            open_loop::demands(&recording, &columnar, &mut |_, _| {}).expect("it has demands");
        Self { recording, demands }
    }

    /// Counts demands of a kind.
    fn demanded(&self, is_one: impl Fn(&Demand) -> bool) -> u64 {
        let (mut count, mut chunks) = (0, self.demands.chunks().unwrap());
        while let Some(chunk) = chunks.next_chunk().unwrap() {
            count += chunk.iter().filter(|timed| is_one(&timed.demand)).count() as u64;
        }
        count
    }

    fn replay(&self, kernel: &str) -> Replayed {
        self.drawn(kernel, 0)
    }

    fn drawn(&self, kernel: &str, seed: u64) -> Replayed {
        let named = Named::parse(kernel).expect("it is a kernel");
        let replayed = pageblock_closed_loop::replay(
            &self.recording,
            &self.demands,
            (kernel, &named.kernel),
            seed,
            &mut |_, _| true,
        );
        replayed.expect("it can be replayed").expect("it was not stopped")
    }
}

fn count(run: &Run, name: &str) -> u64 {
    run.counters.get(name).unwrap_or_else(|| panic!("{name} is not counted"))
}

#[test]
fn the_same_demand_and_kernel_give_the_same_run() {
    let shipped = Shipped::new("same");
    let (first, again) = (shipped.replay("debian-6.12"), shipped.replay("debian-6.12"));
    assert_eq!((&first.run, &first.outcome), (&again.run, &again.outcome));
    assert_ne!(first.run.event_hash, shipped.replay("linux-6.9").run.event_hash);
    assert_ne!(first.run.event_hash, shipped.drawn("debian-6.12", 1).run.event_hash);
}

#[test]
fn pages_that_reclaim_passed_over_are_used_again() {
    let shipped = Shipped::new("reuse");
    let demanded = shipped.demanded(|demand| matches!(demand, Demand::Reuse { .. }));
    assert!(demanded > 100, "{demanded}");
    assert_eq!(count(&shipped.replay("debian-6.12").run, "file_reused"), demanded);
}

/// What the recorded reclaim freed is no demand: the machine frees about as much, by its own choice.
#[test]
fn reclaim_is_decided_by_the_machine() {
    let shipped = Shipped::new("reclaim");
    let recorded =
        shipped.demanded(|demand| matches!(demand, Demand::Free { reclaimed: true, .. }));
    let run = shipped.replay("debian-6.12").run;
    let reclaimed = count(&run, "pgsteal_kswapd") + count(&run, "pgsteal_direct");
    assert!(recorded > 1000, "{recorded}");
    assert!((recorded / 2..recorded * 2).contains(&reclaimed), "{reclaimed} for {recorded}");
    // A machine that keeps more memory free reclaims more.
    let eager = shipped.replay("debian-6.12,watermark_scale_factor=500").run;
    let more = count(&eager, "pgsteal_kswapd") + count(&eager, "pgsteal_direct");
    assert!(more > reclaimed + 1000, "{more} for {reclaimed}");
}

/// Every free of the recording finds what it frees, and the state at the end is near to the recorded one.
#[test]
fn nothing_that_is_demanded_gets_lost() {
    let shipped = Shipped::new("kept");
    let replayed = shipped.replay("debian-6.12");
    assert!(count(&replayed.run, "free_unknown") < 50);
    let order = shipped.recording.pageblock_order;
    let distances = shipped.demands.recorded.distances(&replayed.outcome, order);
    let of = |measure| distances.iter().find(|d| d.measure == measure).unwrap().permyriad;
    assert!(of(Measure::Blocks) < 500 && of(Measure::FreeByOrder) < 2000, "{distances:?}");
}

#[test]
fn a_replay_stops_when_it_is_told_to() {
    let Shipped { recording, demands } = Shipped::new("stopped");
    let kernel = Named::parse("debian-6.12").unwrap().kernel;
    let stopped =
        pageblock_closed_loop::replay(&recording, &demands, ("x", &kernel), 0, &mut |_, _| false);
    assert!(stopped.unwrap().is_none());
}

/// A clock that jumps by a hundred years does not make the daemons work through them.
#[test]
fn one_time_in_the_future_costs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jump-6.12");
    let shipped =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../recordings/debian-6.12-640m");
    std::fs::create_dir_all(path.join("start")).unwrap();
    std::fs::copy(shipped.join("README.md"), path.join("README.md")).unwrap();
    for file in std::fs::read_dir(shipped.join("start")).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), path.join("start").join(file.file_name())).unwrap();
    }
    let events = "9386850200 0 1 M S1\n9386850200 0 1 M S2\n9386850201 0 1 A 21908 1 0 GFP_KERNEL\n\
                  4503599627370495 0 1 F 21908 1\n9386850203 0 1 A 29299 0 0 GFP_KERNEL\n";
    std::fs::write(path.join("events.tsv"), events).unwrap();
    let recording = Recording::open(&path).unwrap();
    let columnar = recording.columnar(&folder.path().join("cache"), &mut |_, _| {}).unwrap();
    let demands = open_loop::demands(&recording, &columnar, &mut |_, _| {}).unwrap();
    // The second has no hopeless nodes: its kswapd tries forever where it can reclaim nothing.
    for name in ["linux-6.12", "linux-4.4"] {
        let kernel = Named::parse(name).unwrap().kernel;
        let mut calls = 0;
        let run =
            pageblock_closed_loop::replay(&recording, &demands, (name, &kernel), 0, &mut |_, _| {
                calls += 1;
                true
            });
        let run = run.unwrap().unwrap().run;
        assert_eq!((run.policy.as_str(), calls), (name, 1));
        assert!(count(&run, "compact_daemon_wake") < 100);
    }
}
