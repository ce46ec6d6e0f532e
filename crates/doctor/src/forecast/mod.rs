//! The number of large blocks that compaction could make, and what blocks the others.

mod bounds;
mod frames;
mod held;
mod kind;
mod obtain;
mod pool;
mod source;
mod tally;

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

pub use self::bounds::Range;
pub use self::frames::{Frames as FrameTable, Run, Sink, Watch};
pub use self::held::{Bin, Held, Holder};
pub use self::kind::{KINDS, Kind, Movable, Reclaimable, Rules};
pub use self::obtain::{Bound, Obtain};
pub use self::pool::{End, Pool, Tried};
pub use self::source::Source;
pub use self::tally::{Block, Sizes, Tally, Units};

use self::bounds::Pins;
use crate::error::Error;
use crate::proc::tree::{Missing, Tree};
use crate::proc::zoneinfo::Zone;

/// The forecast for a machine.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    /// The file with the use of frames.
    pub file: PathBuf,
    /// The kernel's version.
    pub version: Option<String>,
    /// The size of a page in kB.
    pub page_kb: u64,
    /// The order of a pageblock.
    pub pageblock_order: u8,
    /// The order of 1 GiB.
    pub gigantic_order: u8,
    /// The pageblocks and blocks of 1 GiB that requests can get from all zones, by the means that free them.
    pub obtain: Vec<Obtain>,
    /// All zones together, by order.
    pub orders: Vec<Range>,
    /// The zones.
    pub zones: Vec<ZoneForecast>,
    /// Frames by kind, most first.
    pub frames: Vec<Frames>,
    /// The pages for which swap has room; null if it is not known.
    pub swap_free: Option<u64>,
    /// Free pages on per-CPU lists, which look like kernel memory.
    pub on_cpu_lists: u64,
    /// Pages that are pinned now (`nr_foll_pin_acquired` less `nr_foll_pin_released`); null where the kernel does not count them.
    pub pinned: Option<u64>,
    /// Pageblocks by the number of pages that block them.
    pub held: Held,
    /// Blocks of 1 GiB by the number of pages that block them.
    pub held_gigantic: Held,
    /// The slab caches with the most pages.
    pub slabs: Vec<Slab>,
    /// The parts that could not be read.
    pub missing: Vec<Missing>,
    /// A letter for each pageblock.
    pub map: Vec<MapRow>,
}

/// The forecast for a zone.
#[derive(Clone, Debug, Serialize)]
pub struct ZoneForecast {
    /// The node.
    pub node: u16,
    /// The zone.
    pub zone: String,
    /// By order.
    pub orders: Vec<Range>,
}

/// Frames of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Frames {
    /// The kind.
    pub kind: Kind,
    /// The pages.
    pub pages: u64,
}

/// A slab cache.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Slab {
    /// Its name.
    pub name: String,
    /// Its pages.
    pub pages: u64,
}

/// The pageblocks of a gigabyte, or a part of one, in a zone.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct MapRow {
    /// The node.
    pub node: u16,
    /// The zone.
    pub zone: String,
    /// The address of the row in GiB.
    pub gib: u64,
    /// A letter for each pageblock: `.` free, `m` all of it moves, `?` it may move or is free on a per-CPU list, `1` held by
    /// 1 to 3 pages, `x` by more, `K` mostly by kernel memory, `H` a huge page, `r` reserved, blank no memory.
    pub cells: String,
}

/// The largest number of blocking pages that the map calls "few".
pub const FEW: u16 = 3;
/// The number of slab caches that are named.
const SLABS: usize = 8;

/// Returns the forecast for the machine below a root. `begin` gets the number of frames to read, `watch` the number read so far and
/// returns whether to stop.
///
/// # Errors
/// If the use of frames or the zones cannot be read, or the caller asked to stop.
pub fn forecast(root: &Path, begin: &dyn Fn(u64), watch: Watch<'_>) -> Result<Forecast, Error> {
    let mut source = Source::open(root)?;
    begin(source.frames());
    let tallies = source.tallies(watch)?;
    let pinned = pinned(&source.tree);
    let pins = Pins(pinned.unwrap_or(0));
    let zones: Vec<ZoneForecast> = source
        .zones
        .iter()
        .zip(&tallies)
        .map(|(zone, tally)| ZoneForecast {
            node: zone.node,
            zone: zone.name.clone(),
            orders: bounds::ranges(tally, zone, source.room(zone), pins),
        })
        .collect();
    let obtain = obtain(&source, &tallies, &zones, pins);
    let (mut held, mut held_gigantic) = (Held::default(), Held::default());
    let mut frames = Kind::ALL.map(|kind| Frames { kind, pages: 0 });
    for tally in &tallies {
        held.merge(&tally.held);
        held_gigantic.merge(&tally.held_gigantic);
        for (sum, &pages) in frames.iter_mut().zip(&tally.frames) {
            sum.pages += pages;
        }
    }
    held.sort();
    held_gigantic.sort();
    let mut frames = frames.to_vec();
    frames.retain(|frames| frames.pages > 0 && frames.kind != Kind::Hole);
    frames.sort_by_key(|frames| (std::cmp::Reverse(frames.pages), frames.kind));
    let map =
        source.zones.iter().zip(&tallies).flat_map(|(zone, tally)| map(zone, tally)).collect();
    let slabs = slabs(&source.tree, &mut source.missing);
    Ok(Forecast {
        file: file_of(root, &source),
        version: source.version.as_ref().map(ToString::to_string),
        page_kb: source.page_kb,
        pageblock_order: source.sizes.pageblock,
        gigantic_order: source.sizes.gigantic,
        obtain,
        orders: sum(&zones),
        zones,
        frames,
        swap_free: source.swap_free,
        on_cpu_lists: source.zones.iter().map(Zone::on_cpu_lists).sum(),
        pinned,
        held,
        held_gigantic,
        slabs,
        missing: source.missing,
        map,
    })
}

/// Returns the numbers of blocks of both sizes of huge pages that requests can get in all zones.
fn obtain(source: &Source, tallies: &[Tally], zones: &[ZoneForecast], pins: Pins) -> Vec<Obtain> {
    // If swap is not known, the upper bound assumes that it has room for all.
    let swap = source.swap_free.unwrap_or(u64::MAX);
    let sizes = [source.sizes.pageblock, source.sizes.gigantic];
    let made = sizes.map(|order| {
        let mut sum = Obtain { order, ..Obtain::default() };
        for ((zone, tally), ranges) in source.zones.iter().zip(tallies).zip(zones) {
            let range = ranges.orders.iter().find(|range| range.order == order);
            if let Some(made) = range.and_then(|range| Obtain::of(tally, zone, range, swap, pins)) {
                sum.add(&made);
            }
        }
        sum
    });
    made.to_vec()
}

/// Returns the file with the use of frames; of a `.pbrec`, the file itself.
fn file_of(root: &Path, source: &Source) -> PathBuf {
    if root.is_file() { root.to_owned() } else { source.file() }
}

fn sum(zones: &[ZoneForecast]) -> Vec<Range> {
    let mut orders = zones.first().map_or(Vec::new(), |zone| zone.orders.clone());
    for zone in zones.iter().skip(1) {
        for (sum, range) in orders.iter_mut().zip(&zone.orders) {
            sum.add(range);
        }
    }
    orders
}

/// Returns the number of pages pinned for devices; `None` if the kernel does not count them.
fn pinned(tree: &Tree) -> Option<u64> {
    let text = tree.read("/proc/vmstat").ok()?;
    let counter = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some(counter("nr_foll_pin_acquired ")?.saturating_sub(counter("nr_foll_pin_released ")?))
}

/// Returns the slab caches with the most pages.
fn slabs(tree: &Tree, missing: &mut Vec<Missing>) -> Vec<Slab> {
    let text = match tree.read("/proc/slabinfo") {
        Ok(text) => text,
        Err(why) => {
            missing.push(why);
            return Vec::new();
        }
    };
    // name active objects size objects_of_a_slab pages_of_a_slab : tunables ... : slabdata active slabs shared
    let slab = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let data = words.iter().position(|&word| word == "slabdata")?;
        let slabs: u64 = words.get(data + 2)?.parse().ok()?;
        let each: u64 = words.get(5)?.parse().ok()?;
        Some(Slab { name: (*words.first()?).to_owned(), pages: slabs.saturating_mul(each) })
    };
    let mut slabs: Vec<Slab> =
        text.lines().filter_map(slab).filter(|slab| slab.pages > 0).collect();
    slabs.sort_by(|a, b| b.pages.cmp(&a.pages).then_with(|| a.name.cmp(&b.name)));
    slabs.truncate(SLABS);
    slabs
}

/// The file that makes the kernel compact every zone when it is written.
const COMPACT_MEMORY: &str = "/proc/sys/vm/compact_memory";

/// Opens the file that compacts the memory of this machine, without compacting yet.
///
/// # Errors
/// If the user may not compact, or the kernel cannot.
pub fn compactor() -> Result<Compactor, Error> {
    let path = Path::new(COMPACT_MEMORY);
    let file = std::fs::OpenOptions::new().write(true).open(path).map_err(Error::io(path))?;
    Ok(Compactor(file))
}

/// The open file that compacts the memory of this machine.
#[derive(Debug)]
pub struct Compactor(std::fs::File);

impl Compactor {
    /// Compacts every zone. Returns when that is done.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn compact(mut self) -> Result<(), Error> {
        self.0.write_all(b"1").map_err(Error::io(Path::new(COMPACT_MEMORY)))
    }
}

/// Returns the rows of a zone's map that have memory.
fn map(zone: &Zone, tally: &Tally) -> Vec<MapRow> {
    let shift = tally.sizes.gigantic - tally.sizes.pageblock;
    let pages = 1_u32 << tally.sizes.pageblock;
    let first = tally.first >> shift;
    let rows = tally.blocks.chunks(1 << shift).zip(first..).map(|(blocks, gib)| MapRow {
        node: zone.node,
        zone: zone.name.clone(),
        gib,
        cells: blocks.iter().map(|block| cell(block, pages)).collect(),
    });
    rows.filter(|row| !row.cells.trim().is_empty()).collect()
}

fn cell(block: &Block, pages: u32) -> char {
    let held = block.held();
    match () {
        () if u32::from(block.free) == pages => '.',
        () if block.most == Kind::Hole && u32::from(block.never) == pages => ' ',
        () if matches!(block.most, Kind::HugeFolio | Kind::Hugetlb) => 'H',
        () if block.most == Kind::Reserved && u32::from(held) * 2 > pages => 'r',
        () if held == 0 && block.maybe == block.large => 'm',
        () if held == 0 => '?',
        () if held <= FEW => '1',
        () if u32::from(held) * 2 > pages => 'K',
        () => 'x',
    }
}
