//! Zonelists: in which order a request that starts on a node tries the zones of the machine.
//!
//! Lists are filled into memory of the caller, one node after the other: which of two equally near
//! nodes comes first depends on the lists built before, so that not all nodes fall back to the same one.

use core::fmt;

use crate::base::ids::NodeId;
use crate::base::layout::{MAX_NR_ZONES, MAX_NUMNODES, MemoryMap, ZoneKind};

/// The largest number of zones in a list (`MAX_ZONES_PER_ZONELIST`).
pub const MAX_ZONES_PER_ZONELIST: usize = MAX_NUMNODES * MAX_NR_ZONES;

/// What CPUs on a node add to its distance (`PENALTY_FOR_NODE_WITH_CPUS`).
const PENALTY_FOR_NODE_WITH_CPUS: u64 = 1;

/// One entry of a zonelist (`struct zoneref`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ZoneRef {
    /// The id of the node.
    pub node: NodeId,
    /// The kind of zone.
    pub kind: ZoneKind,
}

/// The sort order of a zonelist (`numa_zonelist_order`, which could be set up to 4.12).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum ZonelistOrder {
    /// The node: all zones of the nearest, from the highest down, then those of the next.
    #[default]
    Node,
    /// The zone: the highest zones of all nodes, nearest first, then the next lower ones.
    Zone,
}

/// How much a node's load grows when it begins a new distance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum LoadStep {
    /// Older kernels: by the number of nodes that were still to be placed.
    Remaining,
    /// Recent kernels: by one.
    One,
}

/// The slice is too short for the zonelist.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom;

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the zonelist does not fit")
    }
}

impl core::error::Error for NoRoom {}

/// Builds the lists of a machine's nodes (`__build_all_zonelists`). Nodes are named by their
/// position in [`MemoryMap::nodes`]; build their lists in that order.
pub struct ZonelistBuilder<'m> {
    map: &'m MemoryMap<'m>,
    step: LoadStep,
    load: [u64; MAX_NUMNODES],
}

impl<'m> ZonelistBuilder<'m> {
    /// Returns a builder for a map that passed [`MemoryMap::validate`].
    #[must_use]
    pub const fn new(map: &'m MemoryMap<'m>, step: LoadStep) -> Self {
        Self { map, step, load: [0; MAX_NUMNODES] }
    }

    /// Fills `out` with every populated zone as a request on `node` tries them, and returns the
    /// number of entries.
    ///
    /// # Errors
    /// [`NoRoom`]; [`MAX_ZONES_PER_ZONELIST`] entries are always enough.
    pub fn full(
        &mut self,
        position: usize,
        order: ZonelistOrder,
        out: &mut [ZoneRef],
    ) -> Result<usize, NoRoom> {
        let mut nodes = [0; MAX_NUMNODES];
        let count = self.node_order(position, &mut nodes);
        let nodes = &nodes[..count];
        let kinds = || ZoneKind::ALL.into_iter().rev();
        match order {
            ZonelistOrder::Node => self.fill(cross(nodes.iter().copied(), kinds), out),
            ZonelistOrder::Zone => {
                let by_kind = cross(kinds(), || nodes.iter().copied());
                self.fill(by_kind.map(|(kind, node)| (node, kind)), out)
            }
        }
    }

    /// Fills `out` with the zones of one node, for requests that may not leave it
    /// (`ZONELIST_NOFALLBACK`), and returns the number of entries.
    ///
    /// # Errors
    /// [`NoRoom`]; [`MAX_NR_ZONES`] entries are always enough.
    pub fn thisnode(&self, position: usize, out: &mut [ZoneRef]) -> Result<usize, NoRoom> {
        self.fill(ZoneKind::ALL.into_iter().rev().map(|kind| (position, kind)), out)
    }

    /// Fills `out` with the positions of the nodes that have memory, nearest to `local` first
    /// (`build_zonelists`), and returns their number.
    pub fn node_order(&mut self, local: usize, out: &mut [usize; MAX_NUMNODES]) -> usize {
        let count = self.map.nodes.iter().filter(|n| !n.memory.is_empty()).count();
        let mut used = [false; MAX_NUMNODES];
        let mut previous = local;
        let mut placed = 0;
        while let Some(node) = self.next_best(local, &used) {
            let distance = self.map.distance(local, node);
            if distance != self.map.distance(local, previous) {
                self.load[node] += match self.step {
                    LoadStep::Remaining => (count - placed) as u64,
                    LoadStep::One => 1,
                };
            }
            used[node] = true;
            previous = node;
            out[placed] = node;
            placed += 1;
        }
        placed
    }

    /// Returns the nearest node that is not used (`find_next_best_node`); of equal ones, the first.
    fn next_best(&self, local: usize, used: &[bool; MAX_NUMNODES]) -> Option<usize> {
        let usable = |&node: &usize| !used[node] && !self.map.nodes[node].memory.is_empty();
        if local < self.map.nodes.len() && usable(&local) {
            return Some(local);
        }
        (0..self.map.nodes.len()).filter(usable).min_by_key(|&node| self.remoteness(local, node))
    }

    fn remoteness(&self, local: usize, node: usize) -> u64 {
        let has_cpus = self.map.nodes[node].cpus != 0;
        // Lower nodes come last, which makes each node prefer the next higher one.
        let distance = u64::from(self.map.distance(local, node))
            + u64::from(node < local)
            + if has_cpus { PENALTY_FOR_NODE_WITH_CPUS } else { 0 };
        let weight = match self.step {
            LoadStep::Remaining => self.map.nodes.len() * MAX_NUMNODES,
            LoadStep::One => MAX_NUMNODES,
        };
        distance * weight as u64 + self.load[node]
    }

    fn fill(
        &self,
        candidates: impl Iterator<Item = (usize, ZoneKind)>,
        out: &mut [ZoneRef],
    ) -> Result<usize, NoRoom> {
        let mut len = 0;
        for zone in candidates.filter_map(|(node, kind)| self.map.zone(node, kind)) {
            *out.get_mut(len).ok_or(NoRoom)? = ZoneRef { node: zone.node, kind: zone.kind };
            len += 1;
        }
        Ok(len)
    }
}

/// Returns the zones of a list that a request may use whose highest zone is `highest`. The first is its
/// preferred zone.
pub fn eligible(list: &[ZoneRef], highest: ZoneKind) -> impl Iterator<Item = ZoneRef> + '_ {
    list.iter().copied().filter(move |zone| zone.kind <= highest)
}

/// Every pair, the first changing slowest.
fn cross<A: Copy, B, I: Iterator<Item = B>>(
    outer: impl Iterator<Item = A>,
    inner: impl Fn() -> I,
) -> impl Iterator<Item = (A, B)> {
    outer.flat_map(move |a| inner().map(move |b| (a, b)))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::base::frame::FrameRange;
    use crate::base::layout::{NodeSpec, ZoneLimits};
    use ZoneKind::{Dma, Dma32, Normal};
    use std::vec::Vec;

    const GIB: u64 = 1 << 18;
    const MEMORY: [[FrameRange; 1]; 4] = [
        [FrameRange::new(1, 8 * GIB)],
        [FrameRange::new(8 * GIB, 16 * GIB)],
        [FrameRange::new(16 * GIB, 24 * GIB)],
        [FrameRange::new(24 * GIB, 32 * GIB)],
    ];

    fn nodes(cpus: &[u16]) -> Vec<NodeSpec<'static>> {
        let with_cpus = cpus.iter().zip(&MEMORY).enumerate();
        with_cpus
            .map(|(id, (&cpus, memory))| NodeSpec {
                id: NodeId(id as u8),
                memory,
                reserved: &[],
                cpus,
                movable_start: None,
            })
            .collect()
    }

    #[track_caller]
    fn check_orders(map: &MemoryMap<'_>, step: LoadStep, expect: &[&[usize]]) {
        assert_eq!(map.validate(10), Ok(()));
        let mut builder = ZonelistBuilder::new(map, step);
        for (local, expect) in expect.iter().enumerate() {
            let mut order = [0; MAX_NUMNODES];
            let count = builder.node_order(local, &mut order);
            assert_eq!(&&order[..count], expect, "from node {local}");
        }
    }

    #[track_caller]
    fn check_list(list: &[ZoneRef], expect: &[(u8, ZoneKind)]) {
        assert_eq!(list.iter().map(|z| (z.node.0, z.kind)).collect::<Vec<_>>(), expect);
    }

    const NOWHERE: ZoneRef = ZoneRef { node: NodeId(0), kind: Dma };

    #[test]
    fn equally_near_nodes_rotate() {
        let nodes = nodes(&[2; 4]);
        let map = MemoryMap { nodes: &nodes, distances: &[], limits: ZoneLimits::X86_64 };
        let ring: &[&[usize]] = &[&[0, 1, 2, 3], &[1, 2, 3, 0], &[2, 3, 0, 1], &[3, 0, 1, 2]];
        check_orders(&map, LoadStep::One, ring);
        check_orders(&map, LoadStep::Remaining, ring);
    }

    #[test]
    fn load_spreads_over_memory_only_nodes() {
        let nodes = nodes(&[2, 2, 0, 0]);
        let map = MemoryMap { nodes: &nodes, distances: &[], limits: ZoneLimits::X86_64 };
        // Node 2 is loaded by node 0, so node 1 begins with node 3.
        let expect: &[&[usize]] = &[&[0, 2, 3, 1], &[1, 3, 2, 0], &[2, 3, 0, 1], &[3, 2, 0, 1]];
        check_orders(&map, LoadStep::One, expect);
        check_orders(&map, LoadStep::Remaining, expect);
    }

    #[test]
    fn distance_decides_before_load_and_cpus_count_against() {
        let distances = [10, 20, 40, 40, 20, 10, 40, 40, 40, 40, 10, 20, 40, 40, 20, 10];
        let near = nodes(&[2; 4]);
        let map = MemoryMap { nodes: &near, distances: &distances, limits: ZoneLimits::X86_64 };
        let expect: &[&[usize]] = &[&[0, 1, 2, 3], &[1, 0, 3, 2], &[2, 3, 0, 1], &[3, 2, 1, 0]];
        check_orders(&map, LoadStep::One, expect);
        let memory_only = nodes(&[2, 2, 0]);
        let map = MemoryMap { nodes: &memory_only, distances: &[], limits: ZoneLimits::X86_64 };
        check_orders(&map, LoadStep::One, &[&[0, 2, 1], &[1, 2, 0], &[2, 0, 1]]);
    }

    #[test]
    fn nodes_without_memory_are_skipped() {
        let mut nodes = nodes(&[2; 3]);
        nodes[1].memory = &[];
        let map = MemoryMap { nodes: &nodes, distances: &[], limits: ZoneLimits::X86_64 };
        check_orders(&map, LoadStep::One, &[&[0, 2], &[2, 0], &[2, 0]]);
    }

    #[test]
    fn list_by_node_and_by_zone() {
        let nodes = nodes(&[2; 2]);
        let map = MemoryMap { nodes: &nodes, distances: &[], limits: ZoneLimits::X86_64 };
        let mut out = [NOWHERE; MAX_ZONES_PER_ZONELIST];
        let mut list = |node, order| {
            let len = ZonelistBuilder::new(&map, LoadStep::One).full(node, order, &mut out);
            out[..len.unwrap()].to_vec()
        };
        let local_first = [(0, Normal), (0, Dma32), (0, Dma), (1, Normal)];
        check_list(&list(0, ZonelistOrder::Node), &local_first);
        let zone_first = [(0, Normal), (1, Normal), (0, Dma32), (0, Dma)];
        check_list(&list(0, ZonelistOrder::Zone), &zone_first);
        let remote = [(1, Normal), (0, Normal), (0, Dma32), (0, Dma)];
        check_list(&list(1, ZonelistOrder::Node), &remote);
        let low: Vec<_> = eligible(&list(1, ZonelistOrder::Node), Dma32).collect();
        check_list(&low, &[(0, Dma32), (0, Dma)]);
    }

    #[test]
    fn thisnode_list_stays_on_the_node() {
        let nodes = nodes(&[2; 2]);
        let map = MemoryMap { nodes: &nodes, distances: &[], limits: ZoneLimits::X86_64 };
        let builder = ZonelistBuilder::new(&map, LoadStep::One);
        let mut out = [NOWHERE; MAX_NR_ZONES];
        assert_eq!(builder.thisnode(1, &mut out), Ok(1));
        check_list(&out[..1], &[(1, Normal)]);
        assert_eq!(builder.thisnode(0, &mut out), Ok(3));
        check_list(&out[..3], &[(0, Normal), (0, Dma32), (0, Dma)]);
        assert_eq!(builder.thisnode(0, &mut out[..2]), Err(NoRoom));
    }
}
