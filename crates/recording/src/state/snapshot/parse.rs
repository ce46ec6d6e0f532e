//! Parses the lines of a snapshot. Each line must agree with the lines above it: frames lie in their zone, and
//! no frame is named twice.

use std::collections::{BTreeMap, BTreeSet};

use pageblock::frame::{FrameRange, ORDER_LIMIT, Order, Pfn, pages};
use pageblock::mobility::Migratetype;

use super::extents::Extents;
use super::{
    BlockInfo, CompactState, FreeBlock, PageUse, PcpInfo, PcpPage, Snapshot, UsedRange, Watermarks,
    ZoneSnapshot,
};
use crate::record::decoding::Decoding;
use crate::record::event::PFN_LIMIT;
use crate::state::procfs::COUNT_LIMIT;

const ZONE_NAMES: [&str; 6] = ["DMA", "DMA32", "Normal", "HighMem", "Movable", "Device"];
/// The largest `MAX_NUMNODES` that a kernel can be built with.
const NODES: u16 = 1 << 10;
/// The largest `NR_CPUS` that a kernel can be built with.
const CPUS: u16 = 8192;
/// The maximum number of frames in one zone that an allocator can index.
const SPAN_LIMIT: u64 = (1 << 32) - 2;
/// The largest `CONFIG_PCP_BATCH_SCALE_MAX` that a kernel can be built with.
const ALLOC_FACTOR: u64 = 6;
/// The maximum length of a list of numbers.
const LIST_LIMIT: usize = 16;
/// The maximum size of a line's unknown keys and their values, far above real ones.
const OTHER_BYTES: usize = 4096;

/// Parses line after line.
pub(super) struct Parser {
    snapshot: Snapshot,
    decoding: Decoding,
    started: bool,
    zones: BTreeMap<(u16, String), u16>,
    /// The CPUs and zones whose lists have a line.
    lists: BTreeSet<(u16, u16)>,
    /// The zones and pageblocks that have a line.
    blocks: BTreeSet<(u16, Pfn)>,
    /// The frames that a line names.
    named: Extents,
}

impl Parser {
    pub(super) fn new(decoding: Decoding) -> Self {
        Self {
            snapshot: Snapshot { exact: true, ..Snapshot::default() },
            decoding,
            started: false,
            zones: BTreeMap::new(),
            lists: BTreeSet::new(),
            blocks: BTreeSet::new(),
            named: Extents::default(),
        }
    }

    /// Returns the snapshot, unless it has no zone.
    pub(super) fn finish(self) -> Option<Snapshot> {
        Some(self.snapshot).filter(|snapshot| !snapshot.zones.is_empty())
    }

    /// Parses one line without its line end; `complete` says whether it had one. The error says what is
    /// allowed.
    pub(super) fn line(&mut self, line: &[u8], complete: bool) -> Result<(), String> {
        let text = std::str::from_utf8(line).map_err(|_| "text in UTF-8")?;
        if !self.started {
            if !text.starts_with("# page-allocator snapshot v1") {
                return Err("the first line `# page-allocator snapshot v1...`".to_owned());
            }
            self.snapshot.exact = !text.starts_with("# page-allocator snapshot v1 (host)");
            self.started = true;
        }
        if !complete {
            return Err("a line end: the file is truncated".to_owned());
        }
        let mut words = text.split_ascii_whitespace();
        match words.next() {
            None => Ok(()),
            Some("zone") => self.zone(words),
            Some("pcpinfo") => self.pcpinfo(words),
            Some("free") => self.free(words),
            Some("pcp") => self.pcp(words),
            Some("block") => self.block(words),
            Some("used") => self.used(words),
            Some(keyword) if keyword.starts_with('#') => Ok(()),
            Some(_) => Err("a line of zone, pcpinfo, free, pcp, block, used or #".to_owned()),
        }
    }

    fn zone<'a>(&mut self, words: impl Iterator<Item = &'a str>) -> Result<(), String> {
        let zone = zone(&mut pairs(words)?, self.snapshot.exact)?;
        let span = zone.span();
        let shares = |z: &&ZoneSnapshot| z.span().start < span.end && span.start < z.span().end;
        if let Some(other) = self.snapshot.zones.iter().find(shares) {
            return Err(format!("frames outside {}", described(other)));
        }
        let id = u16::try_from(self.snapshot.zones.len()).map_err(|_| "at most 65536 zones")?;
        if self.zones.insert((zone.node, zone.name.clone()), id).is_some() {
            return Err(format!("one line for zone {} {}", zone.node, zone.name));
        }
        self.snapshot.zones.push(zone);
        Ok(())
    }

    fn pcpinfo<'a>(&mut self, words: impl Iterator<Item = &'a str>) -> Result<(), String> {
        let mut pairs = pairs(words)?;
        let zone = zone_id(&self.zones, &pairs.text("node")?, &pairs.text("zone")?)?;
        let info = pcpinfo(&mut pairs, zone)?;
        check_limits(&info, &self.snapshot.zones[usize::from(zone)])?;
        if !self.lists.insert((info.cpu, zone)) {
            return Err("one line for the lists of a CPU and zone".to_owned());
        }
        self.snapshot.pcpinfo.push(info);
        Ok(())
    }

    fn free<'a>(&mut self, words: impl Iterator<Item = &'a str>) -> Result<(), String> {
        let [node, zone, order, mt, pfn] = fields(words, "free NODE ZONE ORDER MT PFN")?;
        let zone = zone_id(&self.zones, node, zone)?;
        let (order, pfn) = (parse_order(order)?, parse_pfn(pfn)?);
        let mt = parse_mt(mt, self.decoding)?;
        self.name_block(zone, pfn, order)?;
        self.snapshot.free.push(FreeBlock { zone, order, mt, pfn });
        Ok(())
    }

    fn pcp<'a>(&mut self, words: impl Iterator<Item = &'a str>) -> Result<(), String> {
        let [cpu, node, zone, index, order, mt, pfn] =
            fields(words, "pcp CPU NODE ZONE PINDEX ORDER MT PFN")?;
        let page = PcpPage {
            cpu: number(cpu, "a CPU number")?,
            zone: zone_id(&self.zones, node, zone)?,
            index: number(index, "the index of a CPU list")?,
            order: parse_order(order)?,
            mt: parse_mt(mt, self.decoding)?,
            pfn: parse_pfn(pfn)?,
        };
        self.name_block(page.zone, page.pfn, page.order)?;
        self.snapshot.pcp.push(page);
        Ok(())
    }

    fn block<'a>(&mut self, words: impl Iterator<Item = &'a str>) -> Result<(), String> {
        let [node, zone, pfn, mt, skip] = fields(words, "block NODE ZONE PFN MT SKIP")?;
        let zone = zone_id(&self.zones, node, zone)?;
        let (pfn, mt) = (parse_pfn(pfn)?, parse_mt(mt, self.decoding)?);
        let skip = number::<u64>(skip, "0 or 1")? != 0;
        let of_zone = &self.snapshot.zones[usize::from(zone)];
        // A zone's first frame need not be the first of its pageblock.
        let span = of_zone.span();
        if !(span.start.align_down(ORDER_LIMIT)..span.end).contains(&pfn) {
            return Err(format!("a pageblock of {}", described(of_zone)));
        }
        if !self.blocks.insert((zone, pfn)) {
            return Err("one line for a pageblock".to_owned());
        }
        self.snapshot.blocks.push(BlockInfo { zone, pfn, mt, skip });
        Ok(())
    }

    fn used<'a>(&mut self, words: impl Iterator<Item = &'a str>) -> Result<(), String> {
        let [state, pfn, count] = fields(words, "used STATE PFN COUNT")?;
        let (state, pfn) = (page_use(state), parse_pfn(pfn)?);
        let count: u64 = number(count, "a number of pages")?;
        let end = pfn.0.checked_add(count).ok_or("frames below 2^40")?;
        // The range may extend from one zone into the next.
        let mut next = pfn;
        while next.0 < end {
            let zone = self.snapshot.zones.iter().find(|zone| zone.span().contains(next));
            let zone = zone.ok_or_else(|| {
                format!("frames of zones that lines above describe; frame {next} is in none")
            })?;
            next = zone.span().end;
        }
        self.name_frames(FrameRange::new(pfn.0, end))?;
        self.snapshot.used.push(UsedRange { state, pfn, count });
        Ok(())
    }

    /// Marks the frames of a block as named; they must lie in its zone.
    fn name_block(&mut self, zone: u16, pfn: Pfn, order: Order) -> Result<(), String> {
        let zone = &self.snapshot.zones[usize::from(zone)];
        let (span, end) = (zone.span(), Pfn(pfn.0 + pages(order)));
        if pfn < span.start || span.end < end {
            return Err(format!("a block inside {}", described(zone)));
        }
        if !pfn.is_aligned(order) {
            return Err(format!("a block of order {order} that starts at a multiple of its size"));
        }
        self.name_frames(FrameRange { start: pfn, end })
    }

    fn name_frames(&mut self, range: FrameRange) -> Result<(), String> {
        let again = |pfn| format!("frames that no line above has; frame {pfn} has one");
        self.named.add(range).map_err(again)
    }
}

/// Describes a zone for messages.
fn described(zone: &ZoneSnapshot) -> String {
    let ZoneSnapshot { node, name, .. } = zone;
    let last = zone.span().end.0.saturating_sub(1);
    format!("zone {name} of node {node}, which has the frames {} to {last}", zone.start_pfn)
}

fn page_use(text: &str) -> PageUse {
    match text {
        "file" => PageUse::File,
        "anon" => PageUse::Anon,
        "shmem" => PageUse::Shmem,
        "slab" => PageUse::Slab,
        "pgtable" => PageUse::PageTable,
        "reserved" => PageUse::Reserved,
        "kernel" => PageUse::Kernel,
        "isolated-free" => PageUse::IsolatedFree,
        "kernel-or-pcp" => PageUse::KernelOrPcp,
        "other-lru" => PageUse::OtherLru,
        _ => PageUse::Other,
    }
}

fn zone(pairs: &mut Pairs<'_>, exact: bool) -> Result<ZoneSnapshot, String> {
    let boost = pairs.opt("watermark_boost")?.or(pairs.opt("boost")?).unwrap_or(0);
    let wmark = if let Some(list) = pairs.0.remove("wmark") {
        let values = numbers(list)?;
        let at = |n: usize| values.get(n).copied().unwrap_or(0);
        Watermarks { min: at(0), low: at(1), high: at(2), promo: at(3) }
    } else {
        // `/proc/zoneinfo` prints the watermarks with the boost added.
        let stored = |v: Option<u64>| v.unwrap_or(0).saturating_sub(if exact { 0 } else { boost });
        Watermarks {
            min: stored(pairs.opt("min")?),
            low: stored(pairs.opt("low")?),
            high: stored(pairs.opt("high")?),
            promo: stored(pairs.opt("promo")?),
        }
    };
    let compact = match pairs.opt("compact_considered")? {
        None => None,
        Some(considered) => Some(CompactState {
            considered,
            defer_shift: pairs.opt("compact_defer_shift")?.unwrap_or(0),
            order_failed: pairs.opt("compact_order_failed")?.unwrap_or(0),
            init_migrate_pfn: Pfn(pairs.opt("compact_init_migrate_pfn")?.unwrap_or(0)),
            init_free_pfn: Pfn(pairs.opt("compact_init_free_pfn")?.unwrap_or(0)),
            cached_free_pfn: Pfn(pairs.opt("compact_cached_free_pfn")?.unwrap_or(0)),
            cached_migrate_pfn: pairs.list("compact_cached_migrate_pfn")?.map(Pfn).collect(),
            blockskip_flush: pairs.opt("compact_blockskip_flush")?.unwrap_or(0) != 0,
        }),
    };
    let zone = ZoneSnapshot {
        node: number(&pairs.text("node")?, "a node number")?,
        name: pairs.text("zone")?,
        start_pfn: parse_pfn(&pairs.text("start_pfn")?)?,
        spanned: pairs.need("spanned")?,
        present: pairs.need("present")?,
        managed: pairs.need("managed")?,
        wmark,
        boost,
        lowmem_reserve: pairs.list("lowmem_reserve")?.collect(),
        nr_free_pages: pairs.need("nr_free_pages")?,
        cma: pairs.opt("cma")?,
        nr_reserved_highatomic: pairs.opt("nr_reserved_highatomic")?,
        nr_free_highatomic: pairs.opt("nr_free_highatomic")?,
        flags: pairs.opt("flags")?,
        batch: pairs.opt("pageset_batch")?,
        high: pairs.opt("pageset_high")?,
        high_min: pairs.opt("pageset_high_min")?,
        high_max: pairs.opt("pageset_high_max")?,
        contiguous: pairs.opt("contiguous")?.map(|v| v != 0),
        compact,
        other: pairs.rest()?,
    };
    check_zone(&zone)?;
    Ok(zone)
}

/// Checks what holds for every kernel's zones.
fn check_zone(zone: &ZoneSnapshot) -> Result<(), String> {
    let ZoneSnapshot { node, name, start_pfn, spanned, present, managed, .. } = zone;
    if !ZONE_NAMES.contains(&name.as_str()) {
        return Err(format!("a zone named {}", ZONE_NAMES.join(", ")));
    }
    if *node >= NODES {
        return Err(format!("a node number below {NODES}"));
    }
    if *spanned > SPAN_LIMIT {
        return Err(format!("spanned= of at most {SPAN_LIMIT} pages (16 TiB), not {spanned}"));
    }
    if start_pfn.0 + spanned > PFN_LIMIT {
        let end = "as physical addresses have at most 52 bits";
        return Err(format!("start_pfn= and spanned= that end below frame 2^40, {end}"));
    }
    for (key, pages) in [("present", present), ("managed", managed)] {
        if pages > spanned {
            return Err(format!("{key}= of at most the {spanned} pages of spanned=, not {pages}"));
        }
    }
    Ok(())
}

/// Checks the figures of a per-CPU list against its zone. The lower bound is derived from the low watermark,
/// the upper bound from an eighth of the zone: they cross only if the first is larger
/// (`zone_set_pageset_high_and_batch`).
fn check_limits(info: &PcpInfo, zone: &ZoneSnapshot) -> Result<(), String> {
    if info.alloc_factor.is_some_and(|factor| factor > ALLOC_FACTOR) {
        return Err(format!("alloc_factor= of at most {ALLOC_FACTOR}"));
    }
    let (Some(min), Some(max)) = (info.high_min, info.high_max) else { return Ok(()) };
    let low = zone.wmark.low + zone.boost;
    // Doubled, as the number of CPUs that share the pages may have changed in between.
    if min > max && 2 * low <= zone.managed / 8 {
        return Err(format!("high_min={min} of at most high_max={max}"));
    }
    Ok(())
}

fn pcpinfo(pairs: &mut Pairs<'_>, zone: u16) -> Result<PcpInfo, String> {
    let cpu = number(&pairs.text("cpu")?, "a CPU number")?;
    if cpu >= CPUS {
        return Err(format!("a CPU number below {CPUS}"));
    }
    Ok(PcpInfo {
        cpu,
        zone,
        count: pairs.need("count")?,
        high: pairs.need("high")?,
        batch: pairs.need("batch")?,
        high_min: pairs.opt("high_min")?,
        high_max: pairs.opt("high_max")?,
        free_factor: pairs.opt("free_factor")?,
        alloc_factor: pairs.opt("alloc_factor")?,
        free_count: pairs.opt("free_count")?,
        flags: pairs.opt("flags")?,
        expire: pairs.opt("expire")?,
        other: pairs.rest()?,
    })
}

/// The `key=value` words of a line; reading a key removes it.
struct Pairs<'a>(BTreeMap<&'a str, &'a str>);

fn pairs<'a>(words: impl Iterator<Item = &'a str>) -> Result<Pairs<'a>, String> {
    let pairs = words.map(|word| word.split_once('=').ok_or("words of the form key=value"));
    Ok(Pairs(pairs.collect::<Result<_, _>>()?))
}

impl Pairs<'_> {
    fn text(&mut self, key: &str) -> Result<String, String> {
        self.0.remove(key).map(str::to_owned).ok_or_else(|| format!("the key {key}="))
    }

    fn opt(&mut self, key: &str) -> Result<Option<u64>, String> {
        let Some(value) = self.0.remove(key) else { return Ok(None) };
        let number = value.parse().ok().filter(|&number| number < COUNT_LIMIT);
        number.map(Some).ok_or_else(|| format!("a number below 2^52 after {key}="))
    }

    fn need(&mut self, key: &str) -> Result<u64, String> {
        self.opt(key)?.ok_or_else(|| format!("the key {key}="))
    }

    fn list(&mut self, key: &str) -> Result<std::vec::IntoIter<u64>, String> {
        Ok(self.0.remove(key).map(numbers).transpose()?.unwrap_or_default().into_iter())
    }

    fn rest(&mut self) -> Result<BTreeMap<String, String>, String> {
        let rest = std::mem::take(&mut self.0);
        if rest.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() > OTHER_BYTES {
            return Err(format!("at most {OTHER_BYTES} bytes of keys that are not known"));
        }
        Ok(rest.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
    }
}

fn zone_id(zones: &BTreeMap<(u16, String), u16>, node: &str, zone: &str) -> Result<u16, String> {
    let node = number(node, "a node number")?;
    let id = zones.get(&(node, zone.to_owned()));
    id.copied().ok_or_else(|| format!("a zone that a line above describes, not {}", shown(zone)))
}

fn fields<'a, const N: usize>(
    mut words: impl Iterator<Item = &'a str>,
    form: &str,
) -> Result<[&'a str; N], String> {
    let mut out = [""; N];
    for field in &mut out {
        *field = words.next().ok_or(form)?;
    }
    if words.next().is_some() { Err(form.to_owned()) } else { Ok(out) }
}

fn number<T: std::str::FromStr>(text: &str, expected: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{expected}, not {}", shown(text)))
}

fn numbers(list: &str) -> Result<Vec<u64>, String> {
    let small = |&number: &u64| number < COUNT_LIMIT;
    let numbers = list.split('/').map(|value| value.parse().ok().filter(small));
    let numbers = numbers.collect::<Option<Vec<_>>>().filter(|numbers| numbers.len() <= LIST_LIMIT);
    numbers.ok_or_else(|| format!("at most {LIST_LIMIT} numbers below 2^52 joined by /"))
}

/// Formats a text for messages.
fn shown(text: &str) -> String {
    text.chars().take(40).flat_map(char::escape_debug).collect()
}

fn parse_pfn(text: &str) -> Result<Pfn, String> {
    match text.parse() {
        Ok(pfn) if pfn < PFN_LIMIT => Ok(Pfn(pfn)),
        _ => Err(format!("a page-frame number below 2^40, not {}", shown(text))),
    }
}

fn parse_order(text: &str) -> Result<Order, String> {
    match text.parse() {
        Ok(order) if order <= ORDER_LIMIT => Ok(order),
        _ => Err(format!("an order from 0 to 15, not {}", shown(text))),
    }
}

fn parse_mt(text: &str, decoding: Decoding) -> Result<Option<Migratetype>, String> {
    if text == "-1" {
        return Ok(None);
    }
    let mt = text.parse().ok().and_then(|number| decoding.migratetype(number));
    let expected = "a migratetype number of this kernel or -1";
    mt.map(Some).ok_or_else(|| format!("{expected}, not {}", shown(text)))
}
