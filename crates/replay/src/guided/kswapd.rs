//! Changes of the CPU lists' tuning from outside: kswapd's runs, and the vmstat tick.

use pageblock::cpu_cache::CacheState;
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock_recording::Other;

use super::Guided;
use super::drain::Draining;
use super::state::LimitsRead;

impl Guided<'_, '_> {
    /// Decays the limits of a CPU's lists, once a second.
    pub(super) fn decay(&mut self, cpu: u16, now: u64) {
        let Some(second) = self.look_ahead.ticks().second(cpu, now) else {
            let policy = *self.allocator.policy();
            return self.lists.limits.pass(usize::from(cpu), now, self.allocator, &policy);
        };
        let cpu = usize::from(cpu);
        let last = std::mem::replace(&mut self.cpus[cpu].second, second);
        // Before the CPU's first event it is not known when its limits decayed last.
        if last == 0 || last >= second {
            return;
        }
        let policy = *self.allocator.policy();
        for zone in 0..self.allocator.zones().len() {
            let Some((_, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(zone), CpuId(cpu))
            else {
                continue;
            };
            // Each decay takes an eighth: after 64 of them a limit is as low as it gets.
            for _ in last..second.min(last + 64) {
                let _ = cache.decay(&policy);
            }
        }
    }

    /// Sets the limits of CPU lists, by CPU and zone, as of this event. A snapshot from `/proc` was read while they
    /// decayed.
    pub fn limits_are_read_before(&mut self, event: u64, limits: Vec<(usize, usize, u32)>) {
        self.lists.limits_read = Some(LimitsRead { event, limits });
    }

    /// Imposes the limits that were read, if that was just before this event.
    pub(super) fn impose_limits_read(&mut self, event: u64) {
        let Some(LimitsRead { limits, .. }) =
            self.lists.limits_read.take_if(|read| event >= read.event)
        else {
            return;
        };
        for (cpu, zone, high) in limits {
            if let Some((_, cache)) =
                self.allocator.zone_and_cache(ZoneIndex::new(zone), CpuId(cpu))
            {
                cache.impose_state(CacheState { high, ..cache.state() });
                self.lists.limits.read(cpu, zone, high);
            }
        }
    }

    /// Learns from a decision which guess of the limits is right. A decision that was explained in another way
    /// tells nothing.
    pub(super) fn learn_limits(&mut self, draining: &Draining, explained: bool) {
        let Draining { owner, zone: at, got, votes, before, .. } = draining;
        let (at, owner) = (*at, *owner);
        let Some((_, cache)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(owner))
        else {
            return;
        };
        if explained {
            return;
        }
        if let Some(high) =
            self.lists.limits.learn([owner, at], votes, *got > 0, before.count, cache)
        {
            cache.impose_state(CacheState { high, ..cache.state() });
        }
    }

    /// Follows kswapd. CPU lists drain more while it reclaims, and the boost of the watermarks with which it began
    /// a run is gone at the end (`balance_pgdat`).
    pub(super) fn other(&mut self, other: &Other) {
        let running = match &*other.name {
            "mm_vmscan_kswapd_wake" => true,
            "mm_vmscan_kswapd_sleep" => false,
            _ => return,
        };
        let node = other.number("nid").and_then(|nid| u8::try_from(nid).ok());
        // `woken` has a bit for each of 64 nodes.
        let Some(node) = node.filter(|&node| node < 64) else { return };
        // A run whose end was not recorded ends with the next one.
        self.end_kswapd(node);
        self.allocator.set_kswapd_running(NodeId(node), running);
        let bit = 1 << node;
        self.kswapd.woken = self.kswapd.woken & !bit | if running { bit } else { 0 };
        if running {
            let zones = self.allocator.zones().iter();
            self.kswapd.boosts.extend(
                zones.filter(|z| z.node() == NodeId(node)).map(|z| (node, z.kind(), z.boost())),
            );
        }
    }

    /// Ends a run of kswapd.
    pub(super) fn end_kswapd(&mut self, node: u8) {
        for (of, kind, boost) in std::mem::take(&mut self.kswapd.boosts) {
            if of != node {
                self.kswapd.boosts.push((of, kind, boost));
                continue;
            }
            for at in 0..self.allocator.zones().len() {
                if let Some((zone, _)) = self.allocator.zone_and_cache(ZoneIndex::new(at), CpuId(0))
                    && (zone.node(), zone.kind()) == (NodeId(node), kind)
                {
                    zone.end_boost(boost);
                }
            }
        }
        debug_assert!(
            self.kswapd.boosts.iter().all(|&(of, ..)| of != node),
            "a boost outlives its run"
        );
    }
}
