//! The nodes of the machine: which zones each has, and the state of its background threads (`pg_data_t`).

use pageblock::layout::ZoneKind;
use pageblock::zone::Zone;

use crate::compact::kcompactd::Kcompactd;
use crate::reclaim::kswapd::Kswapd;

/// A node's background threads.
#[derive(Clone, Debug)]
pub struct NodeState {
    /// The node's number.
    pub id: u8,
    /// Its reclaim thread.
    pub kswapd: Kswapd,
    /// Its compaction thread (from 4.6).
    pub kcompactd: Kcompactd,
    /// Pages whose writes have ended so far (`NR_THROTTLED_WRITTEN`).
    pub written: u64,
}

/// The nodes, indexed in the order of their zones; a node's index need not be its number.
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    states: Vec<NodeState>,
    /// The index of the node of each zone.
    of_zone: Vec<u8>,
}

impl Nodes {
    /// Returns the nodes of the allocator's zones.
    pub(crate) fn new(zones: &[Zone<'_>]) -> Self {
        let mut ids: Vec<u8> = zones.iter().map(|zone| zone.node().0).collect();
        ids.dedup();
        let index = |id: u8| ids.iter().position(|&n| n == id).unwrap_or(0) as u8;
        let of_zone = zones.iter().map(|z| index(z.node().0)).collect();
        let state = |&id| NodeState {
            id,
            kswapd: Kswapd::default(),
            kcompactd: Kcompactd::default(),
            written: 0,
        };
        Self { states: ids.iter().map(state).collect(), of_zone }
    }

    /// Returns the number of nodes.
    pub(crate) const fn len(&self) -> usize {
        self.states.len()
    }

    /// Returns the state of every node.
    pub(crate) fn states(&self) -> &[NodeState] {
        &self.states
    }

    /// Returns the index of the node of this number; 0 if there is none.
    pub(crate) fn of_id(&self, id: u8) -> usize {
        self.states.iter().position(|node| node.id == id).unwrap_or(0)
    }

    /// Returns the index of the node of a zone.
    pub(crate) fn of_zone(&self, zone: usize) -> usize {
        usize::from(self.of_zone[zone])
    }

    /// Returns the zones of a node, lowest first.
    pub(crate) fn zones_of(&self, node: usize) -> impl Iterator<Item = usize> + use<'_> {
        (0..self.of_zone.len()).filter(move |&z| usize::from(self.of_zone[z]) == node)
    }

    /// Wakes the kswapd of the node of this number because a watermark was boosted.
    pub(crate) fn wake_for_boost(&mut self, id: u8, zone: ZoneKind, order: u8) {
        if let Some(node) = self.states.iter_mut().find(|n| n.id == id) {
            node.kswapd.wake_for_boost(zone, order);
        }
    }
}

impl std::ops::Index<usize> for Nodes {
    type Output = NodeState;
    #[inline]
    fn index(&self, at: usize) -> &NodeState {
        &self.states[at]
    }
}

impl std::ops::IndexMut<usize> for Nodes {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut NodeState {
        &mut self.states[at]
    }
}
