//! `pageblock bench native`: every pattern on every allocator, in one run.
//!
//! Samples of the allocators alternate, round by round, so that a disturbance of the machine affects all of
//! them. Each sample follows an uncounted run of the same allocator, which warms up the processor's caches.
//! Results are medians over the rounds with bootstrap intervals.

use pageblock::frame::Order;
use pageblock_measure::statistics::resampling::bootstrap_median;
use pageblock_measure::statistics::stats::median;
use serde::Serialize;

use crate::noise::Noise;
use crate::packing::{Packed, reallocate, turn_over};
use crate::pattern::Pattern;
use crate::peers::{Bitmap, FrameAlloc, Locked, MiMalloc, System};
use crate::subject::{
    BuddySystem, Pageblock, PageblockCpu, PageblockPacked, PageblockPackedCpu, SharedSubject,
    Subject,
};
use crate::threads;

/// What is run.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The orders of blocks.
    pub orders: Vec<Order>,
    /// Memory in pages; the other allocators run only with the first size.
    pub frames: Vec<u64>,
    /// Samples of each allocator.
    pub rounds: usize,
    /// The patterns, by [`Pattern::key`]; the patterns of two threads and of packing have their own keys
    /// ([`PRODUCER_CONSUMER`], [`TURN_OVER`], [`REALLOCATE`]).
    pub patterns: Vec<String>,
}

/// One thread allocates blocks and another frees them.
pub const PRODUCER_CONSUMER: &str = "producer_consumer";
/// Packing while single pages are freed and allocated.
pub const TURN_OVER: &str = "turn_over";
/// Packing while tenths of memory are freed and allocated.
pub const REALLOCATE: &str = "llfree";

/// The patterns that two threads run concurrently.
pub(crate) const TOGETHER: [Pattern; 4] =
    [Pattern::WarmPairs, Pattern::Fill, Pattern::DrainRandom, Pattern::Steady];

/// The rounds of [`REALLOCATE`] after which blocks are counted.
pub const ROUNDS: [u32; 3] = [20, 50, 100];

/// Returns every key that a plan can have.
#[must_use]
pub fn keys() -> Vec<&'static str> {
    let patterns = Pattern::ALL.into_iter().map(Pattern::key);
    patterns.chain([PRODUCER_CONSUMER, TURN_OVER, REALLOCATE]).collect()
}

/// A measurement.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(untagged)]
pub enum NativeRow {
    /// The time of one operation.
    Time {
        /// The allocator.
        allocator: &'static str,
        /// The pattern's key.
        pattern: &'static str,
        /// The order of blocks.
        order: Order,
        /// The number of concurrent threads.
        threads: usize,
        /// The managed memory.
        memory_gib: f64,
        /// The median, in nanoseconds.
        ns_median: f64,
        /// The lower end of the 95 % interval of the median.
        ns_low: f64,
        /// The upper end.
        ns_high: f64,
    },
    /// Blocks of 2 MiB that became free again.
    Packing {
        /// The allocator.
        allocator: &'static str,
        /// Its placement, and the pattern if it is not [`TURN_OVER`].
        placement: String,
        /// Blocks that could be allocated at the end.
        blocks_won_back: u64,
        /// The number of blocks that all free memory could form.
        possible: u64,
    },
}

/// The measurements, and the noise of the machine.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// The measurements, in the order of the patterns.
    pub rows: Vec<NativeRow>,
    /// Samples of a fixed piece of work, taken between the others.
    pub noise: Noise,
}

const GIB_FRAMES: f64 = (1u64 << 18) as f64;

/// An allocator with its pattern: each call takes a sample, in nanoseconds per operation.
type Runner = (&'static str, Box<dyn FnMut() -> f64>);

/// The common properties of runners.
#[derive(Clone, Copy)]
struct Case {
    pattern: &'static str,
    order: Order,
    threads: usize,
    frames: u64,
}

/// Runs a plan; `progress` is called with each next step.
pub fn run(plan: &Plan, progress: &mut dyn FnMut(&str)) -> Report {
    let mut report = Report::default();
    for (at, &frames) in plan.frames.iter().enumerate() {
        let peers = at == 0;
        for pattern in Pattern::ALL {
            if plan.has(pattern.key()) {
                one_thread(plan, pattern, frames, peers, &mut report, progress);
            }
        }
        for pattern in TOGETHER {
            if peers && plan.has(pattern.key()) {
                two_threads(plan, pattern, frames, &mut report, progress);
            }
        }
        if peers && plan.has(PRODUCER_CONSUMER) {
            handing_over(plan, frames, &mut report, progress);
        }
        if plan.has(TURN_OVER) {
            packing(plan, frames, peers, &mut report, progress);
        }
        if peers && plan.has(REALLOCATE) {
            reallocation(frames, &mut report, progress);
        }
    }
    report
}

impl Plan {
    pub(crate) fn has(&self, key: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern == key)
    }
}

impl Report {
    /// Takes the samples of a case, round by round, and adds a row for each allocator.
    fn measure(&mut self, case: Case, rounds: usize, mut runners: Vec<Runner>) {
        let mut samples = vec![Vec::with_capacity(rounds); runners.len()];
        for _ in 0..rounds {
            for ((_, run), samples) in runners.iter_mut().zip(&mut samples) {
                // Histories that start with empty memory need no warm-up.
                if case.pattern != TURN_OVER {
                    run();
                }
                self.noise.sample();
                samples.push(run());
            }
        }
        for ((allocator, _), samples) in runners.iter().zip(&samples) {
            let (ns_low, ns_high) = bootstrap_median(samples);
            self.rows.push(NativeRow::Time {
                allocator,
                pattern: case.pattern,
                order: case.order,
                threads: case.threads,
                memory_gib: case.frames as f64 / GIB_FRAMES,
                ns_median: median(samples),
                ns_low,
                ns_high,
            });
        }
    }

    fn pack(&mut self, allocator: &'static str, placement: String, packed: Packed) {
        let Packed { blocks_won_back, possible, .. } = packed;
        self.rows.push(NativeRow::Packing { allocator, placement, blocks_won_back, possible });
    }
}

fn alone<S: Subject + 'static>(pattern: Pattern, frames: u64, order: Order) -> Runner {
    let mut subject = S::new(frames);
    let operations = pattern.operations(frames, order) as f64;
    let run = move || pattern.run(&mut subject, frames, order).as_nanos() as f64 / operations;
    (S::NAME, Box::new(run))
}

fn together<S: SharedSubject + 'static>(pattern: Pattern, frames: u64, order: Order) -> Runner {
    let mut handles = S::handles(frames, 2);
    (S::NAME, Box::new(move || threads::run(&mut handles, pattern, frames, order)))
}

fn one_thread(
    plan: &Plan,
    pattern: Pattern,
    frames: u64,
    peers: bool,
    report: &mut Report,
    progress: &mut dyn FnMut(&str),
) {
    for &order in &plan.orders {
        // A request for a single page fails only if no page is left, which differs between allocators.
        if pattern == Pattern::Fail && order == 0 {
            continue;
        }
        progress(&format!("{}, order {order}", pattern.name()));
        let mut runners = vec![
            alone::<Pageblock>(pattern, frames, order),
            alone::<PageblockCpu>(pattern, frames, order),
            alone::<PageblockPacked>(pattern, frames, order),
            alone::<PageblockPackedCpu>(pattern, frames, order),
        ];
        if peers {
            runners.push(alone::<BuddySystem>(pattern, frames, order));
            runners.push(alone::<Bitmap>(pattern, frames, order));
            runners.push(alone::<FrameAlloc>(pattern, frames, order));
        }
        if peers && pattern != Pattern::Fail {
            runners.push(alone::<System>(pattern, frames, order));
            runners.push(alone::<MiMalloc>(pattern, frames, order));
        }
        let case = Case { pattern: pattern.key(), order, threads: 1, frames };
        report.measure(case, plan.rounds, runners);
    }
}

fn two_threads(
    plan: &Plan,
    pattern: Pattern,
    frames: u64,
    report: &mut Report,
    progress: &mut dyn FnMut(&str),
) {
    for &order in &plan.orders {
        progress(&format!("{}, order {order}, two threads", pattern.name()));
        let runners = vec![
            together::<PageblockCpu>(pattern, frames, order),
            together::<PageblockPackedCpu>(pattern, frames, order),
            together::<Locked<BuddySystem>>(pattern, frames, order),
            together::<Locked<Bitmap>>(pattern, frames, order),
            together::<FrameAlloc>(pattern, frames, order),
            together::<System>(pattern, frames, order),
            together::<MiMalloc>(pattern, frames, order),
        ];
        let case = Case { pattern: pattern.key(), order, threads: 2, frames };
        report.measure(case, plan.rounds, runners);
    }
}

fn handing_over(plan: &Plan, frames: u64, report: &mut Report, progress: &mut dyn FnMut(&str)) {
    fn pair<S: SharedSubject + 'static>(frames: u64, order: Order) -> Runner {
        let mut handles = S::handles(frames, 2);
        (S::NAME, Box::new(move || threads::producer_consumer(&mut handles, order)))
    }
    for &order in &plan.orders {
        progress(&format!("producer and consumer, order {order}"));
        let runners = vec![
            pair::<PageblockCpu>(frames, order),
            pair::<PageblockPackedCpu>(frames, order),
            pair::<Locked<BuddySystem>>(frames, order),
            pair::<Locked<Bitmap>>(frames, order),
            pair::<FrameAlloc>(frames, order),
            pair::<System>(frames, order),
            pair::<MiMalloc>(frames, order),
        ];
        let case = Case { pattern: PRODUCER_CONSUMER, order, threads: 2, frames };
        report.measure(case, plan.rounds, runners);
    }
}

/// How often the content of a memory of one GiB is replaced; that of larger memories is replaced once.
const TURNS: u64 = 16;
/// Pages freed and allocated at a time.
const BATCH: usize = 64;

fn packing(
    plan: &Plan,
    frames: u64,
    peers: bool,
    report: &mut Report,
    progress: &mut dyn FnMut(&str),
) {
    progress("packing");
    let turns = if peers { TURNS } else { 1 };
    let case = Case { pattern: TURN_OVER, order: 0, threads: 1, frames };
    let mut runners =
        vec![turned::<Pageblock>(frames, turns), turned::<PageblockPacked>(frames, turns)];
    if peers {
        runners.push(turned::<BuddySystem>(frames, turns));
        runners.push(turned::<Bitmap>(frames, turns));
        runners.push(turned::<FrameAlloc>(frames, turns));
    }
    report.measure(case, plan.rounds, runners);
    if peers {
        let counted = [
            ("linux", packed::<Pageblock>(frames)),
            ("packed", packed::<PageblockPacked>(frames)),
            ("lowest address of the order", packed::<BuddySystem>(frames)),
            ("first fit", packed::<Bitmap>(frames)),
            ("bitmap buddy", packed::<FrameAlloc>(frames)),
        ];
        for (placement, (allocator, packed)) in counted {
            report.pack(allocator, placement.to_owned(), packed);
        }
    }
}

/// Returns the name in packing rows, which state the placement separately.
fn name<S: Subject>() -> &'static str {
    S::NAME.strip_suffix("-packed").unwrap_or(S::NAME)
}

fn turned<S: Subject + 'static>(frames: u64, turns: u64) -> Runner {
    let mut subject = S::new(frames);
    let run = move || {
        let packed = turn_over(&mut subject, turns, BATCH);
        subject.drain();
        packed.time.as_nanos() as f64 / packed.pairs as f64
    };
    (S::NAME, Box::new(run))
}

fn packed<S: Subject>(frames: u64) -> (&'static str, Packed) {
    (name::<S>(), turn_over(&mut S::new(frames), TURNS, BATCH))
}

fn reallocation(frames: u64, report: &mut Report, progress: &mut dyn FnMut(&str)) {
    fn rows<S: Subject>(frames: u64, placement: &str, report: &mut Report) {
        let packed = reallocate(&mut S::new(frames), &ROUNDS);
        for (round, packed) in ROUNDS.into_iter().zip(packed) {
            report.pack(name::<S>(), format!("{placement}, {REALLOCATE} {round}"), packed);
        }
    }
    progress("a tenth reallocated in each round");
    rows::<Pageblock>(frames, "linux", report);
    rows::<PageblockPacked>(frames, "packed", report);
    rows::<BuddySystem>(frames, "lowest address of the order", report);
    rows::<Bitmap>(frames, "first fit", report);
    rows::<FrameAlloc>(frames, "bitmap buddy", report);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_plan_has_a_row_for_every_case() {
        let patterns = ["pair", "fail", PRODUCER_CONSUMER, TURN_OVER, REALLOCATE];
        let patterns = patterns.map(str::to_owned).to_vec();
        let plan = Plan { orders: vec![0, 3], frames: vec![1 << 16, 1 << 17], rounds: 2, patterns };
        let mut said = 0;
        let report = run(&plan, &mut |_| said += 1);
        let of = |key: &str, threads: usize| {
            let is = |row: &&NativeRow| {
                matches!(row, NativeRow::Time { pattern, threads: n, ns_median, ns_low, ns_high, .. }
                    if *pattern == key && *n == threads
                        && ns_low <= ns_median && ns_median <= ns_high)
            };
            report.rows.iter().filter(is).count()
        };
        assert_eq!([of("pair", 1), of("pair", 2)], [2 * 9 + 2 * 4, 2 * 7]);
        assert_eq!([of("fail", 1), of("fail", 2)], [7 + 4, 0]);
        assert_eq!([of(PRODUCER_CONSUMER, 2), of(TURN_OVER, 1)], [2 * 7, 5 + 2]);
        let packing =
            report.rows.iter().filter(|row| matches!(row, NativeRow::Packing { .. })).count();
        assert_eq!(packing, 5 + 5 * ROUNDS.len());
        assert!(report.noise.samples() > 0 && said > 5);
    }
}
