//! The state of memory in a report (`show_mem`, `show_free_areas`): numbers in kB as printed.

use std::collections::BTreeMap;

use pageblock::layout::ZoneKind;
use serde::{Serialize, Serializer};

use crate::log::Line;

/// What a line must have one of to change what is read, unless the lines before it end within a zone
/// ([`Parser::is_within`]).
pub(in crate::log) const WORDS: [&str; 18] = [
    "Node",
    "active_anon",
    "unevictable:",
    "slab_",
    "shmem:",
    "total pagecache pages",
    "pages RAM",
    "Free",
    "DMA",
    "Normal",
    "HighMem",
    "Movable",
    "Device",
    "kB",
    "KB",
    "active_file",
    "lowmem_reserve",
    // Whatever Markdown escaped.
    r"\_",
];
/// What is printed after the last zone.
const AFTER_ZONES: [&str; 4] =
    ["hugepages_total=", "total pagecache pages", "pages in swap cache", "pages RAM"];
/// The largest `MAX_NUMNODES` that a kernel can be built with: a larger number is damage.
const NODES: u32 = 1 << 10;
/// The most reserves of a zone that are kept: a dump has one for each kind of zone.
const RESERVES: usize = 64;

// What no machine exceeds, 4 PiB: larger numbers are damage, and their sums would overflow.
const MOST_KB: u64 = 1 << 42;
const MOST_PAGES: u64 = 1 << 40;
const MOST_BLOCKS: u64 = 1 << 36;
const MOST_BLOCK_KB: u64 = 1 << 22;
const MOST_PAGE_KB: u64 = 256;

/// Writes the kernel's name of a zone.
pub(crate) fn kind_name<S: Serializer>(kind: &ZoneKind, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(kind.name())
}

/// The free blocks of one order.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct FreeList {
    /// How many there are.
    pub blocks: u64,
    /// The size of one in kB.
    pub block_kb: u64,
    /// The types that have some, as letters; `None` where the kernel prints none (before 3.8).
    pub types: Option<String>,
}

impl FreeList {
    /// Tells whether a type of this letter has some of the blocks.
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
    /// The boost, which `min`, `low` and `high` have in them.
    pub boost: Option<u64>,
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
    /// The memory that there is.
    pub present: Option<u64>,
    /// The memory that the allocator has.
    pub managed: Option<u64>,
    /// The page cache.
    pub file: u64,
    /// Pages that requests for higher zones must leave, by the index of the requested zone.
    pub lowmem_reserve: Vec<u64>,
    /// The free lists by order.
    pub lists: Vec<FreeList>,
}

impl Zone {
    /// Returns the memory of the highatomic reserve that kernels leave out of what is free for others.
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
    /// Free swap in kB; 0 where the numbers around it are printed and it is not, as of a kernel without swap.
    pub free_swap_kb: Option<u64>,
    /// Who has memory, in kB.
    pub held: Held,
    /// Whether what follows the zones was printed: no zone was cut off.
    pub is_whole: bool,
    /// Pages of high memory, or of zones for movable pages only.
    pub highmem_pages: u64,
    /// Whether the same zone was printed twice: a second dump without a header follows.
    pub repeats: bool,
}

impl MemInfo {
    /// Returns the size of a page in kB, which only the free lists tell.
    #[must_use]
    pub fn page_kb(&self) -> u64 {
        let first = self.zones.iter().find_map(|zone| zone.lists.first());
        first.map_or(4, |list| list.block_kb.clamp(1, MOST_PAGE_KB))
    }

    /// Returns whether the free lists have no letters of types, which are printed from 3.8 on.
    pub(crate) fn has_no_letters(&self) -> bool {
        let lists = self.zones.iter().flat_map(|zone| &zone.lists);
        let mut used = lists.filter(|list| list.blocks > 0).peekable();
        used.peek().is_some() && used.all(|list| list.types.is_none())
    }

    /// Returns whether a zone up to this kind would have been printed, and none is: one above it is, or what follows the
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

/// Who has memory, in kB; `None`: not printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Held {
    /// Anonymous memory on the lists that reclaim looks at.
    pub anonymous: Option<u64>,
    /// Memory of tmpfs and of System V, which counts as page cache.
    pub shmem: Option<u64>,
    /// Memory that reclaim may not take.
    pub unevictable: Option<u64>,
    /// What of it is locked (`mlock`).
    pub mlocked: Option<u64>,
    /// Slab that the kernel can free.
    pub slab_reclaimable: Option<u64>,
    /// Slab that it cannot free.
    pub slab_unreclaimable: Option<u64>,
    /// Stacks of tasks in the kernel.
    pub kernel_stack: Option<u64>,
    /// Page tables.
    pub pagetables: Option<u64>,
}

impl Held {
    /// Counts a number of a whole machine, in pages; the page's size is not known yet.
    fn count(&mut self, key: &str, number: u64) {
        let field = match key {
            "active_anon" | "inactive_anon" => &mut self.anonymous,
            "shmem" => &mut self.shmem,
            "unevictable" => &mut self.unevictable,
            "slab_reclaimable" => &mut self.slab_reclaimable,
            "slab_unreclaimable" => &mut self.slab_unreclaimable,
            "pagetables" => &mut self.pagetables,
            _ => return,
        };
        *field = Some((field.unwrap_or(0) + number).min(MOST_PAGES));
    }

    /// Adds what is printed by zone, or by node, and only there, in kB.
    fn add(&mut self, key: &str, kb: u64) {
        let field = match key {
            "mlocked" => &mut self.mlocked,
            "kernel_stack" => &mut self.kernel_stack,
            _ => return,
        };
        *field = Some((field.unwrap_or(0) + kb).min(MOST_KB));
    }

    /// Returns it with counts of pages turned into kB.
    fn in_kb(self, page_kb: u64) -> Self {
        let kb = |pages: Option<u64>| pages.map(|pages| pages * page_kb);
        Self {
            anonymous: kb(self.anonymous),
            shmem: kb(self.shmem),
            unevictable: kb(self.unevictable),
            slab_reclaimable: kb(self.slab_reclaimable),
            slab_unreclaimable: kb(self.slab_unreclaimable),
            pagetables: kb(self.pagetables),
            ..self
        }
    }
}

/// What the words are about.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Now {
    #[default]
    Nothing,
    /// `Node` was read: its number is next.
    Node,
    /// A zone's name was read.
    Zone(ZoneKind),
    /// The numbers of a zone.
    Numbers(ZoneKind),
    /// The reserves of a zone.
    Reserve(ZoneKind),
    /// The free lists of a zone.
    Lists(ZoneKind),
    /// `Free swap` was read.
    Swap,
}

/// Reads the state of memory line by line, in whatever way it is wrapped.
#[derive(Default)]
pub(in crate::log) struct Parser {
    zones: BTreeMap<(u32, ZoneKind), Zone>,
    /// All but the zones.
    info: MemInfo,
    node: u32,
    now: Now,
    /// Whether the size of memory was printed, which follows that of swap.
    has_ram: bool,
}

impl Parser {
    /// Reads a line.
    pub(in crate::log) fn push(&mut self, line: &Line) {
        if let Some(pages) = line.text.strip_suffix("pages HighMem/MovableOnly") {
            self.info.highmem_pages = at_most(pages.trim(), MOST_PAGES).unwrap_or(0);
        }
        self.info.is_whole |= AFTER_ZONES.iter().any(|after| line.text.contains(after));
        self.has_ram |= line.text.trim_end().ends_with("pages RAM");
        // A type's letters are not always parted from the next number.
        let text = line.text.replace(')', ") ");
        for word in text.split_ascii_whitespace() {
            self.word(word, line.number);
        }
    }

    /// Returns whether a line without any of [`WORDS`] would change what is read of the lines after it.
    pub(in crate::log) fn is_within(&self) -> bool {
        !matches!(self.now, Now::Nothing | Now::Numbers(_))
    }

    /// Returns whether a zone was read.
    pub(in crate::log) fn has_zones(&self) -> bool {
        !self.zones.is_empty()
    }

    /// Returns what was read.
    pub(in crate::log) fn finish(self) -> MemInfo {
        let zones = self.zones.into_values();
        let zones = zones.filter(|zone| zone.free.is_some() || !zone.lists.is_empty()).collect();
        let mut info = MemInfo { zones, ..self.info };
        info.held = info.held.in_kb(info.page_kb());
        if self.has_ram {
            info.free_swap_kb = info.free_swap_kb.or(Some(0));
        }
        info
    }

    /// Returns the zone of this kind on the node that was named last.
    fn zone(&mut self, kind: ZoneKind) -> &mut Zone {
        let node = self.node;
        self.zones.entry((node, kind)).or_insert_with(|| Zone {
            node,
            kind,
            line: None,
            list_line: None,
            free: None,
            boost: None,
            min: None,
            low: None,
            high: None,
            reserved_highatomic: None,
            free_highatomic: None,
            free_cma: None,
            present: None,
            managed: None,
            file: 0,
            lowmem_reserve: Vec::new(),
            lists: Vec::new(),
        })
    }

    fn word(&mut self, word: &str, line: usize) {
        if let Now::Lists(kind) = self.now
            && self.list(kind, word, line)
        {
            return;
        }
        match self.now {
            Now::Node => {
                self.now = Now::Nothing;
                if let Some(node) = word.parse().ok().filter(|&node| node < NODES) {
                    self.node = node;
                    return;
                }
            }
            Now::Zone(kind) if word.starts_with("free:") => {
                self.info.repeats |= self.zone(kind).free.is_some();
                self.now = Now::Numbers(kind);
                self.zone(kind).line.get_or_insert(line);
                self.number(kind, word);
                return;
            }
            Now::Numbers(kind) if word.starts_with("lowmem_reserve") => {
                self.now = Now::Reserve(kind);
                return;
            }
            Now::Numbers(kind) if word.contains(':') => {
                self.number(kind, word);
                return;
            }
            Now::Reserve(kind) => {
                if let Some(pages) = at_most(word, MOST_PAGES) {
                    let reserve = &mut self.zone(kind).lowmem_reserve;
                    if reserve.len() < RESERVES {
                        reserve.push(pages);
                    }
                    return;
                }
            }
            Now::Swap => {
                if let Some(kb) = word.trim_start_matches('=').strip_suffix("kB") {
                    self.info.free_swap_kb = at_most(kb, MOST_KB);
                } else if word == "=" || word == "swap" {
                    return;
                }
            }
            _ => {}
        }
        self.begin(word);
    }

    /// Begins with what a word announces.
    fn begin(&mut self, word: &str) {
        self.now = match word {
            "Node" => Now::Node,
            "Free" => Now::Swap,
            _ => match (
                ZoneKind::from_name(word),
                word.strip_suffix(':').and_then(ZoneKind::from_name),
            ) {
                (Some(kind), _) => Now::Zone(kind),
                (_, Some(kind)) => Now::Lists(kind),
                // Between the numbers of a zone stands what later versions add.
                _ if matches!(self.now, Now::Numbers(_)) => self.now,
                _ => Now::Nothing,
            },
        };
        let Some((key, value)) = word.split_once(':') else { return };
        if let Some(pages) = at_most(value, MOST_PAGES) {
            self.info.held.count(key, pages);
            if matches!(key, "active_file" | "inactive_file") {
                let file = self.info.file_pages.get_or_insert(0);
                *file = (*file + pages).min(MOST_PAGES);
            }
        } else if let Some(kb) = value.strip_suffix("kB").and_then(|kb| at_most(kb, MOST_KB)) {
            self.info.held.add(key, kb);
        }
    }

    fn number(&mut self, kind: ZoneKind, word: &str) {
        let Some((key, value)) = word.split_once(':') else { return };
        let kb = value.strip_suffix("kB").or_else(|| value.strip_suffix("KB"));
        // A value without its unit was cut off.
        let Some(kb) = kb.and_then(|kb| at_most(kb, MOST_KB)) else { return };
        self.info.held.add(key, kb);
        let zone = self.zone(kind);
        let field = match key {
            "free" => &mut zone.free,
            "boost" => &mut zone.boost,
            "min" => &mut zone.min,
            "low" => &mut zone.low,
            "high" => &mut zone.high,
            "reserved_highatomic" => &mut zone.reserved_highatomic,
            "free_highatomic" => &mut zone.free_highatomic,
            "free_cma" => &mut zone.free_cma,
            "present" => &mut zone.present,
            "managed" => &mut zone.managed,
            "active_file" | "inactive_file" => {
                zone.file = (zone.file + kb).min(MOST_KB);
                return;
            }
            _ => return,
        };
        field.get_or_insert(kb);
    }

    /// Reads a part of a free list, such as `12*64kB` or `(UM)`; returns whether it is one.
    fn list(&mut self, kind: ZoneKind, word: &str, line: usize) -> bool {
        let zone = self.zone(kind);
        if let Some(letters) = word.strip_prefix('(').and_then(|w| w.strip_suffix(')')) {
            let last = zone.lists.last_mut();
            last.into_iter().for_each(|list| list.types = Some(letters.to_owned()));
            return true;
        }
        let Some((blocks, size)) = word.split_once('*') else { return false };
        let size = size.strip_suffix("kB").and_then(|kb| at_most(kb, MOST_BLOCK_KB));
        let (Some(blocks), Some(block_kb)) = (at_most(blocks, MOST_BLOCKS), size) else {
            return false;
        };
        if !block_kb.is_power_of_two() {
            return false;
        }
        zone.list_line.get_or_insert(line);
        if zone.lists.iter().all(|list| list.block_kb < block_kb) {
            zone.lists.push(FreeList { blocks, block_kb, types: None });
        }
        true
    }
}

fn at_most(word: &str, most: u64) -> Option<u64> {
    word.parse().ok().filter(|number| *number <= most)
}
