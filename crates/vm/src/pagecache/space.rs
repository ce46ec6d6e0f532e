//! Address spaces: the page, shadow entry or swap slot at each index of a file or anonymous mapping.
//!
//! Source: `struct address_space` and its radix tree; for anonymous mappings, page tables. Here both are
//! rows of one flat table of slots, four bytes each.

use std::collections::BTreeMap;

use crate::base::list::{Linked, Links, List, NIL};
use crate::vm::Vm;

/// The number of a file or mapping.
pub type SpaceId = u32;

/// The entry at an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// Nothing.
    Empty,
    /// A page, by frame number.
    Page(u32),
    /// The shadow entry of an evicted page (`workingset.rs`): an opaque value of 30 bits.
    Shadow(u32),
    /// A swap slot.
    Swap(u32),
}

const TAG: u32 = 3 << 30;
const PAGE: u32 = 1 << 30;
const SHADOW: u32 = 2 << 30;
const SWAP: u32 = 3 << 30;

impl Slot {
    const fn encode(self) -> u32 {
        match self {
            Self::Empty => 0,
            Self::Page(pfn) => PAGE | pfn & !TAG,
            Self::Shadow(value) => SHADOW | value & !TAG,
            Self::Swap(place) => SWAP | place & !TAG,
        }
    }

    const fn decode(bits: u32) -> Self {
        let value = bits & !TAG;
        match bits & TAG {
            PAGE => Self::Page(value),
            SHADOW => Self::Shadow(value),
            SWAP => Self::Swap(value),
            _ => Self::Empty,
        }
    }
}

/// Slots of one index node (`RADIX_TREE_MAP_SIZE`).
pub(crate) const SLOTS_PER_NODE: u32 = 64;

/// Whether a space is a file or a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpaceKind {
    /// A file's content.
    File,
    /// Memory of a process.
    Anon,
}

/// A file or mapping.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    links: Links,
    start: u32,
    len: u32,
    /// The slab objects of its index nodes, one for each [`SLOTS_PER_NODE`] slots.
    nodes: u32,
    /// Pages present.
    pub present: u32,
    /// Shadow entries.
    pub shadows: u32,
    /// Dirty pages that are not being written.
    pub dirty: u32,
    /// Pages being written.
    pub writeback: u32,
    /// Whether it is a file or a mapping.
    pub kind: SpaceKind,
    /// The inode of a file; meaningless for a mapping.
    pub inode: u32,
    /// Its process was killed by the OOM killer.
    killed: bool,
    /// Its process is never killed by the OOM killer.
    unkillable: bool,
    queue: Queue,
    /// The interval of the flusher in which it became dirty.
    dirtied: u32,
}

/// The list that a space is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Queue {
    None,
    /// Files with dirty pages.
    Dirty,
    /// Files with shadow entries and no page.
    Shadows,
}

impl Space {
    /// Returns its length in pages.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Returns whether it has no slot.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns its inode if it is a file's, not a mapping's or a device's.
    #[must_use]
    pub fn inode(&self) -> Option<u32> {
        (self.inode != NIL).then_some(self.inode)
    }

    /// Returns whether its process was killed by the OOM killer.
    pub(crate) const fn is_killed(&self) -> bool {
        self.killed
    }

    /// Returns whether the OOM killer may kill its process.
    pub(crate) fn is_killable(&self) -> bool {
        self.kind == SpaceKind::Anon && !self.killed && !self.unkillable
    }

    /// Returns whether its inode may be freed: it has no page, and no index node, which a shadow entry keeps unless the
    /// file has one page (`mapping_shrinkable`).
    pub(crate) const fn is_shrinkable(&self) -> bool {
        self.present == 0 && (self.shadows == 0 || self.nr_nodes() == 0)
    }

    /// Returns the number of its index nodes. A file of one page has none: its page is in the inode.
    const fn nr_nodes(&self) -> u32 {
        match self.kind {
            SpaceKind::File if self.len > 1 => self.len.div_ceil(SLOTS_PER_NODE),
            _ => 0,
        }
    }
}

impl Linked for Space {
    fn links(&self) -> &Links {
        &self.links
    }
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// All files and mappings.
#[derive(Debug, Default)]
pub struct Spaces {
    spaces: Vec<Space>,
    slots: Vec<u32>,
    nodes: Vec<u32>,
    unused: Vec<SpaceId>,
    /// Unused rows of slots and of nodes, by length.
    holes: [BTreeMap<u32, Vec<u32>>; 2],
    /// Files with dirty pages; the one that became dirty last is at the head.
    dirty: List,
    /// Intervals of the flusher so far.
    interval: u32,
    /// Files with shadow entries only, and the number of their index nodes.
    shadows: List,
    shadow_nodes: u64,
}

fn take(table: &mut Vec<u32>, holes: &mut BTreeMap<u32, Vec<u32>>, len: u32, value: u32) -> u32 {
    if let Some(start) = holes.get_mut(&len).and_then(Vec::pop) {
        table[start as usize..(start + len) as usize].fill(value);
        return start;
    }
    let start = table.len();
    table.resize(start + len as usize, value);
    start as u32
}

impl Spaces {
    /// Creates a file or mapping of `len` pages, all empty.
    pub(super) fn create(&mut self, kind: SpaceKind, len: u32, inode: u32) -> SpaceId {
        let start = take(&mut self.slots, &mut self.holes[0], len, 0);
        let mut space = Space {
            links: Links::NONE,
            start,
            len,
            nodes: 0,
            present: 0,
            shadows: 0,
            dirty: 0,
            writeback: 0,
            kind,
            inode,
            killed: false,
            unkillable: false,
            queue: Queue::None,
            dirtied: 0,
        };
        space.nodes = take(&mut self.nodes, &mut self.holes[1], space.nr_nodes(), NIL);
        if let Some(id) = self.unused.pop() {
            self.spaces[id as usize] = space;
            return id;
        }
        self.spaces.push(space);
        self.spaces.len() as u32 - 1
    }

    /// Deletes a space, which must have no pages.
    pub(super) fn forget(&mut self, id: SpaceId) {
        let Space { start, len, nodes, .. } = self.spaces[id as usize];
        let count = self.spaces[id as usize].nr_nodes();
        self.put_on(id, Queue::None);
        self.holes[0].entry(len).or_default().push(start);
        self.holes[1].entry(count).or_default().push(nodes);
        self.spaces[id as usize].len = 0;
        self.unused.push(id);
    }

    /// Returns a file or mapping.
    #[must_use]
    pub fn get(&self, id: SpaceId) -> &Space {
        &self.spaces[id as usize]
    }

    pub(super) fn get_mut(&mut self, id: SpaceId) -> &mut Space {
        &mut self.spaces[id as usize]
    }

    /// Returns the file that has been dirty longest.
    pub(super) fn oldest_dirty(&self) -> Option<SpaceId> {
        self.dirty.tail()
    }

    /// Returns the number above those of all spaces.
    pub(crate) fn end(&self) -> SpaceId {
        self.spaces.len() as SpaceId
    }

    /// Iterates over every space that exists.
    pub fn iter(&self) -> impl Iterator<Item = (SpaceId, &Space)> {
        (0..).zip(&self.spaces).filter(|(_, s)| s.len > 0)
    }

    /// Returns the entry at an index, which must be below the length.
    #[inline]
    #[must_use]
    pub fn slot(&self, id: SpaceId, index: u32) -> Slot {
        let space = &self.spaces[id as usize];
        debug_assert!(index < space.len, "index {index} of a space of {} pages", space.len);
        Slot::decode(self.slots[(space.start + index) as usize])
    }

    /// Sets the entry at an index, and counts pages and shadow entries.
    pub(super) fn set(&mut self, id: SpaceId, index: u32, slot: Slot) {
        let space = &mut self.spaces[id as usize];
        let at = &mut self.slots[(space.start + index) as usize];
        match Slot::decode(*at) {
            Slot::Page(_) => space.present -= 1,
            Slot::Shadow(_) => space.shadows -= 1,
            Slot::Empty | Slot::Swap(_) => {}
        }
        match slot {
            Slot::Page(_) => space.present += 1,
            Slot::Shadow(_) => space.shadows += 1,
            Slot::Empty | Slot::Swap(_) => {}
        }
        *at = slot.encode();
        let (shadows_only, on) =
            (space.present == 0 && space.shadows > 0, space.queue == Queue::Shadows);
        if shadows_only != on {
            self.put_on(id, if shadows_only { Queue::Shadows } else { Queue::None });
        }
    }

    fn put_on(&mut self, id: SpaceId, to: Queue) {
        let nodes = u64::from(self.spaces[id as usize].nr_nodes());
        match self.spaces[id as usize].queue {
            Queue::None => {}
            Queue::Dirty => self.dirty.remove(&mut self.spaces, id),
            Queue::Shadows => {
                self.shadows.remove(&mut self.spaces, id);
                self.shadow_nodes -= nodes;
            }
        }
        match to {
            Queue::None => {}
            Queue::Dirty => self.dirty.push_head(&mut self.spaces, id),
            Queue::Shadows => {
                self.shadows.push_head(&mut self.spaces, id);
                self.shadow_nodes += nodes;
            }
        }
        self.spaces[id as usize].queue = to;
    }

    /// Returns the number of index nodes with nothing but shadow entries.
    pub(crate) const fn shadow_nodes(&self) -> u64 {
        self.shadow_nodes
    }

    /// Returns the file that has had only shadow entries for longest.
    pub(super) fn oldest_shadows(&self) -> Option<SpaceId> {
        self.shadows.tail()
    }

    /// Returns the place of the index node above an index; `None` if none is needed.
    fn node_place(&self, id: SpaceId, index: u32) -> Option<usize> {
        let space = &self.spaces[id as usize];
        let needed = space.nr_nodes() > 0 && (index > 0 || space.present + space.shadows > 0);
        needed.then_some((space.nodes + index / SLOTS_PER_NODE) as usize)
    }

    /// Returns whether a page at an index needs an index node that is missing.
    #[must_use]
    pub fn needs_node(&self, id: SpaceId, index: u32) -> bool {
        self.node_place(id, index).is_some_and(|at| self.nodes[at] == NIL)
    }

    /// Sets the index node above an index.
    pub(super) fn set_node(&mut self, id: SpaceId, index: u32, slab: u32) {
        if let Some(at) = self.node_place(id, index) {
            self.nodes[at] = slab;
        }
    }

    /// Takes all index nodes from a space, and returns them as objects to be freed.
    pub(super) fn take_nodes(&mut self, id: SpaceId) -> impl Iterator<Item = u32> + use<> {
        let space = self.spaces[id as usize];
        let row = &mut self.nodes[space.nodes as usize..(space.nodes + space.nr_nodes()) as usize];
        let taken: Vec<u32> = row.iter().copied().filter(|&n| n != NIL).collect();
        row.fill(NIL);
        taken.into_iter()
    }

    /// Puts a file that became dirty on the list of dirty files.
    pub(super) fn queue_dirty(&mut self, id: SpaceId) {
        if self.spaces[id as usize].queue != Queue::Dirty {
            self.put_on(id, Queue::Dirty);
            self.spaces[id as usize].dirtied = self.interval;
        }
    }

    /// Starts the next interval of the flusher.
    pub(super) fn begin_interval(&mut self) {
        self.interval += 1;
    }

    /// Returns the file that has been dirty longest, if it has been dirty for at least `intervals`.
    pub(super) fn expired(&self, intervals: u32) -> Option<SpaceId> {
        let oldest = self.oldest_dirty()?;
        let since = self.interval - self.spaces[oldest as usize].dirtied;
        (since >= intervals).then_some(oldest)
    }

    /// Takes a file off the list of dirty files.
    pub(super) fn unqueue_dirty(&mut self, id: SpaceId) {
        if self.spaces[id as usize].queue == Queue::Dirty {
            self.put_on(id, Queue::None);
        }
    }
}

impl<O> Vm<'_, O> {
    /// Returns the files and mappings.
    #[must_use]
    pub fn spaces(&self) -> &Spaces {
        &self.pagecache.spaces
    }

    /// Creates an anonymous mapping of `len` pages.
    pub fn create_mapping(&mut self, len: u32) -> SpaceId {
        self.pagecache.spaces.create(SpaceKind::Anon, len, NIL)
    }

    /// Creates the page cache of a file of up to `len` pages.
    pub(crate) fn create_file_space(&mut self, len: u32, inode: u32) -> SpaceId {
        self.pagecache.spaces.create(SpaceKind::File, len, inode)
    }

    /// Keeps the OOM killer from killing the process of a mapping (`OOM_SCORE_ADJ_MIN`).
    pub fn never_kill(&mut self, id: SpaceId) {
        self.pagecache.spaces.get_mut(id).unkillable = true;
    }

    /// Marks the process of a mapping as killed.
    pub(crate) fn kill(&mut self, id: SpaceId) {
        self.pagecache.spaces.get_mut(id).killed = true;
    }

    /// Returns whether the process of a mapping was killed by the OOM killer.
    #[must_use]
    pub fn is_killed(&self, id: SpaceId) -> bool {
        self.spaces().get(id).killed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_survive_encoding() {
        for slot in [Slot::Empty, Slot::Page(7), Slot::Shadow(1 << 29), Slot::Swap(0)] {
            assert_eq!(Slot::decode(slot.encode()), slot);
        }
    }

    #[test]
    fn rows_are_reused_and_start_empty() {
        let mut spaces = Spaces::default();
        let a = spaces.create(SpaceKind::File, 16, 0);
        let b = spaces.create(SpaceKind::File, 100, 0);
        spaces.set(a, 3, Slot::Page(77));
        assert_eq!((spaces.get(a).present, spaces.slot(a, 3)), (1, Slot::Page(77)));
        spaces.set(a, 3, Slot::Shadow(5));
        assert_eq!((spaces.get(a).present, spaces.get(a).shadows), (0, 1));
        spaces.forget(a);
        let c = spaces.create(SpaceKind::File, 16, 0);
        assert_eq!((c, spaces.slot(c, 3)), (a, Slot::Empty));
        assert_eq!(spaces.iter().map(|(id, _)| id).collect::<Vec<_>>(), [c, b]);
    }

    #[test]
    fn the_second_page_of_a_file_needs_an_index_node() {
        let mut spaces = Spaces::default();
        let file = spaces.create(SpaceKind::File, 65, 0);
        assert!(!spaces.needs_node(file, 0));
        spaces.set(file, 0, Slot::Page(1));
        assert!(spaces.needs_node(file, 1) && spaces.needs_node(file, 64));
        spaces.set_node(file, 1, 500);
        assert!(!spaces.needs_node(file, 1) && spaces.needs_node(file, 64));
        assert_eq!(spaces.take_nodes(file).collect::<Vec<_>>(), [500]);
        assert!(spaces.needs_node(file, 1));
    }
}
