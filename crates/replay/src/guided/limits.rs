//! Limits of CPU lists where no event tells when in each second they decay (`vmstat_update`): as many guesses as there are parts of a
//! second, and one that they never do. Each guess has limits of its own; the one that foretold the drains best so far is
//! followed, so that a decision is judged by what was learned before it.

use pageblock::alloc::Allocator;
use pageblock::cpu_cache::{CacheState, CpuCache};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::policy::{PcpHigh, Policy};

use crate::look_ahead::PERIOD_US;

/// The parts of a second.
const PARTS: usize = 16;
/// The guesses; the first is that limits never decay.
const GUESSES: usize = PARTS + 1;

/// What each guess says of one decision: whether the list drains.
pub(super) type Votes = [bool; GUESSES];

/// The limits of a CPU's list of a zone, by guess.
type Highs = [u32; GUESSES];

#[derive(Default)]
pub(super) struct Limits {
    /// By CPU, then by zone; none where the times are known or limits do not decay.
    highs: Vec<Vec<Highs>>,
    /// The part of a second that each CPU was in last, counted from zero.
    parts: Vec<u64>,
    /// How often each guess was wrong.
    wrong: [u64; GUESSES],
}

impl Limits {
    pub(super) fn new(allocator: &Allocator<'_>, times_known: bool) -> Self {
        if times_known || allocator.policy().pcp_high != PcpHigh::Autotune {
            return Self::default();
        }
        let of = |cpu, zone| {
            let cache = allocator.cache(ZoneIndex::new(zone), CpuId(cpu));
            [cache.map_or(0, CpuCache::high); GUESSES]
        };
        let zones = allocator.zones().len();
        let cpus = allocator.cpus();
        let highs = (0..cpus).map(|cpu| (0..zones).map(|zone| of(cpu, zone)).collect()).collect();
        Self { highs, parts: vec![0; cpus], wrong: [0; GUESSES] }
    }

    fn best(&self) -> usize {
        (0..GUESSES).min_by_key(|&guess| (self.wrong[guess], guess)).unwrap_or(0)
    }

    /// Returns when in each second limits were found to decay; `None` where they were not.
    pub(super) fn found_ms(&self) -> Option<u64> {
        let part = self.best().checked_sub(1)? as u64;
        Some(part * PERIOD_US / PARTS as u64 / 1000)
    }

    /// Has each guess act on a list with its own limit, and the list go on with the best one's.
    pub(super) fn each(
        &mut self,
        [cpu, zone]: [usize; 2],
        cache: &mut CpuCache,
        mut act: impl FnMut(&mut CpuCache) -> bool,
    ) -> Votes {
        let best = self.best();
        let mut votes = [false; GUESSES];
        let Some(highs) = self.highs.get_mut(cpu).and_then(|zones| zones.get_mut(zone)) else {
            return votes;
        };
        let state = cache.state();
        // Whatever else was learned of the list is in its own limit.
        highs[best] = state.high;
        for (high, vote) in highs.iter_mut().zip(&mut votes) {
            cache.impose_state(CacheState { high: *high, ..state });
            *vote = act(cache);
            *high = cache.high();
        }
        cache.impose_state(state);
        votes
    }

    /// Has all guesses take over a limit that was read.
    pub(super) fn read(&mut self, cpu: usize, zone: usize, high: u32) {
        if let Some(highs) = self.highs.get_mut(cpu).and_then(|zones| zones.get_mut(zone)) {
            *highs = [high; GUESSES];
        }
    }

    /// Has the limits of a CPU's lists decay by those guesses whose time has come.
    pub(super) fn pass(
        &mut self,
        cpu: usize,
        now: u64,
        allocator: &mut Allocator<'_>,
        policy: &Policy,
    ) {
        let part = now / (PERIOD_US / PARTS as u64);
        let Some(was) = self.parts.get_mut(cpu) else { return };
        let last = std::mem::replace(was, part);
        if last == 0 || last >= part {
            return;
        }
        let best = self.best();
        for zone in 0..allocator.zones().len() {
            let (at, owner) = (ZoneIndex::new(zone), CpuId(cpu));
            let Some((_, cache)) = allocator.zone_and_cache(at, owner) else { continue };
            let state = cache.state();
            self.highs[cpu][zone][best] = state.high;
            for passed in last + 1..=part.min(last + 64 * PARTS as u64) {
                let high = &mut self.highs[cpu][zone][1 + passed as usize % PARTS];
                cache.impose_state(CacheState { high: *high, ..state });
                let _ = cache.decay(policy);
                *high = cache.high();
            }
            let high = self.highs[cpu][zone][best];
            cache.impose_state(CacheState { high, ..state });
        }
    }

    /// Learns whether a list drained that had so many pages; gives the limit to go on with where another guess is the best now.
    pub(super) fn learn(
        &mut self,
        [cpu, zone]: [usize; 2],
        votes: &Votes,
        drained: bool,
        count: u32,
        cache: &CpuCache,
    ) -> Option<u32> {
        let best = self.best();
        let highs = self.highs.get_mut(cpu)?.get_mut(zone)?;
        let limits = cache.limits();
        for (guess, high) in highs.iter_mut().enumerate() {
            if votes[guess] == drained {
                continue;
            }
            self.wrong[guess] += 1;
            if guess != best {
                // The limit is just past what it was seen to be.
                let seen = if drained { count } else { (*high).max(count + limits.batch.max(1)) };
                *high = seen.max(limits.high_min).min(limits.high_max);
            } else {
                *high = cache.high();
            }
        }
        let now = self.best();
        (now != best).then(|| self.highs[cpu][zone][now])
    }
}
