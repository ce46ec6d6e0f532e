//! `snapshot.txt`: the page allocator's complete state at one moment.

mod extents;
mod parse;

use std::collections::BTreeMap;
use std::path::Path;

use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::mobility::Migratetype;

use self::parse::Parser;
use crate::input::bytes::Input;
use crate::input::error::Error;
use crate::record::decoding::Decoding;
use crate::state::files::Files;
use crate::state::procfs::{BuddyInfo, PageTypeInfo, VmStat};

/// The state of the allocator.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    /// Whether it is the state at one moment, with lists in order. `false`: gathered from `/proc` while the
    /// machine ran; list order, migratetypes and the members of per-CPU lists are unknown.
    pub exact: bool,
    /// The zones, in the order of the file: ascending.
    pub zones: Vec<ZoneSnapshot>,
    /// The free blocks of the buddy lists; within one list in list order, head first.
    pub free: Vec<FreeBlock>,
    /// The blocks of the per-CPU lists; within one list in list order, head first.
    pub pcp: Vec<PcpPage>,
    /// The figures of the per-CPU lists.
    pub pcpinfo: Vec<PcpInfo>,
    /// Every pageblock; empty if the snapshot is not exact.
    pub blocks: Vec<BlockInfo>,
    /// What the remaining pages are used for.
    pub used: Vec<UsedRange>,
    /// `/proc/pagetypeinfo` of that moment.
    pub pagetypeinfo: Option<PageTypeInfo>,
    /// `/proc/buddyinfo` of that moment.
    pub buddyinfo: Option<BuddyInfo>,
    /// `/proc/vmstat` of that moment.
    pub vmstat: Option<VmStat>,
    /// Other files beside the snapshot, as text: `meminfo`, `zoneinfo`, `slabinfo`.
    pub texts: BTreeMap<String, String>,
}

/// Watermarks in pages, as stored: without a boost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Watermarks {
    /// The min watermark: below it only reserves are used.
    pub min: u64,
    /// kswapd is woken below it.
    pub low: u64,
    /// kswapd stops above it.
    pub high: u64,
    /// Promotion to this node is allowed above it (6.x).
    pub promo: u64,
}

/// One zone's figures. Counts are pages. `None`: not in this recording.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ZoneSnapshot {
    /// The node.
    pub node: u16,
    /// The kernel's name: `DMA`, `DMA32`, `Normal`, `HighMem`, `Movable`, `Device`.
    pub name: String,
    /// The first frame.
    pub start_pfn: Pfn,
    /// The size including holes.
    pub spanned: u64,
    /// The size without holes.
    pub present: u64,
    /// The pages given to the allocator.
    pub managed: u64,
    /// The watermarks, as stored.
    pub wmark: Watermarks,
    /// The temporary increase of the watermarks after an external fragmentation event.
    pub boost: u64,
    /// The pages that requests for higher zones must leave here, by the index of the requested zone.
    pub lowmem_reserve: Vec<u64>,
    /// The counter of free pages.
    pub nr_free_pages: u64,
    /// CMA pages.
    pub cma: Option<u64>,
    /// Pages in highatomic blocks.
    pub nr_reserved_highatomic: Option<u64>,
    /// Free pages in highatomic blocks (6.12 and later).
    pub nr_free_highatomic: Option<u64>,
    /// The zone's flag bits.
    pub flags: Option<u64>,
    /// The batch of its per-CPU lists.
    pub batch: Option<u64>,
    /// The limit of its per-CPU lists (up to 6.6).
    pub high: Option<u64>,
    /// The lower bound of the limit of its per-CPU lists (6.7 and later).
    pub high_min: Option<u64>,
    /// The upper bound of the limit of its per-CPU lists (6.7 and later).
    pub high_max: Option<u64>,
    /// Whether the zone has no holes.
    pub contiguous: Option<bool>,
    /// The state of compaction.
    pub compact: Option<CompactState>,
    /// Keys without a field here, as written.
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
    /// The list's type; `None` if it is unknown.
    pub mt: Option<Migratetype>,
    /// The block's first frame.
    pub pfn: Pfn,
}

/// A block on a per-CPU list.
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
    /// The doublings of the drain batch by consecutive frees (up to 6.6).
    pub free_factor: Option<u64>,
    /// The doublings of the refill batch by consecutive allocations (6.7 and later).
    pub alloc_factor: Option<u64>,
    /// Consecutive frees (6.7 and later).
    pub free_count: Option<u64>,
    /// Flag bits (6.7 and later).
    pub flags: Option<u64>,
    /// Periods until the lists for a remote node are drained.
    pub expire: Option<u64>,
    /// Keys without a field here, as written.
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
    /// Whether compaction skips the block.
    pub skip: bool,
}

/// The use of pages outside the allocator.
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
    /// Other kernel memory.
    Kernel,
    /// Free, but on no list: isolated by compaction, or never freed.
    IsolatedFree,
    /// Kernel memory, or on a per-CPU list: `/proc` cannot tell.
    KernelOrPcp,
    /// On an LRU list of an unknown kind.
    OtherLru,
    /// Any other state.
    Other,
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
    /// Returns the frames from the first to the last, holes included.
    #[must_use]
    pub fn span(&self) -> FrameRange {
        FrameRange::new(self.start_pfn.0, self.start_pfn.0 + self.spanned)
    }
}

impl Snapshot {
    /// Reads the text of a snapshot. Memory grows with the pages that it names.
    ///
    /// # Errors
    /// If the stream cannot be read, is not a snapshot, or contradicts itself.
    pub fn read(mut input: Input, decoding: Decoding) -> Result<Self, Error> {
        let mut parser = Parser::new(decoding);
        while let Some(line) = input.next_line()? {
            let (number, offset, complete) = (line.number, line.offset, line.complete);
            if let Err(expected) = parser.line(line.bytes, complete) {
                let found = line.bytes.to_vec();
                return Err(Error::malformed(input.place_of(number, offset), &found, expected));
            }
        }
        parser.finish().ok_or_else(|| {
            let expected = "a snapshot with at least one zone";
            Error::unexpected(input.place(), "the end of the file", expected)
        })
    }

    /// Reads `snapshot.txt` of a side, `start` or `end`, and the files of `/proc` beside it.
    ///
    /// # Errors
    /// If the snapshot or a file that is there cannot be read.
    pub(crate) fn open(files: &Files, side: &str, decoding: Decoding) -> Result<Self, Error> {
        let open = |name: &str| files.open(&format!("{side}/{name}"));
        let input = open("snapshot.txt")?.ok_or_else(|| Self::missing(&files.path().join(side)))?;
        let mut snapshot = Self::read(input, decoding)?;
        if let Some(input) = open("pagetypeinfo")? {
            snapshot.pagetypeinfo = Some(PageTypeInfo::read(input)?);
        }
        if let Some(input) = open("buddyinfo")? {
            snapshot.buddyinfo = Some(BuddyInfo::read(input)?);
        }
        if let Some(input) = open("vmstat")? {
            snapshot.vmstat = Some(VmStat::read(input)?);
        }
        for name in ["meminfo", "zoneinfo", "slabinfo"] {
            if let Some(mut input) = open(name)? {
                let bytes = input.read_to_end(16 << 20)?;
                let text = String::from_utf8_lossy(&bytes).into_owned();
                snapshot.texts.insert(name.to_owned(), text);
            }
        }
        Ok(snapshot)
    }

    /// Returns the error for a folder without a snapshot.
    pub(crate) fn missing(folder: &Path) -> Error {
        Error::Missing {
            path: folder.to_owned(),
            what: "snapshot",
            expected: "snapshot.txt, snapshot.txt.xz or snapshot.txt.zst",
        }
    }

    /// Returns the zone that contains a frame.
    #[must_use]
    pub fn zone_of(&self, pfn: Pfn) -> Option<usize> {
        self.zones.iter().position(|zone| zone.span().contains(pfn))
    }

    /// Returns the frame after the last frame of the last zone.
    #[must_use]
    pub fn end_pfn(&self) -> Pfn {
        self.zones.iter().map(|zone| zone.span().end).max().unwrap_or_default()
    }
}
