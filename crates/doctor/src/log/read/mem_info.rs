//! The state of memory in a report (`show_mem`, `show_free_areas`).

use pageblock::layout::ZoneKind;
use serde::{Serialize, Serializer};

use super::held::Held;
use super::nodes::NodeMemory;
use super::samples::Growth;

/// The largest page size.
const MOST_PAGE_KB: u64 = 256;

/// Writes the kernel's name of a zone.
pub(crate) fn kind_name<S: Serializer>(kind: &ZoneKind, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(kind.name())
}

/// The free blocks of one order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct FreeList {
    /// Their number.
    pub blocks: u64,
    /// The size of a block in kB.
    pub block_kb: u64,
    /// The letters of the types that have such blocks; `None` if the kernel prints none (before 3.8).
    pub types: Option<String>,
}

impl FreeList {
    /// Returns whether the type of a letter has some of the blocks.
    pub(crate) fn has(&self, letter: char) -> bool {
        self.types.as_ref().is_some_and(|types| types.contains(letter))
    }
}

/// One zone. Sizes are kB; `None`: not printed, or cut off.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Zone {
    /// The node; 0 where the kernel does not print one.
    pub node: u32,
    /// The kind.
    #[serde(serialize_with = "kind_name")]
    pub kind: ZoneKind,
    /// The line of its watermarks.
    pub line: Option<usize>,
    /// The line of its free lists.
    pub list_line: Option<usize>,
    /// Free memory.
    pub free: Option<u64>,
    /// The sum of its free lists, as printed.
    #[serde(skip)]
    pub(crate) listed: Option<u64>,
    /// The boost, which `min`, `low` and `high` include.
    pub boost: Option<u64>,
    /// The least that the boost must be where it is not printed, by what the marks of a zone say of each other, or by
    /// marks that rise from report to report.
    pub inferred_boost: Option<u64>,
    /// The min watermark.
    pub min: Option<u64>,
    /// The low watermark.
    pub low: Option<u64>,
    /// The high watermark.
    pub high: Option<u64>,
    /// Memory in highatomic pageblocks.
    pub reserved_highatomic: Option<u64>,
    /// Free memory in highatomic pageblocks.
    pub free_highatomic: Option<u64>,
    /// Free CMA memory.
    pub free_cma: Option<u64>,
    /// The memory that is present.
    pub present: Option<u64>,
    /// The memory that the allocator manages.
    pub managed: Option<u64>,
    /// The page cache.
    pub file: u64,
    /// What else its line counts.
    #[serde(skip)]
    pub(crate) counts: Counts,
    /// Pages that requests for higher zones must leave, by the index of the requested zone.
    pub lowmem_reserve: Vec<u64>,
    /// The free lists by order.
    pub lists: Vec<FreeList>,
}

/// Memory that the line of a zone counts, in kB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) anonymous: u64,
    pub(crate) unevictable: u64,
    /// Slab, up to 4.7.
    pub(crate) slab: Option<u64>,
    /// Stacks and page tables.
    pub(crate) kernel: u64,
}

impl Zone {
    /// Returns a zone without any value.
    pub(super) fn empty(node: u32, kind: ZoneKind) -> Self {
        Self {
            node,
            kind,
            line: None,
            list_line: None,
            free: None,
            listed: None,
            boost: None,
            inferred_boost: None,
            min: None,
            low: None,
            high: None,
            reserved_highatomic: None,
            free_highatomic: None,
            free_cma: None,
            present: None,
            managed: None,
            file: 0,
            counts: Counts::default(),
            lowmem_reserve: Vec::new(),
            lists: Vec::new(),
        }
    }

    /// Returns the boost, as printed or as far as it can be inferred.
    pub(crate) fn known_boost(&self) -> Option<u64> {
        self.boost.or(self.inferred_boost)
    }

    /// Returns the memory of the highatomic reserve, which the kernel does not count as free for other requests.
    pub(crate) fn highatomic(&self) -> Option<u64> {
        self.free_highatomic.or(self.reserved_highatomic)
    }
}

/// The state of memory.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MemInfo {
    /// The zones, by node and kind.
    pub zones: Vec<Zone>,
    /// Page cache that can be reclaimed, in pages.
    pub file_pages: Option<u64>,
    /// The same, as printed by node, in kB.
    #[serde(skip)]
    pub(crate) file_kb: u64,
    /// The size of a page in kB, if the name of the kernel tells it.
    #[serde(skip)]
    pub(crate) page_kb: Option<u64>,
    /// Free swap in kB; 0 if only the numbers around it are printed, as by a kernel without swap.
    pub free_swap_kb: Option<u64>,
    /// Memory available without swapping (`MemAvailable`), in kB, if `/proc/meminfo` or `free` was pasted.
    pub available_kb: Option<u64>,
    /// The memory of each holder, in kB.
    pub held: Held,
    /// Pages of the machine, including those that the allocator never got.
    pub ram_pages: Option<u64>,
    /// Those that it never got.
    #[serde(skip)]
    pub(crate) reserved_pages: Option<u64>,
    /// Whether the text after the zones was printed, so that no zone was cut off.
    pub is_whole: bool,
    /// Pages of high memory, or of zones for movable pages only.
    pub highmem_pages: u64,
    /// The memory of each node, if that was pasted.
    pub nodes: Vec<NodeMemory>,
    /// What grew most, if a text has several samples.
    pub growth: Option<Growth>,
    /// Whether the same zone was printed twice: a second dump without a header follows.
    pub repeats: bool,
}

impl MemInfo {
    /// Returns whether a fifth of memory is available without swapping, as far as that was pasted.
    #[must_use]
    pub fn is_available(&self) -> bool {
        let total = self.ram_pages.map(|pages| pages.saturating_mul(self.page_kb()));
        let both = self.available_kb.zip(total);
        both.is_some_and(|(available, total)| available.saturating_mul(5) >= total)
    }

    /// Returns the size of a page in kB: the free lists tell it, or page cache that was printed both ways.
    #[must_use]
    pub fn page_kb(&self) -> u64 {
        let first = self.zones.iter().find_map(|zone| zone.lists.first());
        let by_list = first.map(|list| list.block_kb.clamp(1, MOST_PAGE_KB));
        let by_cache = || {
            let kb = self.file_kb.checked_div(self.file_pages?)?;
            let is_exact = Some(self.file_kb) == self.file_pages.map(|pages| pages * kb);
            (is_exact && kb.is_power_of_two() && kb <= MOST_PAGE_KB).then_some(kb)
        };
        by_list.or_else(by_cache).or(self.page_kb).unwrap_or(4)
    }

    /// Returns whether counts of the whole machine were printed.
    pub(crate) fn has_counts(&self) -> bool {
        self.file_pages.is_some() || self.available_kb.is_some() || self.held != Held::default()
    }

    /// Returns the memory of the zones that were printed, in kB.
    pub(crate) fn managed_kb(&self) -> u64 {
        self.zones.iter().filter_map(|zone| zone.managed.or(zone.present)).sum()
    }

    /// Returns whether the free lists have no letters of types, which are printed from 3.8 on.
    pub(crate) fn has_no_letters(&self) -> bool {
        let lists = self.zones.iter().flat_map(|zone| &zone.lists);
        let mut used = lists.filter(|list| list.blocks > 0).peekable();
        used.peek().is_some() && used.all(|list| list.types.is_none())
    }

    /// Returns whether the report prints no zone up to this kind, although it prints one above it or the text after the
    /// zones.
    pub(crate) fn is_whole_without(&self, kind: ZoneKind) -> bool {
        let above = |zone: &Zone| zone.kind > kind;
        (self.is_whole || self.zones.iter().any(above)) && self.zones.iter().all(above)
    }

    /// Returns whether the machine has high memory, whose zone is not printed where the request may not use it.
    pub(crate) fn has_highmem(&self) -> bool {
        let printed = |kind| self.zones.iter().any(|zone| zone.kind == kind);
        let movable_only = printed(ZoneKind::Dma32) || printed(ZoneKind::Movable);
        printed(ZoneKind::HighMem) || (self.highmem_pages > 0 && !movable_only)
    }
}
