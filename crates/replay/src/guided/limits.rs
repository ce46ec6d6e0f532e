//! Limits of CPU lists when no event shows at what moment of each second they decay (`vmstat_update`). There is one
//! guess for each part of a second, and one that limits never decay. Each guess has its own limits. The replay
//! follows the guess that predicted the drains best so far, so a decision is judged by what was learned before it.

use pageblock::alloc::Allocator;
use pageblock::cpu_cache::{CacheState, CpuCache};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::policy::{PcpHigh, Policy};

use crate::look_ahead::PERIOD_US;

/// The number of parts of a second.
const PARTS: usize = 16;
/// The number of guesses. The first guess is that limits never decay.
const GUESSES: usize = PARTS + 1;

/// The decision under each guess: whether the list drains.
pub(super) type Votes = [bool; GUESSES];

/// The limits of a CPU's list of a zone, by guess.
type Highs = [u32; GUESSES];

#[derive(Default)]
pub(super) struct Limits {
    /// By CPU, then by zone; empty if the times are known or limits do not decay.
    highs: Vec<Vec<Highs>>,
    /// The part of a second, counted from zero, of each CPU's last event.
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

    /// Returns the moment of each second at which limits were found to decay; `None` if they were not.
    pub(super) fn found_ms(&self) -> Option<u64> {
        let part = self.best().checked_sub(1)? as u64;
        Some(part * PERIOD_US / PARTS as u64 / 1000)
    }

    /// Lets `act` decide under the limit of each guess. The list itself keeps the best guess's limit.
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
        // The list's own limit contains all that was learned of it.
        highs[best] = state.high;
        for (high, vote) in highs.iter_mut().zip(&mut votes) {
            cache.impose_state(CacheState { high: *high, ..state });
            *vote = act(cache);
            *high = cache.high();
        }
        cache.impose_state(state);
        debug_assert_eq!(cache.state(), state, "a guess changed the list itself");
        votes
    }

    /// Sets the limit of all guesses to one that was read.
    pub(super) fn read(&mut self, cpu: usize, zone: usize, high: u32) {
        if let Some(highs) = self.highs.get_mut(cpu).and_then(|zones| zones.get_mut(zone)) {
            *highs = [high; GUESSES];
        }
    }

    /// Decays the limits of a CPU's lists under those guesses whose moment has come.
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
        // As for known times: what passed before the first event is not known.
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

    /// Learns whether a list with this many pages drained. Returns the new limit if another guess is now the best.
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
            // The list follows the best guess, and was given its new limit already.
            if guess != best {
                // The limit is just beyond the observed size.
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
