//! What people paste around a failure: `/proc/meminfo`, `buddyinfo`, `pagetypeinfo`, `zoneinfo`, and `free`.

use std::collections::BTreeMap;

use pageblock::layout::ZoneKind;

use super::fields::Fields;
use super::mem_info::{FreeList, MemInfo, Zone};
use super::nodes::Nodes;
use super::rows::{ORDERS, Rows};
use super::samples::Samples;
use super::state::{MOST_KB, MOST_PAGES, at_most};
use super::tasks::{LARGEST, SlabCache};
use super::tools;
use crate::log::Line;

/// Pasted text has these files within this many lines. Further down only what is printed whole is read: `meminfo` from its
/// first line on, `buddyinfo`, and tables of slab caches under their heads.
const LINES: usize = 200;
/// The largest number of lines of `meminfo`, and of a table of slab caches.
const MEMINFO: usize = 60;
const CACHES: usize = 300;
/// The largest number of lines of a zone in `zoneinfo`, with the statistics of its node.
const ZONE: usize = 60;
/// Such a line is in the heads of tables of slab caches.
pub(in crate::log) const MARKS: [&str; 2] = ["OBJ/SLAB", "<active_objs>"];
/// The assumed page size of `/proc/buddyinfo` in kB; the file does not say it.
pub(super) const PAGE_KB: u64 = 4;
/// The names of types in `/proc/pagetypeinfo`, and their letters in reports.
const TYPES: [(&str, char); 5] =
    [("Unmovable", 'U'), ("Movable", 'M'), ("Reclaimable", 'E'), ("HighAtomic", 'H'), ("CMA", 'C')];
const MOST_ORDERS: usize = 20;

/// Reads them.
#[derive(Default)]
pub(in crate::log) struct Pasted {
    /// The fields of `/proc/meminfo`, in kB; counts of huge pages in pages.
    fields: BTreeMap<String, u64>,
    /// Those of a sample before it.
    before: Option<BTreeMap<String, u64>>,
    zones: BTreeMap<(u32, ZoneKind), Zone>,
    /// The zone of `/proc/zoneinfo` whose numbers follow.
    now: Option<(u32, ZoneKind)>,
    /// The unit of `free` in kB, after its command was read, and whether its last column is the available memory.
    unit_kb: Option<u64>,
    has_available: bool,
    /// The slab caches of `slabtop` or `/proc/slabinfo`, in kB; both may be there.
    caches: BTreeMap<String, u64>,
    /// The first line that was read.
    first: Option<usize>,
    /// The cache of ZFS.
    arc_kb: Option<u64>,
    rows: Rows,
    nodes: Nodes,
    samples: Samples,
    /// The last line that may belong to a file whose first line was read.
    until: usize,
}

impl Pasted {
    /// Returns whether the next line may belong to a file, whatever its text.
    pub(in crate::log) fn is_within(&self, line: usize) -> bool {
        line < self.until
    }

    /// Reads a line.
    pub(in crate::log) fn push(&mut self, line: &Line) {
        self.samples.push(line);
        let lines = match &line.text {
            text if text.contains("MemTotal:") => MEMINFO,
            text if MARKS.iter().any(|mark| text.contains(mark)) => CACHES,
            text if text.contains(", zone ") && text.split_whitespace().count() == 4 => ZONE,
            text if text.contains(", zone ") => 1,
            _ => 0,
        };
        if lines > 0 {
            self.until = self.until.max(line.number + lines);
        }
        if line.number > LINES.max(self.until) {
            return;
        }
        if let Some(row) = self.rows.push(line) {
            for text in parted(&row.text) {
                self.read(&Line { text: text.to_owned(), ..row.clone() });
            }
        }
    }

    fn read(&mut self, line: &Line) {
        // Who explains a command may put its output in comments.
        let text = line.text.trim().trim_start_matches('#').trim_start().trim_end_matches(',');
        if self.nodes.push(text) {
            self.first.get_or_insert(line.number);
            return;
        }
        let of_top = tools::fields(text);
        if !of_top.is_empty() {
            self.fields.extend(of_top.into_iter().map(|(field, kb)| (field.to_owned(), kb)));
            self.first.get_or_insert(line.number);
            return;
        }
        if let Some(kb) = tools::arc(text) {
            self.arc_kb = Some(kb);
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            [key, number] | [key, number, "kB"] if key.ends_with(':') => {
                if key == "MemTotal:" && self.fields.contains_key("MemTotal") {
                    self.before = Some(std::mem::take(&mut self.fields));
                }
                if let Some(number) = at_most(number, MOST_KB) {
                    self.fields.insert(key.trim_end_matches(':').to_owned(), number);
                }
            }
            ["Node", node, "zone", kind, "type", name, ref blocks @ ..] => {
                self.zone(node, kind, blocks, line.number, TYPES.iter().find(|(n, _)| *n == name));
            }
            ["Node", node, "zone", kind] => self.now = place(node, kind),
            ["Node", node, "zone", kind, ref blocks @ ..] => {
                self.zone(node, kind, blocks, line.number, None);
            }
            [_, _, used, size, slabs, _, cache, name]
                if used.ends_with('%')
                    && size.ends_with('K')
                    && at_most(slabs, MOST_PAGES).is_some() =>
            {
                let kb = cache.strip_suffix('K').and_then(|kb| at_most(kb, MOST_KB));
                self.cache(name, kb, line.number);
            }
            [name, _, _, _, _, pages, ":", "tunables", .., slabs, _] => {
                let both = at_most(pages, 1 << 10).zip(at_most(slabs, MOST_PAGES));
                let kb = both.map(|(pages, slabs)| pages.saturating_mul(slabs * PAGE_KB));
                self.cache(name, kb, line.number);
            }
            ["pages", "free", pages] => self.number("free", pages),
            [name @ ("min" | "low" | "high" | "present" | "managed"), pages] => {
                self.number(name, pages);
            }
            ["total", "used", "free", ..] => self.has_available = text.ends_with("available"),
            ["Mem:", total, _, free, .., last] => {
                // If two were pasted, the last counts.
                self.fields.remove("MemAvailable");
                self.row("Mem", total, free, Some(last));
            }
            ["Swap:", total, _, free] => self.row("Swap", total, free, None),
            // The available memory in older versions.
            ["-/+", "buffers/cache:", _, free] => self.available(free),
            _ => {
                if let Some(at) = words.iter().position(|word| *word == "free") {
                    self.unit_kb = unit(words.get(at + 1).copied().unwrap_or_default());
                }
            }
        }
        if !(self.fields.is_empty() && self.zones.is_empty()) {
            self.first.get_or_insert(line.number);
        }
    }

    /// Reads the size of a slab cache.
    fn cache(&mut self, name: &str, kb: Option<u64>, line: usize) {
        let Some(kb) = kb.filter(|kb| *kb > 0) else { return };
        self.caches.insert(name.to_owned(), kb);
        self.first.get_or_insert(line);
    }

    /// Reads a line of `/proc/buddyinfo`, or the line of a type in `/proc/pagetypeinfo`.
    fn zone(
        &mut self,
        node: &str,
        kind: &str,
        blocks: &[&str],
        line: usize,
        of: Option<&(&str, char)>,
    ) {
        let blocks: Option<Vec<u64>> = blocks
            .iter()
            .map(|blocks| at_most(blocks.trim_start_matches('>'), MOST_PAGES))
            .collect();
        let (Some(at), Some(blocks)) = (place(node, kind), blocks) else { return };
        if blocks.len() < ORDERS {
            return;
        }
        let zone = self.zones.entry(at).or_insert_with(|| Zone::empty(at.0, at.1));
        // Both files may be pasted, and count the same blocks.
        if zone.lists.iter().any(|list| list.types.is_none())
            || (of.is_none() && !zone.lists.is_empty())
        {
            return;
        }
        zone.list_line.get_or_insert(line);
        for (order, blocks) in blocks.into_iter().enumerate().take(MOST_ORDERS) {
            if zone.lists.len() == order {
                let types = of.map(|_| String::new());
                zone.lists.push(FreeList { blocks: 0, block_kb: PAGE_KB << order, types });
            }
            let list = &mut zone.lists[order];
            list.blocks = list.blocks.saturating_add(blocks).min(MOST_PAGES);
            if let Some((types, (_, letter))) = list.types.as_mut().zip(of).filter(|_| blocks > 0) {
                types.push(*letter);
            }
        }
        let free = zone.lists.iter().map(|list| list.blocks.saturating_mul(list.block_kb));
        zone.free = Some(free.fold(0, u64::saturating_add).min(MOST_KB));
    }

    /// Reads a number of a zone in `/proc/zoneinfo`. Below `managed` the per-CPU lists use some of the same names.
    fn number(&mut self, name: &str, pages: &str) {
        let kb = at_most(pages, MOST_PAGES).map(|pages| pages * PAGE_KB);
        let Some((at, kb)) = self.now.zip(kb) else { return };
        let zone = self.zones.entry(at).or_insert_with(|| Zone::empty(at.0, at.1));
        let field = match name {
            "free" => &mut zone.free,
            "min" => &mut zone.min,
            "low" => &mut zone.low,
            "high" => &mut zone.high,
            "present" => &mut zone.present,
            _ => &mut zone.managed,
        };
        *field = Some(kb);
        self.now = self.now.filter(|_| name != "managed");
    }

    /// Reads a row of `free`.
    fn row(&mut self, of: &str, total: &str, free: &str, last: Option<&str>) {
        // Without the command's options the size tells the unit: no machine has less than 16 MiB, and few have a TiB.
        self.unit_kb = self.unit_kb.or(match total.parse() {
            Ok(1..16_384) => Some(1 << 10),
            Ok(1_000_000..) => Some(1_u64),
            _ => None,
        });
        let (Some(total), Some(free)) = (self.kb(total), self.kb(free)) else { return };
        self.fields.insert(format!("{of}Total"), total);
        self.fields.insert(format!("{of}Free"), free);
        if let Some(last) = last.filter(|_| self.has_available) {
            self.available(last);
        }
    }

    fn available(&mut self, word: &str) {
        let kb = self.kb(word);
        self.fields.extend(kb.map(|kb| ("MemAvailable".to_owned(), kb)));
    }

    /// Returns a number of `free` in kB; `None` if its unit is not known.
    fn kb(&self, word: &str) -> Option<u64> {
        let digits = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &word[digits.len()..] {
            "" => self.unit_kb?,
            "B" => return Some(0),
            suffix => unit(suffix)?,
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
        let tenths = part.get(..1)?.parse::<u64>().ok()?;
        let whole = at_most(whole, MOST_KB)?.saturating_mul(unit);
        Some(whole.saturating_add(tenths * unit / 10).min(MOST_KB))
    }

    /// Returns the largest slab caches, and what else was read, and its first line, if it tells how much of the machine's memory
    /// is free, or is the kernel's.
    pub(in crate::log) fn finish(mut self) -> (Vec<SlabCache>, Option<(usize, MemInfo)>) {
        let growth = std::mem::take(&mut self.samples).finish();
        // The last sample may be cut.
        if let Some(before) = self.before.take().filter(|before| before.len() > self.fields.len()) {
            self.fields = before;
        }
        let cache = |(name, kb): (&String, &u64)| SlabCache { name: name.clone(), kb: *kb };
        let mut caches: Vec<SlabCache> = self.caches.iter().map(cache).collect();
        caches.sort_by_key(|cache| std::cmp::Reverse(cache.kb));
        let sum = |is_reclaimable: bool| {
            let of = caches.iter().filter(|cache| cache.is_reclaimable() == is_reclaimable);
            of.map(|cache| cache.kb).reduce(|sum, kb| sum.saturating_add(kb).min(MOST_KB))
        };
        let info = self.info(sum(true), sum(false));
        let info = match growth {
            Some((line, growth)) => {
                let (_, info) = info.unwrap_or_default();
                Some((line, MemInfo { growth: Some(growth), ..info }))
            }
            None => info,
        };
        caches.truncate(LARGEST);
        (caches, info)
    }

    fn info(mut self, freeable: Option<u64>, slab: Option<u64>) -> Option<(usize, MemInfo)> {
        let nodes = self.nodes.finish(&mut self.fields);
        let zones: Vec<Zone> = self.zones.into_values().collect();
        let has_zones = !zones.is_empty();
        let fields = Fields { all: &self.fields, arc_kb: self.arc_kb, freeable, slab };
        Some((self.first?, MemInfo { zones, nodes, ..fields.info(has_zones)? }))
    }
}

/// Returns the rows of `free`, which a page or a mail may have joined, or the line itself.
fn parted(text: &str) -> Vec<&str> {
    let rows = [" Mem:", " -/+ buffers", " Swap:"].into_iter().filter_map(|row| text.find(row));
    let mut starts: Vec<usize> = match text.contains("used") && text.contains("free") {
        true => rows.collect(),
        false => Vec::new(),
    };
    starts.sort_unstable();
    let ends = starts.iter().copied().chain([text.len()]);
    [0].into_iter()
        .chain(starts.iter().copied())
        .zip(ends)
        .map(|(at, end)| &text[at..end])
        .collect()
}

/// Returns the node and the zone that a line names.
fn place(node: &str, kind: &str) -> Option<(u32, ZoneKind)> {
    let node = node.trim_end_matches(',').parse().ok()?;
    Some((node, ZoneKind::from_name(kind.trim_end_matches(','))?))
}

/// Returns the unit of an option of `free`, or of a number that it printed, in kB; what is smaller is not read.
fn unit(of: &str) -> Option<u64> {
    match of.trim_start_matches('-').chars().next() {
        None | Some('k' | 'K') => Some(1),
        Some('m' | 'M') => Some(1 << 10),
        Some('g' | 'G') => Some(1 << 20),
        Some('t' | 'T') => Some(1 << 30),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<MemInfo> {
        let mut pasted = Pasted::default();
        for (number, text) in (1..).zip(text.lines()) {
            pasted.push(&Line { number, text: text.to_owned(), ..Line::default() });
        }
        pasted.finish().1.map(|(_, info)| info)
    }

    #[test]
    fn a_pasted_meminfo_is_a_state() {
        let info = read(
            "MemTotal:        6112100 kB\nMemFree:          638020 kB\nMemAvailable:    3580192 kB\nBuffers: 100 kB\n\
             Cached: 900 kB\nSwapFree: 77 kB\nAnonPages: 1000 kB\nShmem: 200 kB\nSUnreclaim: 341080 kB\n\
             HugePages_Total: 3\nHugepagesize: 2048 kB\n",
        )
        .unwrap();
        assert_eq!((info.ram_pages, info.available_kb), (Some(1_528_025), Some(3_580_192)));
        assert_eq!((info.free_swap_kb, info.file_pages), (Some(77), Some(200)));
        assert_eq!((info.held.anonymous, info.held.hugetlb), (Some(1200), Some(6144)));
        assert_eq!((info.held.slab_unreclaimable, info.held.mlocked), (Some(341_080), None));
        assert_eq!(info.held.uncounted, Some(6_112_100 - 638_020 - 1000 - 1000 - 341_080 - 6144));
        assert_eq!(read("MemTotal: 6112100 kB\n"), None, "how much is free is not printed");
        let late = "\n".repeat(LINES) + "MemTotal: 9 kB\nMemFree: 8 kB\n";
        assert_eq!(read(&late).unwrap().ram_pages, Some(2));
        let late = "\n".repeat(LINES) + "total used free\nMem: 5000000 91 369 5 39 362\n";
        assert_eq!(read(&late), None, "rows of `free` are common in logs");
        let late = "\n".repeat(LINES) + "Node 0, zone Normal\n pages free 100\n min 50\n";
        assert_eq!(read(&late).unwrap().zones[0].min, Some(200));
    }

    #[test]
    fn a_sample_that_is_cut_is_not_mixed_with_the_one_before() {
        let info = read(
            "MemTotal: 900 kB\nMemFree: 100 kB\nMemAvailable: 300 kB\nAnonPages: 8 kB\nSlab: 9 kB\n\
             MemTotal: 900 kB\nMemFree: 50 kB\nMemAvailable: 60 kB\n",
        )
        .unwrap();
        assert_eq!((info.available_kb, info.held.anonymous), (Some(300), Some(8)));
        let growth = info.growth.unwrap();
        assert_eq!(
            (growth.field.as_str(), growth.from_kb, growth.to_kb),
            ("MemAvailable", 300, 60)
        );
    }

    #[test]
    fn rows_of_free_have_a_unit_or_say_nothing() {
        let head = "       total   used   free  shared  buff/cache   available\n";
        for (log, total, available, swap) in [
            (format!("$ free -m\n{head}Mem: 500 91 369 5 39 362\nSwap: 9 0 7"), 500 << 10, Some(362 << 10), 7 << 10),
            (format!("{head}Mem: 31Gi 18Gi 5.5Gi 46Mi 7Gi 12Gi\nSwap: 8Gi 0B 8Gi"), 31 << 20, Some(12 << 20), 8 << 20),
            ("# free\n total used free shared buffers cached\nMem: 8000 7 99 0 5 6\nSwap: 0 0 0".to_owned(), 8000, None, 0),
            ("$ free -g\n total used free shared buffers cached\nMem: 62 62 0 0 0 16\n-/+ buffers/cache: 45 16\nSwap: 4 4 0".to_owned(), 62 << 20, Some(16 << 20), 0),
        ] {
            let info = read(&log).unwrap();
            assert_eq!((info.ram_pages, info.available_kb), (Some(total / 4), available), "{log}");
            assert_eq!(info.free_swap_kb, Some(swap), "{log}");
        }
        assert_eq!(read(&format!("{head}Mem: 50000 91 369 5 39 362\n")), None);
        for (total, pages) in [("500", 500 << 8), ("4000000", 1_000_000)] {
            let info = read(&format!("{head}Mem: {total} 91 369 5 39 362\n")).unwrap();
            assert_eq!(info.ram_pages, Some(pages));
        }
    }

    #[test]
    fn rows_of_free_on_one_line_are_read() {
        let info = read(
            " total used free shared buff/cache available Mem: 7817 6910 225 139 681 412\nSwap: 1023 733 290\n",
        );
        let info = info.unwrap();
        assert_eq!((info.available_kb, info.free_swap_kb), (Some(412 << 10), Some(290 << 10)));
    }

    #[test]
    fn output_in_comments_is_read() {
        let info = read(
            "free -h\n#    total   used   free  shared  buff/cache   available\n\
             # Mem: 62Gi 56Gi 1.1Gi 312Mi 5.2Gi 4.8Gi\n# ARC size (current):    98.1 %   39.7 GiB\n",
        )
        .unwrap();
        assert_eq!((info.ram_pages, info.held.arc), (Some(62 << 18), Some(41_628_467)));
    }

    #[test]
    fn pasted_slab_caches_are_memory_of_the_kernel() {
        for text in [
            "  OBJS ACTIVE  USE OBJ SIZE  SLABS OBJ/SLAB CACHE SIZE NAME\n\
             990 990  99%    0.19K   2111       21      8444K dentry\n\
             36465 3646  10%    0.38K  17364       21   1389144K kmem_cache\n",
            "# name <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables\n\
             dentry 9 9 192 21 1 : tunables 0 0 0 : slabdata 2111 2111 0\n\
             kmem_cache 9 9 384 21 2 : tunables 0 0 0 : slabdata 173643 173643 0\n",
        ] {
            let mut pasted = Pasted::default();
            for (number, text) in (1..).zip(text.lines()) {
                pasted.push(&Line { number, text: text.to_owned(), ..Line::default() });
            }
            let (caches, info) = pasted.finish();
            let (line, MemInfo { held, .. }) = info.unwrap();
            assert_eq!((line, caches.len(), caches[0].name.as_str()), (2, 2, "kmem_cache"));
            assert_eq!(
                (held.slab_reclaimable, held.slab_unreclaimable),
                (Some(8444), Some(1_389_144))
            );
        }
    }

    #[test]
    fn a_pasted_buddyinfo_has_free_lists() {
        let info = read(
            "Node 0, zone      DMA      0      1      0      0      2      1      1      0      1      1      3\n\
             Node 0, zone   Normal   1348    491    359    179     42     13      2      1      0      0      0\n\
             Node 0, zone   Normal\n",
        )
        .unwrap();
        let seen: Vec<_> =
            info.zones.iter().map(|zone| (zone.kind, zone.free, zone.lists.len())).collect();
        assert_eq!(seen, [(ZoneKind::Dma, Some(15_880), 11), (ZoneKind::Normal, Some(26_168), 11)]);
    }

    #[test]
    fn types_of_blocks_are_added_up_once() {
        let info = read(
            "Node    0, zone   Normal, type    Unmovable     10      2      0      0      0      0      0      0      0      0      0\n\
             Node    0, zone   Normal, type      Movable >100000      0      1      0      0      0      0      0      0      0      0\n\
             Node 0, zone   Normal      1      1      1      1      1      1      1      1      1      1      1\n",
        )
        .unwrap();
        let zone = &info.zones[0];
        assert_eq!((zone.free, zone.lists[0].blocks), (Some(400_072), 100_010));
        assert_eq!(
            (zone.lists[0].types.as_deref(), zone.lists[2].types.as_deref()),
            (Some("UM"), Some("M"))
        );
    }

    #[test]
    fn a_pasted_zoneinfo_has_watermarks() {
        let info = read(
            "Node 0, zone   Normal\n  pages free     100\n        min      50\n        low      60\n        high     70\n\
             \x20       present  1000\n        managed  900\n              high:  378\n  high 9\n",
        )
        .unwrap();
        let zone = &info.zones[0];
        assert_eq!((zone.free, zone.min, zone.high), (Some(400), Some(200), Some(280)));
        assert_eq!((zone.present, zone.managed), (Some(4000), Some(3600)));
    }
}
