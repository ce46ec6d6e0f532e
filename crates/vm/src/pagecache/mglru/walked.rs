//! How far the walk of page tables for the next generation has come, and which tables it may leave out (`struct
//! lru_gen_mm_state`).

use super::filter::Filter;
use crate::pagecache::space::SpaceId;

/// The state of a node's walk, which all reclaimers share: each takes the next part of it.
#[derive(Clone, Debug)]
pub(crate) struct Walked {
    /// The generation for which the last walk was done.
    seq: u64,
    /// The mapping and page table at which the walk that is under way goes on.
    next: Option<(SpaceId, u32)>,
    /// Filters of the walks for even and odd generations, once there was one.
    filters: [Option<Filter>; 2],
    /// Whether each mapping was walked before.
    known: Vec<bool>,
}

impl Walked {
    pub(super) const fn new(seq: u64) -> Self {
        Self { seq, next: None, filters: [None, None], known: Vec::new() }
    }

    /// Returns whether the walk for a generation is done.
    pub(crate) const fn is_done(&self, seq: u64) -> bool {
        seq <= self.seq
    }

    /// Returns where the walk goes on; a new one begins with an empty filter for the next.
    pub(crate) fn resume(&mut self, seq: u64) -> (SpaceId, u32) {
        *self.next.get_or_insert_with(|| {
            match &mut self.filters[(seq as usize + 1) % 2] {
                Some(filter) => filter.clear(),
                filter => *filter = Some(Filter::new()),
            }
            (0, 0)
        })
    }

    /// Notes where the walk goes on.
    pub(crate) const fn set_next(&mut self, space: SpaceId, table: u32) {
        self.next = Some((space, table));
    }

    /// Ends the walk.
    pub(crate) const fn end(&mut self) {
        self.seq += 1;
        self.next = None;
    }

    /// Returns whether a mapping was walked before; tables of others are not left out.
    pub(crate) fn knows(&self, space: SpaceId) -> bool {
        self.known.get(space as usize).copied().unwrap_or(false)
    }

    /// Notes that a mapping was walked to its end.
    pub(crate) fn learn(&mut self, space: SpaceId) {
        if space as usize >= self.known.len() {
            self.known.resize(space as usize + 1, false);
        }
        self.known[space as usize] = true;
    }

    /// Forgets a mapping.
    pub(crate) fn forget(&mut self, space: SpaceId) {
        if let Some(known) = self.known.get_mut(space as usize) {
            *known = false;
        }
    }

    /// Returns whether the walk for a generation looks at a page table. Before the first walk every one is looked at.
    pub(crate) fn is_worth(&self, seq: u64, space: SpaceId, table: u32) -> bool {
        self.filters[seq as usize % 2].as_ref().is_none_or(|filter| filter.has(space, table))
    }

    /// Has the walk for a generation look at a page table.
    pub(crate) fn recommend(&mut self, seq: u64, space: SpaceId, table: u32) {
        if let Some(filter) = &mut self.filters[seq as usize % 2] {
            filter.add(space, table);
        }
    }
}

/// Returns whether a page table with so many used entries is worth the next walk: one for each cache line of eight
/// (`suitable_to_scan`).
pub(crate) const fn is_dense(entries: u64, young: u64) -> bool {
    young * 8 >= entries
}
