//! The cost of one request: why an allocation was slow, and what it did to memory.
//!
//! ```
//! # use pageblock::{alloc::Allocator, frame::FrameRange, ids::*, layout::{ZoneKind, ZoneSpec}};
//! # use pageblock::{policy::Policy, request::{Gfp, Request}, setup::Setup, zone::Geometry};
//! # let span = FrameRange::new(0, 1 << 15);
//! # let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
//! # let policy = Policy::parse("linux-6.12").unwrap();
//! # let setup = Setup::new(policy, &zones, &[NodeId(0)]);
//! # let mut memory = vec![std::mem::MaybeUninit::uninit(); setup.metadata_size().unwrap()];
//! # let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
//! # allocator.release(span).unwrap();
//! # allocator.retune();
//! let request = Request::new(0, Gfp::GFP_KERNEL);
//! let (first, stats) = allocator.alloc_with_stats(CpuId(0), &request, None, &mut ());
//! // The CPU's list was empty: it was refilled, under the zone's lock.
//! assert_eq!((stats.zone, stats.locks), (Some(ZoneIndex(0)), 1));
//! assert!(stats.pages_from_zones > 1);
//! // There was no unmovable page yet, so a pageblock of movable ones was claimed.
//! assert!(stats.last_fallback.unwrap().change_ownership);
//! let (second, stats) = allocator.alloc_with_stats(CpuId(0), &request, None, &mut ());
//! assert_eq!((stats.locks, stats.pages_from_zones, stats.fallbacks), (0, 0, 0));
//! # assert!(first.is_ok() && second.is_ok());
//! ```

use crate::api::alloc::Allocator;
use crate::base::alloc_flags::AllocFlags;
use crate::base::decide::Decide;
use crate::base::error::AllocError;
use crate::base::event::{Event, Extfrag, NodeReclaim, Observer};
use crate::base::frame::{Order, Pfn};
use crate::base::ids::{CpuId, NodeId, ZoneIndex};
use crate::base::layout::ZoneKind;
use crate::base::request::Request;
use crate::policy::source::PolicySource;

/// What one request did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestStats {
    /// The zone that served it.
    pub zone: Option<ZoneIndex>,
    /// Pages that left the zones' free lists, a refill of the CPU's list included; 0 where the list
    /// had a block.
    pub pages_from_zones: u64,
    /// How often a zone's lock would be taken.
    pub locks: u64,
    /// Free lists looked at.
    pub list_probes: u64,
    /// Blocks taken from lists of other types.
    pub fallbacks: u32,
    /// The last such fallback.
    pub last_fallback: Option<Extfrag>,
    /// How often kswapd was woken.
    pub kswapd_wakes: u32,
    /// How often a node was asked to reclaim.
    pub node_reclaims: u32,
}

/// An observer that counts, and passes everything on to another.
struct Counting<'o, O> {
    stats: RequestStats,
    observer: &'o mut O,
}

impl<O: Observer> Observer for Counting<'_, O> {
    fn event(&mut self, event: Event) {
        if let Event::Extfrag(extfrag) = event {
            self.stats.fallbacks += 1;
            self.stats.last_fallback = Some(extfrag);
        }
        self.observer.event(event);
    }

    fn node_dirty_ok(&mut self, node: NodeId) -> bool {
        self.observer.node_dirty_ok(node)
    }

    fn node_reclaim(&mut self, node: NodeId, order: Order) -> NodeReclaim {
        self.stats.node_reclaims += 1;
        self.observer.node_reclaim(node, order)
    }

    fn wake_kswapd(&mut self, node: NodeId, zone: ZoneKind, order: Order) {
        self.stats.kswapd_wakes += 1;
        self.observer.wake_kswapd(node, zone, order);
    }

    fn decider(&mut self) -> Option<impl Decide> {
        self.observer.decider()
    }
}

impl<P: PolicySource> Allocator<'_, P> {
    /// Allocates as [`alloc`](Self::alloc) does, or with flags as [`alloc_with`](Self::alloc_with),
    /// and returns what it cost. A failed request has statistics too.
    pub fn alloc_with_stats(
        &mut self,
        cpu: CpuId,
        request: &Request,
        flags: Option<AllocFlags>,
        observer: &mut impl Observer,
    ) -> (Result<Pfn, AllocError>, RequestStats) {
        let before = self.sums();
        let mut counting = Counting { stats: RequestStats::default(), observer };
        let result = match flags {
            None => self.alloc(cpu, request, &mut counting),
            Some(flags) => self.alloc_with(cpu, request, flags, &mut counting),
        };
        let after = self.sums();
        let stats = RequestStats {
            zone: result.ok().and_then(|pfn| self.zone_of(pfn)),
            pages_from_zones: before.free.saturating_sub(after.free),
            locks: after.locks - before.locks,
            list_probes: after.probes - before.probes,
            ..counting.stats
        };
        (result, stats)
    }

    fn sums(&self) -> Sums {
        self.zones.iter().fold(Sums::default(), |sums, zone| Sums {
            free: sums.free + zone.free_pages(),
            locks: sums.locks + zone.counters().lock_acquired,
            probes: sums.probes + zone.counters().list_probes,
        })
    }
}

/// Sums over all zones.
#[derive(Default)]
struct Sums {
    free: u64,
    locks: u64,
    probes: u64,
}
