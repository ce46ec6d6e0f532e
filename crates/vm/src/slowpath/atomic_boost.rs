//! The boost of an atomic request's zones (`atomic_boost`; Qiliang Yuan, v8 to v10, 12 to 14 February 2026): kswapd then
//! reclaims more than up to the high watermark, for the requests that follow.
//!
//! As in v10 every zone that the request may use is boosted, whatever `watermark_boost_factor` is (v8: the preferred zone),
//! for requests of order 0 only. The boost is a thousandth of the zone's pages, and ends as that of a fallback.
//!
//! *Left out*: what the series says of the largest boost is not known here: all boosts together are at most an eighth of a
//! zone. `closed-loop` and `replay` have no clock for it.

use pageblock::event::Observer;
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::request::{Gfp, Request};

use crate::vm::Vm;

/// Part of a zone's pages by which it is boosted.
const SHARE: u64 = 1000;

impl<O: Observer> Vm<'_, O> {
    /// Boosts the zones of a request that enters the slow path, if it is atomic and the kernel does so. `may` is asked for
    /// each zone: whether its last boost of this kind is long enough ago.
    pub fn boost_for_atomic(
        &mut self,
        cpu: usize,
        request: &Request,
        mut may: impl FnMut(ZoneIndex) -> bool,
    ) {
        let atomic = request.gfp.has(Gfp::GFP_ATOMIC) && !request.gfp.has(Gfp::DIRECT_RECLAIM);
        if !self.kernel.kswapd.atomic_boost || !atomic || request.order > 0 {
            return;
        }
        let Ok(zones) = self.allocator.zones_for(CpuId(cpu), request) else { return };
        let zones: Vec<ZoneIndex> = zones.filter(|&at| may(at)).collect();
        for at in zones {
            if let Some((zone, _)) = self.allocator.zone_and_cache(at, CpuId(cpu)) {
                zone.raise_boost(zone.managed() / SHARE);
            }
        }
    }
}
