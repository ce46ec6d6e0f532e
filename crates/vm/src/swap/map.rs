//! The map of swap slots, and which is used next.
//!
//! Source: `scan_swap_map`, `scan_swap_map_try_ssd_cluster` (mm/swapfile.c).

use crate::base::list::NIL;

/// Slots that are used in sequence before the search for the next free cluster (`SWAPFILE_CLUSTER`).
const CLUSTER: u32 = 256;

/// The slots of a swap device (`swap_map`).
#[derive(Clone, Debug, Default)]
pub(super) struct SwapMap {
    slots: u32,
    used: u32,
    /// Whether each slot is in use, up to the highest that ever was.
    in_use: Vec<bool>,
    /// Slots in use of each cluster.
    clusters: Vec<u32>,
    /// The slot at which the search for a free one starts.
    next: u32,
    /// Slots left until the search for the next free cluster.
    left: u32,
    /// The mapping and index whose page was last written to each slot.
    owners: Vec<(u32, u32)>,
    /// The shadow entry of the page that was evicted to each slot; [`NIL`] for none.
    shadows: Vec<u32>,
}

impl SwapMap {
    pub(super) fn new(slots: u32) -> Self {
        let clusters = vec![0; slots.div_ceil(CLUSTER) as usize];
        Self { slots, clusters, ..Self::default() }
    }

    /// Returns the number of free slots.
    pub(super) fn free_slots(&self) -> u64 {
        u64::from(self.slots - self.used)
    }

    /// Returns the number of slots.
    pub(super) const fn slots(&self) -> u32 {
        self.slots
    }

    /// Takes a free slot, if there is one: the next after the last, so that pages written together have adjacent
    /// slots.
    pub(super) fn take(&mut self) -> Option<u32> {
        let slot = self.next_slot()?;
        if slot as usize >= self.in_use.len() {
            self.in_use.resize(slot as usize + 1, false);
            self.owners.resize(slot as usize + 1, (0, 0));
            self.shadows.resize(slot as usize + 1, NIL);
        }
        self.in_use[slot as usize] = true;
        self.clusters[(slot / CLUSTER) as usize] += 1;
        self.used += 1;
        self.next = slot + 1;
        Some(slot)
    }

    /// Returns the slot that is used next.
    fn next_slot(&mut self) -> Option<u32> {
        if self.used == self.slots {
            return None;
        }
        if self.left == 0 {
            // Linux: on a rotational disk a free cluster need not be aligned; on others each CPU fills its own.
            if let Some(cluster) = self.clusters.iter().position(|&used| used == 0) {
                self.next = cluster as u32 * CLUSTER;
            }
            self.left = CLUSTER;
        }
        self.left = self.left.saturating_sub(1);
        let free = |slot: &u32| !self.in_use.get(*slot as usize).copied().unwrap_or(false);
        (self.next..self.slots).chain(0..self.next).find(free)
    }

    /// Sets the mapping and index whose page is written to a slot.
    pub(super) fn set_owner(&mut self, slot: u32, space: u32, index: u32) {
        debug_assert!(self.in_use[slot as usize], "a page is written to the free slot {slot}");
        self.owners[slot as usize] = (space, index);
    }

    /// Returns the mapping and index whose page was last written to a slot.
    pub(super) fn owner(&self, slot: u32) -> Option<(u32, u32)> {
        self.owners.get(slot as usize).copied()
    }

    /// Keeps the shadow entry of the page that is evicted to a slot.
    pub(super) fn set_shadow(&mut self, slot: u32, shadow: u32) {
        self.shadows[slot as usize] = shadow;
    }

    /// Takes the shadow entry of the page that was evicted to a slot.
    pub(super) fn take_shadow(&mut self, slot: u32) -> Option<u32> {
        let shadow = std::mem::replace(&mut self.shadows[slot as usize], NIL);
        (shadow != NIL).then_some(shadow)
    }

    /// Frees a slot.
    pub(super) fn put(&mut self, slot: u32) {
        debug_assert!(self.in_use[slot as usize], "swap slot {slot} is free");
        self.in_use[slot as usize] = false;
        self.shadows[slot as usize] = NIL;
        self.clusters[(slot / CLUSTER) as usize] -= 1;
        self.used -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_in_sequence() {
        let mut swap = SwapMap::new(3 * CLUSTER);
        let taken: Vec<u32> = (0..CLUSTER + 2).filter_map(|_| swap.take()).collect();
        assert_eq!(taken, (0..CLUSTER + 2).collect::<Vec<_>>());
        // A slot that is freed is not reused before the cluster is full, and then the first free cluster comes
        // before it.
        swap.put(7);
        let rest: Vec<u32> = (2..CLUSTER).filter_map(|_| swap.take()).collect();
        assert_eq!(rest, (CLUSTER + 2..2 * CLUSTER).collect::<Vec<_>>());
        assert_eq!(swap.take(), Some(2 * CLUSTER));
        assert_eq!(swap.free_slots(), u64::from(CLUSTER));
        let last: Vec<u32> = std::iter::from_fn(|| swap.take()).collect();
        assert_eq!((last.len(), last.last()), (CLUSTER as usize, Some(&7)));
        assert_eq!((swap.take(), swap.free_slots()), (None, 0));
    }
}
