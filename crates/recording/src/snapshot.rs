//! `snapshot.txt`: the page allocator's whole state at one moment.

use std::collections::BTreeMap;
use std::path::Path;

use pageblock::frame::{FrameRange, ORDER_LIMIT, Order, Pfn};
use pageblock::mobility::Migratetype;

use crate::PFN_LIMIT;
use crate::error::Error;
use crate::input::Input;
use crate::procfs::{BuddyInfo, PageTypeInfo, VmStat};
use crate::tsv::Decoding;

/// The state of the allocator.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// Whether it is the state of one moment, lists in order. `false`: gathered from `/proc` while
    /// the machine ran; list order, migratetypes and the members of CPU lists are unknown.
    pub exact: bool,
    /// The zones, in the order of the file: ascending.
    pub zones: Vec<ZoneSnapshot>,
    /// The free blocks of the buddy lists; within one list in list order, head first.
    pub free: Vec<FreeBlock>,
    /// The blocks of the CPU lists; within one list in list order, head first.
    pub pcp: Vec<PcpPage>,
    /// The CPU lists' figures.
    pub pcpinfo: Vec<PcpInfo>,
    /// Every pageblock; empty where the snapshot is not exact.
    pub blocks: Vec<BlockInfo>,
    /// What the remaining pages are used for.
    pub used: Vec<UsedRange>,
    /// `/proc/pagetypeinfo` of that moment.
    pub pagetypeinfo: Option<PageTypeInfo>,
    /// `/proc/buddyinfo` of that moment.
    pub buddyinfo: Option<BuddyInfo>,
    /// `/proc/vmstat` of that moment.
    pub vmstat: Option<VmStat>,
    /// Other files beside it, as text: `meminfo`, `zoneinfo`, `slabinfo`.
    pub texts: BTreeMap<String, String>,
}

/// Watermarks in pages, as stored: without a boost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Watermarks {
    /// The minimum: below it only reserves are used.
    pub min: u64,
    /// kswapd is woken below it.
    pub low: u64,
    /// kswapd stops above it.
    pub high: u64,
    /// Promotion to this node is allowed above it (6.x).
    pub promo: u64,
}

/// One zone's figures. Counts are pages. `None`: this recording does not have it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ZoneSnapshot {
    /// The node.
    pub node: u16,
    /// The kernel's name: `DMA`, `DMA32`, `Normal`, `HighMem`, `Movable`, `Device`.
    pub name: String,
    /// The first frame.
    pub start_pfn: Pfn,
    /// The size with holes.
    pub spanned: u64,
    /// The size without holes.
    pub present: u64,
    /// What the allocator was given.
    pub managed: u64,
    /// The watermarks, as stored.
    pub wmark: Watermarks,
    /// What is added to the watermarks for a while after an external fragmentation event.
    pub boost: u64,
    /// What requests for higher zones must leave here, by the index of the requested zone.
    pub lowmem_reserve: Vec<u64>,
    /// The counter of free pages.
    pub nr_free_pages: u64,
    /// Pages of contiguous memory areas.
    pub cma: Option<u64>,
    /// Pages in highatomic blocks.
    pub nr_reserved_highatomic: Option<u64>,
    /// Free pages in highatomic blocks (6.12 and later).
    pub nr_free_highatomic: Option<u64>,
    /// The zone's flag bits.
    pub flags: Option<u64>,
    /// The batch of its CPU lists.
    pub batch: Option<u64>,
    /// The limit of its CPU lists (up to 6.6).
    pub high: Option<u64>,
    /// The lower bound of the limit of its CPU lists (6.7 and later).
    pub high_min: Option<u64>,
    /// The upper bound of the limit of its CPU lists (6.7 and later).
    pub high_max: Option<u64>,
    /// Whether the zone has no hole.
    pub contiguous: Option<bool>,
    /// The state of compaction.
    pub compact: Option<CompactState>,
    /// Keys that have no field here, as written.
    pub other: BTreeMap<String, String>,
}

/// A zone's compaction state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CompactState {
    /// Attempts since the last failure.
    pub considered: u64,
    /// The base-2 logarithm of the attempts to skip.
    pub defer_shift: u64,
    /// The lowest order that failed.
    pub order_failed: u64,
    /// Where the migration scanner restarts after a reset.
    pub init_migrate_pfn: Pfn,
    /// Where the free scanner restarts after a reset.
    pub init_free_pfn: Pfn,
    /// Where the free scanner continues.
    pub cached_free_pfn: Pfn,
    /// Where the migration scanner continues, for asynchronous and for synchronous runs.
    pub cached_migrate_pfn: Vec<Pfn>,
    /// Whether the skip bits are to be cleared.
    pub blockskip_flush: bool,
}

/// A block on a buddy list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeBlock {
    /// The index in [`Snapshot::zones`].
    pub zone: u16,
    /// The block's order.
    pub order: Order,
    /// The list's type; `None` where it is unknown.
    pub mt: Option<Migratetype>,
    /// The block's first frame.
    pub pfn: Pfn,
}

/// A block on a CPU list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PcpPage {
    /// The CPU.
    pub cpu: u16,
    /// The index in [`Snapshot::zones`].
    pub zone: u16,
    /// The index of the list among the CPU's lists of that zone.
    pub index: u8,
    /// The block's order.
    pub order: Order,
    /// The list's type.
    pub mt: Option<Migratetype>,
    /// The block's first frame.
    pub pfn: Pfn,
}

/// The figures of the lists of one CPU for one zone. Counts are pages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PcpInfo {
    /// The CPU.
    pub cpu: u16,
    /// The index in [`Snapshot::zones`].
    pub zone: u16,
    /// Pages on the lists.
    pub count: u64,
    /// The limit.
    pub high: u64,
    /// Pages moved under one hold of the zone's lock.
    pub batch: u64,
    /// The lower bound of the limit (6.7 and later).
    pub high_min: Option<u64>,
    /// The upper bound of the limit (6.7 and later).
    pub high_max: Option<u64>,
    /// How far a run of frees has grown the drain batch (up to 6.6).
    pub free_factor: Option<u64>,
    /// How far a run of allocations has grown the refill batch (6.7 and later).
    pub alloc_factor: Option<u64>,
    /// Consecutive frees (6.7 and later).
    pub free_count: Option<u64>,
    /// Flag bits (6.7 and later).
    pub flags: Option<u64>,
    /// Periods until the lists of a remote node are drained.
    pub expire: Option<u64>,
    /// Keys that have no field here, as written.
    pub other: BTreeMap<String, String>,
}

/// One pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockInfo {
    /// The index in [`Snapshot::zones`].
    pub zone: u16,
    /// The block's first frame.
    pub pfn: Pfn,
    /// The block's type.
    pub mt: Option<Migratetype>,
    /// Compaction skips the block.
    pub skip: bool,
}

/// What pages outside the allocator are used for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PageUse {
    /// Page cache.
    File,
    /// Anonymous memory.
    Anon,
    /// Shared memory (tmpfs).
    Shmem,
    /// The slab allocator.
    Slab,
    /// Page tables.
    PageTable,
    /// Never given to the allocator.
    Reserved,
    /// Other memory of the kernel.
    Kernel,
    /// Free, but on no list: taken by compaction, or never given back.
    IsolatedFree,
    /// Memory of the kernel, or on a CPU list: `/proc` cannot tell.
    KernelOrPcp,
    /// On a reclaim list, of an unknown kind.
    OtherLru,
    /// A state that has no name here.
    Other,
}

impl PageUse {
    fn parse(text: &str) -> Self {
        match text {
            "file" => Self::File,
            "anon" => Self::Anon,
            "shmem" => Self::Shmem,
            "slab" => Self::Slab,
            "pgtable" => Self::PageTable,
            "reserved" => Self::Reserved,
            "kernel" => Self::Kernel,
            "isolated-free" => Self::IsolatedFree,
            "kernel-or-pcp" => Self::KernelOrPcp,
            "other-lru" => Self::OtherLru,
            _ => Self::Other,
        }
    }
}

/// Consecutive pages with the same use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UsedRange {
    /// Their use.
    pub state: PageUse,
    /// The first frame.
    pub pfn: Pfn,
    /// The number of pages.
    pub count: u64,
}

impl ZoneSnapshot {
    /// The frames from the first to the last, holes included.
    #[must_use]
    pub fn span(&self) -> FrameRange {
        FrameRange::new(self.start_pfn.0, self.start_pfn.0 + self.spanned)
    }
}

impl Snapshot {
    /// Reads the text of a snapshot.
    ///
    /// # Errors
    /// Where the stream cannot be read or is not a snapshot.
    pub fn read(mut input: Input, decoding: Decoding) -> Result<Self, Error> {
        let mut snapshot = Self { exact: true, ..Self::default() };
        let mut zone_ids = BTreeMap::new();
        let mut first = true;
        while let Some(line) = input.next_line()? {
            let (number, offset, complete) = (line.number, line.offset, line.complete);
            let text = std::str::from_utf8(line.bytes).map_err(|_| "text in UTF-8".to_owned());
            let result = text.and_then(|text| {
                if first && !text.starts_with("# page-allocator snapshot v1") {
                    return Err("the first line `# page-allocator snapshot v1...`".to_owned());
                }
                if first && text.starts_with("# page-allocator snapshot v1 (host)") {
                    snapshot.exact = false;
                }
                first = false;
                if !complete {
                    return Err("a line end: the file is cut short".to_owned());
                }
                snapshot.line(text, &mut zone_ids, decoding)
            });
            if let Err(expected) = result {
                let found = line.bytes.to_vec();
                return Err(Error::malformed(input.place_of(number, offset), &found, expected));
            }
        }
        if snapshot.zones.is_empty() {
            return Err(Error::unexpected(
                input.place(),
                "the end of the file",
                "a snapshot with at least one zone",
            ));
        }
        Ok(snapshot)
    }

    /// Reads `snapshot.txt`, plain or compressed, and the files of `/proc` beside it.
    ///
    /// # Errors
    /// Where the snapshot or a file that is there cannot be read.
    pub fn open(folder: &Path, decoding: Decoding) -> Result<Self, Error> {
        let path = crate::find(folder, "snapshot.txt").ok_or_else(|| Error::Missing {
            path: folder.to_owned(),
            what: "snapshot",
            expected: "snapshot.txt, snapshot.txt.xz or snapshot.txt.zst",
        })?;
        let mut snapshot = Self::read(Input::open(&path)?, decoding)?;
        if let Some(path) = crate::find(folder, "pagetypeinfo") {
            snapshot.pagetypeinfo = Some(PageTypeInfo::read(Input::open(&path)?)?);
        }
        if let Some(path) = crate::find(folder, "buddyinfo") {
            snapshot.buddyinfo = Some(BuddyInfo::read(Input::open(&path)?)?);
        }
        if let Some(path) = crate::find(folder, "vmstat") {
            snapshot.vmstat = Some(VmStat::read(Input::open(&path)?)?);
        }
        for name in ["meminfo", "zoneinfo", "slabinfo"] {
            if let Some(path) = crate::find(folder, name) {
                let bytes = Input::open(&path)?.read_to_end(16 << 20)?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                snapshot.texts.insert(name.to_owned(), text);
            }
        }
        Ok(snapshot)
    }

    /// The zone that a frame lies in.
    #[must_use]
    pub fn zone_of(&self, pfn: Pfn) -> Option<usize> {
        self.zones.iter().position(|zone| zone.span().contains(pfn))
    }

    /// The frame after the last of the last zone.
    #[must_use]
    pub fn end_pfn(&self) -> Pfn {
        self.zones.iter().map(|zone| zone.span().end).max().unwrap_or_default()
    }

    fn line(
        &mut self,
        text: &str,
        zones: &mut BTreeMap<(u16, String), u16>,
        decoding: Decoding,
    ) -> Result<(), String> {
        let mut words = text.split_ascii_whitespace();
        let Some(keyword) = words.next() else { return Ok(()) };
        match keyword {
            "zone" => {
                let zone = zone(&mut pairs(words)?, self.exact)?;
                let id = u16::try_from(self.zones.len()).map_err(|_| "at most 65536 zones")?;
                if zones.insert((zone.node, zone.name.clone()), id).is_some() {
                    return Err(format!("one line for zone {} {}", zone.node, zone.name));
                }
                self.zones.push(zone);
            }
            "pcpinfo" => {
                let mut pairs = pairs(words)?;
                let zone = zone_id(zones, &pairs.text("node")?, &pairs.text("zone")?)?;
                self.pcpinfo.push(pcpinfo(&mut pairs, zone)?);
            }
            "free" => {
                let [node, zone, order, mt, pfn] = fields(words, "free NODE ZONE ORDER MT PFN")?;
                let zone = zone_id(zones, node, zone)?;
                let (order, mt) = (parse_order(order)?, parse_mt(mt, decoding)?);
                self.free.push(FreeBlock { zone, order, mt, pfn: parse_pfn(pfn)? });
            }
            "pcp" => {
                let [cpu, node, zone, index, order, mt, pfn] =
                    fields(words, "pcp CPU NODE ZONE PINDEX ORDER MT PFN")?;
                self.pcp.push(PcpPage {
                    cpu: number(cpu, "a CPU number")?,
                    zone: zone_id(zones, node, zone)?,
                    index: number(index, "the index of a CPU list")?,
                    order: parse_order(order)?,
                    mt: parse_mt(mt, decoding)?,
                    pfn: parse_pfn(pfn)?,
                });
            }
            "block" => {
                let [node, zone, pfn, mt, skip] = fields(words, "block NODE ZONE PFN MT SKIP")?;
                self.blocks.push(BlockInfo {
                    zone: zone_id(zones, node, zone)?,
                    pfn: parse_pfn(pfn)?,
                    mt: parse_mt(mt, decoding)?,
                    skip: number::<u64>(skip, "0 or 1")? != 0,
                });
            }
            "used" => {
                let [state, pfn, count] = fields(words, "used STATE PFN COUNT")?;
                let count = number(count, "a number of pages")?;
                if count > PFN_LIMIT {
                    return Err("a number of pages below 2^52".to_owned());
                }
                let (state, pfn) = (PageUse::parse(state), parse_pfn(pfn)?);
                self.used.push(UsedRange { state, pfn, count });
            }
            _ if keyword.starts_with('#') => {}
            _ => return Err("a line of zone, pcpinfo, free, pcp, block, used or #".to_owned()),
        }
        Ok(())
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
        other: pairs.rest(),
    };
    if zone.spanned > PFN_LIMIT {
        return Err("a zone of at most 2^52 pages".to_owned());
    }
    Ok(zone)
}

fn pcpinfo(pairs: &mut Pairs<'_>, zone: u16) -> Result<PcpInfo, String> {
    Ok(PcpInfo {
        cpu: number(&pairs.text("cpu")?, "a CPU number")?,
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
        other: pairs.rest(),
    })
}

/// The `key=value` words of a line; what is read is taken out.
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
        number(value, "").map(Some).map_err(|_| format!("a number after {key}="))
    }

    fn need(&mut self, key: &str) -> Result<u64, String> {
        self.opt(key)?.ok_or_else(|| format!("the key {key}="))
    }

    fn list(&mut self, key: &str) -> Result<std::vec::IntoIter<u64>, String> {
        Ok(self.0.remove(key).map(numbers).transpose()?.unwrap_or_default().into_iter())
    }

    fn rest(&mut self) -> BTreeMap<String, String> {
        let rest = std::mem::take(&mut self.0);
        rest.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
    }
}

fn zone_id(zones: &BTreeMap<(u16, String), u16>, node: &str, zone: &str) -> Result<u16, String> {
    let node = number(node, "a node number")?;
    let id = zones.get(&(node, zone.to_owned()));
    id.copied().ok_or_else(|| format!("a zone that a line above describes, not {zone}"))
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
    text.parse().map_err(|_| format!("{expected}, not {text}"))
}

fn numbers(list: &str) -> Result<Vec<u64>, String> {
    list.split('/').map(|value| number(value, "numbers joined by /")).collect()
}

fn parse_pfn(text: &str) -> Result<Pfn, String> {
    match text.parse() {
        Ok(pfn) if pfn < PFN_LIMIT => Ok(Pfn(pfn)),
        _ => Err(format!("a page-frame number below 2^52, not {text}")),
    }
}

fn parse_order(text: &str) -> Result<Order, String> {
    match text.parse() {
        Ok(order) if order <= ORDER_LIMIT => Ok(order),
        _ => Err(format!("an order from 0 to 15, not {text}")),
    }
}

fn parse_mt(text: &str, decoding: Decoding) -> Result<Option<Migratetype>, String> {
    if text == "-1" {
        return Ok(None);
    }
    let mt = text.parse().ok().and_then(|number| decoding.migratetype(number));
    mt.map(Some).ok_or_else(|| format!("a migratetype number of this kernel or -1, not {text}"))
}
