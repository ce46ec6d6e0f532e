//! Reads the state of memory word by word: numbers in kB as printed.

use std::collections::BTreeMap;

use pageblock::layout::ZoneKind;

use super::mem_info::{FreeList, MemInfo, Zone};
use crate::log::Line;

/// What a line must have one of to change what is read, unless the lines before it end within a zone
/// ([`Parser::is_within`]).
pub(in crate::log) const WORDS: [&str; 15] = [
    "Node",
    "active_",
    "unevictable:",
    "slab_",
    "shmem:",
    "pages ",
    "Free",
    "DMA",
    "Normal",
    "HighMem",
    "Movable",
    "kB",
    "KB",
    "lowmem_reserve",
    // Any text that Markdown escaped.
    r"\_",
];
/// The text that is printed after the last zone.
const AFTER_ZONES: [&str; 4] =
    ["hugepages_total=", "total pagecache pages", "pages in swap cache", "pages RAM"];
/// The largest `MAX_NUMNODES` that a kernel can be built with: a larger number is damage.
const NODES: u32 = 1 << 10;
/// The largest number of reserves kept for a zone: a dump has one for each kind of zone.
const RESERVES: usize = 64;

// 4 PiB, which no machine exceeds: larger numbers are damage, and their sums would overflow.
pub(super) const MOST_KB: u64 = 1 << 42;
pub(super) const MOST_PAGES: u64 = 1 << 40;
const MOST_BLOCKS: u64 = 1 << 36;
const MOST_BLOCK_KB: u64 = 1 << 22;

/// The subject of the next words.
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

/// Reads the state of memory line by line, however it is wrapped.
#[derive(Default)]
pub(in crate::log) struct Parser {
    zones: BTreeMap<(u32, ZoneKind), Zone>,
    /// Everything except the zones.
    info: MemInfo,
    node: u32,
    now: Now,
    /// Whether the size of memory, which follows that of swap, was printed.
    has_ram: bool,
    /// Anonymous memory of the zones, in kB: pieces of reports may have no sum of it.
    anonymous_kb: Option<u64>,
}

impl Parser {
    /// Reads a line.
    pub(in crate::log) fn push(&mut self, line: &Line) {
        if let Some(pages) = line.text.strip_suffix("pages HighMem/MovableOnly") {
            self.info.highmem_pages = at_most(pages.trim(), MOST_PAGES).unwrap_or(0);
        }
        self.info.is_whole |= AFTER_ZONES.iter().any(|after| line.text.contains(after));
        if let Some(pages) = line.text.trim_end().strip_suffix("pages RAM") {
            self.has_ram = true;
            self.info.ram_pages = at_most(pages.trim(), MOST_PAGES);
        }
        if let Some(pages) = line.text.trim_end().strip_suffix("pages reserved") {
            self.info.reserved_pages = at_most(pages.trim(), MOST_PAGES);
        }
        if line.text.contains("hugepages_total=") {
            self.info.held.huge_pages(&line.text);
        }
        // A type's letters are not always parted from the next number.
        let text = line.text.replace(')', ") ");
        for word in text.split_ascii_whitespace() {
            self.word(word, line.number);
        }
    }

    /// Returns whether a line without any of [`WORDS`] affects how the next lines are read.
    pub(in crate::log) fn is_within(&self) -> bool {
        !matches!(self.now, Now::Nothing | Now::Numbers(_))
    }

    /// Returns whether a zone was read.
    pub(in crate::log) fn has_zones(&self) -> bool {
        !self.zones.is_empty()
    }

    /// Returns what was read, of a kernel of this name.
    pub(in crate::log) fn finish(mut self, version: Option<&str>) -> MemInfo {
        self.info.page_kb = version.and_then(page_kb_of);
        let zones = self.zones.into_values();
        let zones = zones.filter(|zone| zone.free.is_some() || !zone.lists.is_empty()).collect();
        let mut info = MemInfo { zones, ..self.info };
        info.held = info.held.in_kb(info.page_kb());
        info.held.anonymous = info.held.anonymous.or(self.anonymous_kb);
        if let Some(ram) = info.ram_pages {
            info.held = info.held.within(ram.saturating_mul(info.page_kb()));
            info.file_pages = info.file_pages.filter(|&pages| pages <= ram);
        }
        if self.has_ram {
            info.free_swap_kb = info.free_swap_kb.or(Some(0));
        }
        info
    }

    /// Returns the zone of this kind on the node that was named last.
    fn zone(&mut self, kind: ZoneKind) -> &mut Zone {
        let node = self.node;
        self.zones.entry((node, kind)).or_insert_with(|| Zone::empty(node, kind))
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

    /// Starts to read the subject that a word announces.
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
                // Later versions add words between the numbers of a zone.
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
            if matches!(key, "active_file" | "inactive_file") {
                self.info.file_kb = (self.info.file_kb + kb).min(MOST_KB);
            }
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
            "unevictable" => {
                zone.counts.unevictable = kb;
                return;
            }
            "kernel_stack" | "pagetables" => {
                zone.counts.kernel = (zone.counts.kernel + kb).min(MOST_KB);
                return;
            }
            "slab_reclaimable" | "slab_unreclaimable" => {
                zone.counts.slab = Some((zone.counts.slab.unwrap_or(0) + kb).min(MOST_KB));
                return;
            }
            "active_anon" | "inactive_anon" => {
                zone.counts.anonymous = (zone.counts.anonymous + kb).min(MOST_KB);
                let sum = self.anonymous_kb.unwrap_or(0) + kb;
                self.anonymous_kb = Some(sum.min(MOST_KB));
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
        // People shorten lists.
        if matches!(word, "=" | "..." | "<...>" | "[...]") {
            return true;
        }
        let Some((blocks, size)) = word.split_once('*') else {
            let sum = word.strip_suffix("kB").and_then(|kb| at_most(kb, MOST_KB));
            zone.listed = zone.listed.or(sum);
            return sum.is_some();
        };
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

/// Returns the size of a page in kB that distributions build a kernel of this name with, if it is not 4.
fn page_kb_of(version: &str) -> Option<u64> {
    let has = |part: &str| version.contains(part);
    let is_red_hat = has(".el7") || has(".el8");
    (has("ppc64") || has("64k") || (is_red_hat && has("aarch64"))).then_some(64)
}

pub(super) fn at_most(word: &str, most: u64) -> Option<u64> {
    word.parse().ok().filter(|number| *number <= most)
}
