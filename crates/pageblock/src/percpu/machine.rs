//! The machine as all CPUs see it without a lock: its policy and geometry, the zonelists, and the zone of each
//! frame.

use crate::base::error::{AllocError, FrameError};
use crate::base::frame::{FrameRange, Order, Pfn};
use crate::base::geometry::Geometry;
use crate::base::ids::{NodeId, ZoneIndex};
use crate::base::layout::{MAX_NUMNODES, ZoneKind};
use crate::base::mobility::Migratetype;
use crate::base::request::{Gfp, Request};
use crate::base::sync::{AtomicBool, Relaxed};
use crate::percpu::snapshot::ZoneSnapshot;
use crate::policy::source::{Chosen, PolicySource};
use crate::policy::{Fair, SkipActiveNode, WmarkGap};
use crate::table::map::{FrameState, Index};

/// The zonelist of a node that does not exist.
pub(crate) const NO_NODE: u8 = u8::MAX;

/// Stands for "no zone".
pub(crate) const NO_ZONE: ZoneIndex = ZoneIndex(u16::MAX);

pub(crate) struct Machine<'m, P: PolicySource = Chosen> {
    pub(crate) policy: P,
    pub(crate) geometry: Geometry,
    /// One per zone.
    pub(crate) snapshots: &'m [ZoneSnapshot<'m, P>],
    /// The zonelist of each node: its zones in the order in which they are tried.
    pub(crate) zonelists: &'m [ZoneIndex],
    /// The rank of each node's zonelist; [`NO_NODE`] for a node that does not exist.
    pub(crate) node_places: [u8; MAX_NUMNODES],
    pub(crate) nr_nodes: u8,
    /// The number of CPUs of each node.
    pub(crate) node_cpus: [u16; MAX_NUMNODES],
    pub(crate) sections: Sections,
    /// Too little memory to group by mobility: every request is unmovable.
    pub(crate) mobility_off: AtomicBool,
    /// By node.
    pub(crate) kswapd_running: [AtomicBool; MAX_NUMNODES],
}

/// One attempt to serve a request: its order, its type, and the zones that it may use.
#[derive(Clone, Copy)]
pub(crate) struct Attempt {
    pub(crate) order: Order,
    pub(crate) mt: Migratetype,
    pub(crate) gfp: Gfp,
    pub(crate) highest: ZoneKind,
    /// The rank of the zonelist among those of all nodes.
    place: u8,
    nodemask: u64,
    /// The attempt bypasses the CPU lists.
    pub(crate) past_lists: bool,
}

impl Attempt {
    /// Returns whether a node is in the nodemask.
    #[inline]
    pub(crate) fn may_use(&self, node: NodeId) -> bool {
        self.nodemask & node.bit() != 0
    }
}

impl<'m, P: PolicySource> Machine<'m, P> {
    /// Returns the attempt to serve a request. `own` is the node of the requesting CPU.
    #[inline]
    pub(crate) fn attempt(&self, own: NodeId, request: &Request) -> Result<Attempt, AllocError> {
        if request.order > self.geometry.max_order {
            return Err(AllocError::OrderTooLarge(request.order));
        }
        let node = request.node.unwrap_or(own);
        let place = self.node_places.get(node.index()).copied().unwrap_or(NO_NODE);
        if place == NO_NODE {
            return Err(AllocError::NoSuchNode(node));
        }
        let gfp = request.gfp;
        let mt = gfp.migratetype().ok_or(AllocError::ConflictingMobility(gfp))?;
        let mt = if self.mobility_off.load(Relaxed) { Migratetype::Unmovable } else { mt };
        let nodemask =
            if gfp.has(Gfp::THISNODE) { request.nodemask & node.bit() } else { request.nodemask };
        let highest = gfp.highest_zone();
        Ok(Attempt { order: request.order, mt, gfp, highest, place, nodemask, past_lists: false })
    }

    /// Returns the zones of an attempt's zonelist, in the order in which they are tried.
    #[inline]
    pub(crate) fn zonelist(
        &self,
        attempt: &Attempt,
    ) -> impl Iterator<Item = ZoneIndex> + use<'m, P> {
        let zones = self.snapshots.len();
        let lists = self.zonelists;
        lists[usize::from(attempt.place) * zones..][..zones].iter().copied()
    }

    /// Returns the index and snapshot of every zone.
    pub(crate) fn zones(
        &self,
    ) -> impl Iterator<Item = (ZoneIndex, &'m ZoneSnapshot<'m, P>)> + use<'m, P> {
        ZoneIndex::up_to(self.snapshots.len()).zip(self.snapshots)
    }

    /// Returns whether only its watermark can make a walk skip the first zone: there is no fair batch, and no node
    /// is avoided because its kswapd runs.
    pub(crate) fn first_zone_serves(&self) -> bool {
        self.policy.fair == Fair::Off
            && (!self.skips_active() || !self.kswapd_running.iter().any(|r| r.load(Relaxed)))
    }

    /// Returns whether requests get every page beyond the caller's reserve ([`WmarkGap::None`]).
    pub(crate) fn spends_all(&self) -> bool {
        self.policy.wmark_gap == WmarkGap::None
    }

    /// Returns the number of CPUs of a node; the number of all CPUs for a node without any.
    pub(crate) fn cpus_near(&self, node: NodeId) -> u64 {
        match self.node_cpus.get(node.index()) {
            Some(&local) if local > 0 => u64::from(local),
            _ => self.node_cpus.iter().map(|&cpus| u64::from(cpus)).sum(),
        }
    }

    /// Returns whether walks first skip nodes whose kswapd runs.
    pub(crate) fn skips_active(&self) -> bool {
        self.policy.skip_active_node == SkipActiveNode::On && self.nr_nodes > 1
    }

    /// Returns whether a node's kswapd runs.
    pub(crate) fn kswapd_runs(&self, node: NodeId) -> bool {
        self.kswapd_running.get(node.index()).is_some_and(|runs| runs.load(Relaxed))
    }

    /// Returns the zone that holds a frame, and the frame's index there. If zones interleave, each one's table has
    /// holes at the frames of the others.
    pub(crate) fn locate(&self, pfn: Pfn) -> Option<(ZoneIndex, Index)> {
        self.zones().find_map(|(at, snapshot)| {
            let i = snapshot.map.index(pfn)?;
            (!snapshot.map.is_hole(i)).then_some((at, i))
        })
    }

    /// Returns the zone and index of an allocated block.
    #[inline(always)]
    pub(crate) fn find_allocated(
        &self,
        pfn: Pfn,
        order: Order,
    ) -> Result<(ZoneIndex, Index), FrameError> {
        let at = self.sections.zone(pfn);
        match self
            .snapshots
            .get(at.index())
            .and_then(|snapshot| snapshot.map.allocated_at(pfn, order))
        {
            Some(i) => Ok((at, i)),
            None => self.search_allocated(pfn, order),
        }
    }

    #[cold]
    #[inline(never)]
    fn search_allocated(&self, pfn: Pfn, order: Order) -> Result<(ZoneIndex, Index), FrameError> {
        let found = self
            .zones()
            .find_map(|(at, snapshot)| Some((at, snapshot.map.allocated_at(pfn, order)?)));
        found.ok_or_else(|| {
            let Some((at, i)) = self.locate(pfn) else { return FrameError::Foreign(pfn) };
            match self.snapshots[at.index()].map.state(i) {
                FrameState::Allocated { order, .. } => FrameError::WrongOrder(pfn, order),
                _ => FrameError::NotAllocated(pfn),
            }
        })
    }
}

const SECTIONS: usize = 256;

/// The zone of each section of the frames: a frame's zone is found with one lookup.
pub(crate) struct Sections {
    base: u64,
    shift: u32,
    /// [`NO_ZONE`] if a section has frames of several zones, or of none.
    zones: [ZoneIndex; SECTIONS],
}

impl Sections {
    /// Divides the frames from the start of the first zone to the end of the last one.
    pub(crate) fn of(spans: impl Iterator<Item = FrameRange> + Clone) -> Self {
        let base = spans.clone().map(|s| s.start.0).min().unwrap_or(0);
        let end = spans.clone().map(|s| s.end.0).max().unwrap_or(0);
        let length = end.saturating_sub(base).div_ceil(SECTIONS as u64).next_power_of_two();
        let zones = core::array::from_fn(|n| {
            let start = base + length * n as u64;
            let mut inside = (0..)
                .zip(spans.clone())
                .filter(|(_, s)| s.start.0 < start + length && start < s.end.0);
            match (inside.next(), inside.next()) {
                (Some((zone, _)), None) => ZoneIndex(zone),
                _ => NO_ZONE,
            }
        });
        Self { base, shift: length.trailing_zeros(), zones }
    }

    #[inline(always)]
    fn zone(&self, pfn: Pfn) -> ZoneIndex {
        let section = pfn.0.wrapping_sub(self.base) >> (self.shift & 63);
        let section = usize::try_from(section).unwrap_or(usize::MAX);
        self.zones.get(section).copied().unwrap_or(NO_ZONE)
    }
}

impl<P: PolicySource> Machine<'_, P> {
    /// See `Allocator::set_movable`.
    pub(crate) fn set_movable(&self, pfn: Pfn, movable: bool) -> Result<(), FrameError> {
        let (at, i) = self.locate(pfn).ok_or(FrameError::Foreign(pfn))?;
        let map = &self.snapshots[at.index()].map;
        let FrameState::Allocated { order, .. } = map.state(i) else {
            return Err(FrameError::NotAllocated(pfn));
        };
        map.set(i, FrameState::Allocated { order, movable });
        Ok(())
    }
}

impl<P: PolicySource> Machine<'_, P> {
    /// See `Allocator::split_allocated`.
    pub(crate) fn split_allocated(
        &self,
        pfn: Pfn,
        order: Order,
        into: Order,
    ) -> Result<(), FrameError> {
        let (at, i) = self.find_allocated(pfn, order)?;
        if into > order {
            return Err(FrameError::OrderTooLarge(into));
        }
        let map = &self.snapshots[at.index()].map;
        let FrameState::Allocated { movable, .. } = map.state(i) else {
            return Err(FrameError::NotAllocated(pfn));
        };
        for piece in 0..1 << (order - into) {
            map.set(i + (piece << into), FrameState::Allocated { order: into, movable });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_know_zones_that_they_do_not_share() {
        let spans = [FrameRange::new(16, 4096), FrameRange::new(4096, 1 << 20)];
        let sections = Sections::of(spans.iter().copied());
        assert_eq!(sections.zone(Pfn(15)), NO_ZONE);
        assert_eq!(sections.zone(Pfn(16)), NO_ZONE, "the first section has frames of both");
        assert_eq!(sections.zone(Pfn(8192)), ZoneIndex(1));
        assert_eq!(sections.zone(Pfn((1 << 20) - 1)), ZoneIndex(1));
        assert_eq!(sections.zone(Pfn(u64::MAX)), NO_ZONE);
        let one = Sections::of(core::iter::once(FrameRange::new(0, 1000)));
        assert_eq!([0, 999].map(|pfn| one.zone(Pfn(pfn))), [ZoneIndex(0); 2]);
    }
}
