//! `get_page_from_freelist`: watermarks and the walk over zones.

use pageblock::alloc_flags::{AllocFlags, Watermark};
use pageblock::event::Event;
use pageblock::fallback::Mode;
use pageblock::frame::{Order, Pfn};
use pageblock::ids::NodeId;
use pageblock::layout::ZoneKind;
use pageblock::mobility::Migratetype::{self, Cma, HighAtomic, Movable, Reclaimable, Unmovable};
use pageblock::policy::{
    BelowHigh, Fair, Nofragment, PcpEmpty, Reserve, SkipActiveNode, WmarkCheck, WmarkFast, WmarkGap,
};
use pageblock::request::{Gfp, Request};

use super::zone::{Block, ModelZone};
use super::{Model, Out};

impl ModelZone {
    fn mark(&self, mark: Watermark) -> i64 {
        let stored = match mark {
            Watermark::Min => self.watermarks.min,
            Watermark::Low => self.watermarks.low,
            Watermark::High => self.watermarks.high,
        };
        (stored + self.boost) as i64
    }

    fn watermark_ok(&self, order: Order, mark: i64, highest: ZoneKind, flags: AllocFlags) -> bool {
        let has = |flag| flags.has(flag);
        let (harder, high) = (has(AllocFlags::NON_BLOCK), has(AllocFlags::MIN_RESERVE));
        let (oom, atomic) = (has(AllocFlags::OOM), has(AllocFlags::HIGHATOMIC));
        let mut free = self.free_pages() as i64 - (1 << order) + 1;
        let cma = if has(AllocFlags::CMA) { 0 } else { self.free_pages_of(Cma) as i64 };
        let mut min = mark;
        if high {
            min -= min / 2;
        }
        let reserve = self.lowmem_reserve[highest as usize] as i64;
        let check = self.policy.wmark_check;
        match check {
            WmarkCheck::HalvePerOrder | WmarkCheck::ListExists => {
                if oom {
                    min -= min / 2;
                } else if harder {
                    min -= min / 4;
                }
            }
            _ => {
                if high && harder {
                    min -= min / 4;
                }
                if oom {
                    min -= min / 2;
                }
            }
        }
        if check == WmarkCheck::HalvePerOrder {
            if free - cma <= min + reserve {
                return false;
            }
            return (0..order).all(|smaller| {
                free -= (self.nr_free(smaller) << smaller) as i64;
                min /= 2;
                free > min
            });
        }
        free -= cma + self.kept_for_others(flags);
        if free <= min + reserve {
            return false;
        }
        let urgent = oom || if check == WmarkCheck::ListExists { harder } else { atomic };
        let usable = |mt| match mt {
            Unmovable | Movable | Reclaimable => true,
            Cma => has(AllocFlags::CMA),
            HighAtomic => urgent,
            _ => false,
        };
        let found =
            |o| Migratetype::ALL.iter().any(|&mt| usable(mt) && !self.list(o, mt).is_empty());
        order == 0 || (order..=self.geometry.max_order).any(found)
    }

    /// Pages of the highatomic reserve that a request may not use.
    fn kept_for_others(&self, flags: AllocFlags) -> i64 {
        let (reserved, free) = (self.reserved_highatomic, self.free_pages_of(HighAtomic));
        let any = |bits| flags.has_any(bits);
        let kept = match self.policy.wmark_check {
            WmarkCheck::HalvePerOrder => 0,
            WmarkCheck::ListExists if any(AllocFlags::NON_BLOCK.with(AllocFlags::OOM)) => 0,
            WmarkCheck::ListExists => reserved,
            _ if any(AllocFlags::RESERVES) => 0,
            WmarkCheck::FlagsCombine => reserved,
            WmarkCheck::FreeHighatomic => free,
        };
        kept as i64
    }

    fn watermark_fast(
        &self,
        order: Order,
        mark: Watermark,
        highest: ZoneKind,
        flags: AllocFlags,
        gfp: Gfp,
    ) -> bool {
        let fast = self.policy.wmark_fast;
        if order == 0 && fast != WmarkFast::Off {
            let cma = if flags.has(AllocFlags::CMA) { 0 } else { self.free_pages_of(Cma) as i64 };
            let kept = if fast == WmarkFast::Cma { 0 } else { self.kept_for_others(flags) };
            let reserve = self.lowmem_reserve[highest as usize] as i64;
            if self.free_pages() as i64 - cma - kept > self.mark(mark) + reserve {
                return true;
            }
        }
        if self.watermark_ok(order, self.mark(mark), highest, flags) {
            return true;
        }
        let urgent = match self.policy.wmark_check {
            WmarkCheck::HalvePerOrder | WmarkCheck::ListExists => gfp.has(Gfp::ATOMIC),
            _ => flags.has(AllocFlags::MIN_RESERVE),
        };
        fast == WmarkFast::Unusable
            && order == 0
            && self.boost > 0
            && urgent
            && flags.selected_watermark() == Watermark::Min
            && self.watermark_ok(0, self.watermarks.min as i64, highest, flags)
    }

    pub(crate) fn test_below_high(&mut self) {
        let high = self.mark(Watermark::High);
        if self.watermark_ok(0, high, ZoneKind::Movable, AllocFlags(0)) {
            self.below_high = false;
        }
    }

    fn rmqueue_buddy(
        &mut self,
        (order, want): (Order, Migratetype),
        flags: AllocFlags,
        out: &mut Out,
    ) -> Option<u64> {
        let highatomic = self.policy.reserve != Reserve::MigrateReserve;
        if order > 0
            && highatomic
            && self.urgent_high_order(flags)
            && let Some(pfn) = self.take_from(order, HighAtomic, want, out)
        {
            return Some(pfn);
        }
        if let Some((pfn, _)) = self.rmqueue(order, want, flags, &mut Mode::Normal, out) {
            return Some(pfn);
        }
        let last_resort = match self.policy.wmark_check {
            WmarkCheck::HalvePerOrder | WmarkCheck::ListExists => false,
            WmarkCheck::FlagsCombine => flags.has(AllocFlags::OOM),
            WmarkCheck::FreeHighatomic => {
                flags.has_any(AllocFlags::OOM.with(AllocFlags::NON_BLOCK))
            }
        };
        if last_resort { self.take_from(order, HighAtomic, want, out) } else { None }
    }

    fn urgent_high_order(&self, flags: AllocFlags) -> bool {
        match self.policy.wmark_check {
            WmarkCheck::HalvePerOrder => false,
            WmarkCheck::ListExists => flags.has(AllocFlags::NON_BLOCK),
            _ => flags.has(AllocFlags::HIGHATOMIC),
        }
    }

    fn new_fair_round(&mut self) {
        self.alloc_batch = self.watermarks.high as i64 - self.watermarks.low as i64;
        self.fair_depleted = false;
    }
}

/// What is looked for.
#[derive(Clone, Copy)]
struct Want {
    cpu: usize,
    order: Order,
    mt: Migratetype,
    gfp: Gfp,
}

impl Model {
    fn nodes(&self) -> usize {
        let nodes: std::collections::BTreeSet<_> = self.zones.iter().map(|z| z.node).collect();
        nodes.len()
    }

    /// The zones of a request in the order in which they are tried.
    fn candidates(&self, cpu: usize, request: &Request) -> Vec<usize> {
        let home = request.node.unwrap_or(NodeId(self.cpu_nodes[cpu]));
        let gfp = request.gfp;
        let highest = gfp.highest_zone();
        let mut zones: Vec<usize> = (0..self.zones.len())
            .filter(|&z| {
                let zone = &self.zones[z];
                let allowed = request.nodemask & 1 << zone.node != 0;
                let local = zone.node == home.0 || !gfp.has(Gfp::THISNODE);
                zone.kind <= highest && allowed && local && zone.managed > 0
            })
            .collect();
        // At most two nodes: home, then the other.
        zones.sort_by_key(|&z| {
            (self.zones[z].node != home.0, std::cmp::Reverse(self.zones[z].kind))
        });
        zones
    }

    fn fast_flags(&self, zones: &[usize], want: Want) -> AllocFlags {
        let mut flags = AllocFlags::WMARK_LOW.with(AllocFlags::CPUSET);
        let mut add = |condition, flag| {
            if condition {
                flags = flags.with(flag);
            }
        };
        let Want { order, mt, gfp, .. } = want;
        add(gfp.has(Gfp::KSWAPD_RECLAIM), AllocFlags::KSWAPD);
        add(mt == Movable, AllocFlags::CMA);
        let own = self.policy.wmark_gap == WmarkGap::None && gfp.has(Gfp::HIGH);
        add(own, AllocFlags::MIN_RESERVE);
        add(matches!(self.policy.fair, Fair::FairPass | Fair::SpentFlag), AllocFlags::FAIR);
        let atomic = gfp.has(Gfp::HIGH) && !gfp.has_any_of(Gfp::DIRECT_RECLAIM, Gfp::NOMEMALLOC);
        let recent = self.policy.reserve == Reserve::HighatomicBelowLow;
        add(recent && order > 0 && atomic, AllocFlags::HIGHATOMIC);
        let spreads = zones.first().is_some_and(|&z| {
            let preferred = &self.zones[z];
            let low = |z: &ModelZone| z.node == preferred.node && z.kind == ZoneKind::Dma32;
            preferred.kind == ZoneKind::Normal && (self.nodes() == 1 || self.zones.iter().any(low))
        });
        let nofragment = match self.policy.nofragment {
            Nofragment::Off => false,
            Nofragment::DefragMode => true,
            Nofragment::On => spreads,
        };
        add(nofragment, AllocFlags::NOFRAGMENT);
        flags
    }

    /// `flags` for an attempt of the slow path, `None` for the fast path.
    pub(crate) fn alloc(
        &mut self,
        cpu: usize,
        request: &Request,
        flags: Option<AllocFlags>,
    ) -> Option<u64> {
        let (order, gfp) = (request.order, request.gfp);
        let typed = gfp.migratetype().unwrap();
        let mt = if self.mobility_off { Unmovable } else { typed };
        let want = Want { cpu, order, mt, gfp };
        let zones = self.candidates(cpu, request);
        let flags = flags.unwrap_or_else(|| self.fast_flags(&zones, want));
        let mut out = std::mem::take(&mut self.out);
        let mut pfn = self.walk(&zones, want, flags, &mut out);
        let spends_all = self.policy.wmark_gap == WmarkGap::None && !zones.is_empty();
        if pfn.is_none() && spends_all && self.held(cpu) >= 1 << order {
            self.out = out;
            self.drain_cpu(cpu);
            out = std::mem::take(&mut self.out);
            pfn = self.walk(&zones, want, flags, &mut out);
        }
        if let Some(pfn) = pfn {
            let (pfn, migratetype) = (Some(Pfn(pfn)), mt);
            out.events.push(Event::PageAlloc { pfn, order, migratetype, gfp });
        }
        self.out = out;
        pfn
    }

    fn walk(
        &mut self,
        zones: &[usize],
        want: Want,
        mut flags: AllocFlags,
        out: &mut Out,
    ) -> Option<u64> {
        let &preferred = zones.first()?;
        let home = self.zones[preferred].node;
        let several = self.nodes() > 1;
        let mut skip = several && self.policy.skip_active_node == SkipActiveNode::On;
        let defrag = self.policy.nofragment == Nofragment::DefragMode;
        'again: loop {
            let (mut skipped_fair, mut skipped_active) = (false, false);
            for &at in zones {
                let local = self.zones[at].node == home;
                match self.fair_says(at, local, want, flags) {
                    Some(true) => {}
                    Some(false) => {
                        skipped_fair = true;
                        continue;
                    }
                    None => break,
                }
                if flags.has(AllocFlags::NOFRAGMENT) && !defrag && several && !local {
                    flags = flags.without(AllocFlags::NOFRAGMENT);
                    continue 'again;
                }
                if skip && self.kswapd_running.contains(&self.zones[at].node) {
                    skipped_active = true;
                    continue;
                }
                if self.above_watermark(at, want, flags)
                    && let Some(pfn) = self.take(at, want, flags, out)
                {
                    return Some(pfn);
                }
            }
            if skip && skipped_active {
                skip = false;
                continue;
            }
            // A kernel without fairness knows no such flag.
            if flags.has(AllocFlags::FAIR) && self.policy.fair != Fair::Off {
                let fair_pass = self.policy.fair == Fair::FairPass;
                let kind = self.zones[preferred].kind;
                if fair_pass || skipped_fair {
                    let lower = |z: &&mut ModelZone| z.node == home && z.kind <= kind;
                    self.zones.iter_mut().filter(lower).for_each(ModelZone::new_fair_round);
                }
                if fair_pass || skipped_fair || several {
                    flags = flags.without(AllocFlags::FAIR);
                    continue;
                }
            }
            if !flags.has(AllocFlags::NOFRAGMENT) || defrag {
                return None;
            }
            flags = flags.without(AllocFlags::NOFRAGMENT);
        }
    }

    /// Whether fairness lets a zone serve; `None` ends the pass.
    fn fair_says(&self, at: usize, local: bool, want: Want, flags: AllocFlags) -> Option<bool> {
        let zone = &self.zones[at];
        let spent = zone.alloc_batch <= 0;
        let low = flags.watermark() == Some(Watermark::Low);
        match self.policy.fair {
            Fair::Off => Some(true),
            Fair::AllZones => {
                let remote = self.policy.zone_reclaim_mode != 0 && !local;
                Some(!(low && (spent || remote)))
            }
            Fair::LocalNode => Some(!(low && local && spent && !want.gfp.has(Gfp::THISNODE))),
            _ if !flags.has(AllocFlags::FAIR) => Some(true),
            _ if !local => None,
            Fair::FairPass => Some(!spent),
            Fair::SpentFlag => Some(!zone.fair_depleted),
        }
    }

    fn above_watermark(&mut self, at: usize, want: Want, flags: AllocFlags) -> bool {
        let highest = want.gfp.highest_zone();
        let below_high = self.policy.below_high == BelowHigh::On;
        let zone = &mut self.zones[at];
        let test = |zone: &ModelZone, mark| {
            zone.watermark_fast(want.order, mark, highest, flags, want.gfp)
        };
        if below_high && !zone.below_high {
            if test(zone, Watermark::High) {
                return true;
            }
            zone.below_high = true;
        }
        flags.watermark().is_none_or(|mark| test(zone, mark))
    }

    fn take(&mut self, at: usize, want: Want, flags: AllocFlags, out: &mut Out) -> Option<u64> {
        let Want { cpu, order, mt, gfp } = want;
        let (zone, cache) = (&mut self.zones[at], &mut self.caches[at][cpu]);
        let reserve = self.policy.reserve;
        let to_reserve = order > 0 && flags.has(AllocFlags::HIGHATOMIC);
        let may_refill = !(to_reserve
            && matches!(reserve, Reserve::HighatomicFirst | Reserve::HighatomicBelowLow));
        let cached = cache.alloc(zone, (order, mt), flags, out, may_refill);
        let has_list = cache.index(order, mt).is_some();
        let only_list = has_list && self.policy.pcp_empty == PcpEmpty::Fails;
        let pfn = match cached {
            None if !only_list => zone.rmqueue_buddy((order, mt), flags, out),
            cached => cached,
        };
        if zone.boosted && flags.has(AllocFlags::KSWAPD) {
            zone.boosted = false;
            out.woken.push((zone.node, zone.kind, 0));
        }
        let pfn = pfn?;
        zone.blocks.insert(pfn, Block::Used { order, movable: gfp.has(Gfp::MOVABLE) });
        zone.alloc_batch -= 1 << order;
        zone.fair_depleted |= zone.alloc_batch <= 0;
        let reserves = match reserve {
            Reserve::MigrateReserve | Reserve::Off => false,
            Reserve::Highatomic | Reserve::HighatomicRounded => true,
            Reserve::HighatomicFirst => cached.is_none(),
            Reserve::HighatomicBelowLow => {
                cached.is_none() && flags.selected_watermark() == Watermark::Min
            }
        };
        if reserves && order > 0 && zone.urgent_high_order(flags) {
            zone.reserve_highatomic(pfn, order);
        }
        Some(pfn)
    }

    /// What 3.12 and 3.13 do on entry to the slow path.
    pub(crate) fn reset_fair_batches(&mut self, cpu: usize, request: &Request) {
        let zones = self.candidates(cpu, request);
        let Some(&preferred) = zones.first() else { return };
        let home = self.zones[preferred].node;
        let local_only = match self.policy.fair {
            Fair::AllZones => self.policy.zone_reclaim_mode != 0,
            Fair::LocalNode => true,
            _ => return,
        };
        for at in zones {
            if !local_only || self.zones[at].node == home {
                self.zones[at].new_fair_round();
            }
        }
    }
}

/// Reads better than two negations.
trait HasAnyOf {
    fn has_any_of(self, a: Self, b: Self) -> bool;
}

impl HasAnyOf for Gfp {
    fn has_any_of(self, a: Self, b: Self) -> bool {
        self.has(a) || self.has(b)
    }
}
