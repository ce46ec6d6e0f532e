//! What a recorded machine demanded of its allocator, apart from what the allocator decided: the
//! input of a free replay.
//!
//! A block is named by the frame that the recorded kernel gave, which is in one use at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock::request::Gfp;
use pageblock_recording::{
    Batch, Column, ColumnType, Columnar, Record, Recording, TableReader, TableWriter, What,
};

use crate::error::Error;
use crate::fate::{Fate, Fates};

/// One demand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demand {
    /// A request, served in the recording.
    Alloc {
        /// The block in the recording.
        pfn: Pfn,
        /// Its order.
        order: Order,
        /// The request's flags.
        gfp: Gfp,
    },
    /// A request that failed in the recording.
    Failed {
        /// Its order.
        order: Order,
        /// Its flags.
        gfp: Gfp,
    },
    /// A block is given back.
    Free {
        /// The block in the recording.
        pfn: Pfn,
        /// Its order.
        order: Order,
    },
    /// Compaction takes a free block.
    Isolate {
        /// The block in the recording.
        pfn: Pfn,
        /// Its order.
        order: Order,
    },
    /// Order-0 pages are allocated in bulk; which ones the recording does not say.
    Bulk {
        /// How many.
        pages: u32,
    },
    /// CPU lists are drained for a reason other than a free: before an OOM kill, by compaction.
    Drain {
        /// The pages drained in the recording.
        pages: u32,
    },
    /// kswapd of a node begins or ends a run.
    Kswapd {
        /// The node.
        node: u8,
        /// Whether it runs now.
        running: bool,
    },
}

/// A demand with its CPU; for a drain, the CPU whose lists are drained.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timed {
    /// Milliseconds of the recorder's clock.
    pub t_ms: u32,
    /// The CPU.
    pub cpu: u8,
    /// The demand.
    pub demand: Demand,
}

/// Finds the demands in a recording's events, in order.
pub struct DemandFinder<'f> {
    fates: &'f Fates,
    /// Who drains in the background: their drains follow from the policy.
    background: Box<dyn Fn(u32) -> bool + 'f>,
    /// The CPU whose list a frame went to last.
    holder: Vec<u8>,
    /// The task of the last free on each CPU, while nothing but drains came after it.
    freed_by: Vec<Option<u32>>,
    /// A drain under way, by the CPU that works: the owner and the pages.
    draining: Vec<Option<(u8, u32)>>,
    /// Blocks that are freed with a batch still to come.
    batched: Vec<Order>,
}

impl<'f> DemandFinder<'f> {
    /// For a recording's events, with their fates.
    #[must_use]
    pub fn new(recording: &'f Recording, fates: &'f Fates) -> Self {
        let end = recording.start.end_pfn().0 as usize;
        let comms = &recording.comms;
        let background = move |pid: u32| comms.get(&pid).is_some_and(|c| c.starts_with("kworker"));
        let mut holder = vec![0; end];
        for page in &recording.start.pcp {
            holder[page.pfn.0 as usize] = page.cpu as u8;
        }
        Self {
            fates,
            background: Box::new(background),
            holder,
            freed_by: vec![None; 256],
            draining: vec![None; 256],
            batched: vec![0; end],
        }
    }

    /// Takes one event, and gives its demands to `out`.
    pub fn push(&mut self, event: u64, record: &Record, out: &mut Vec<Timed>) {
        let Ok(cpu) = u8::try_from(record.cpu) else { return };
        let t_ms = (record.t_us / 1000) as u32;
        let timed = |demand| Timed { t_ms, cpu, demand };
        let at = usize::from(cpu);
        if !matches!(record.what, What::Drain { .. }) {
            if let Some((owner, pages)) = self.draining[at].take() {
                out.push(Timed { t_ms, cpu: owner, demand: Demand::Drain { pages } });
            }
            self.freed_by[at] = None;
        }
        match &record.what {
            What::Alloc { pfn: Some(pfn), order, gfp, .. } => {
                out.push(timed(Demand::Alloc { pfn: *pfn, order: *order, gfp: *gfp }));
            }
            What::Alloc { pfn: None, order, gfp, .. } => {
                out.push(timed(Demand::Failed { order: *order, gfp: *gfp }));
            }
            What::Free { pfn, order } => {
                let fate = self.fates.get(event);
                self.hold(*pfn, cpu);
                self.freed_by[at] = Some(record.pid);
                if fate == Fate::Batched {
                    if let Some(slot) = self.batched.get_mut(pfn.0 as usize) {
                        *slot = *order + 1;
                    }
                } else if fate != Fate::Kept {
                    out.push(timed(Demand::Free { pfn: *pfn, order: *order }));
                }
            }
            What::FreeBatched { pfn } => {
                self.hold(*pfn, cpu);
                self.freed_by[at] = Some(record.pid);
                let order = self.batched.get_mut(pfn.0 as usize).map_or(0, std::mem::take);
                if let Some(order) = order.checked_sub(1) {
                    out.push(timed(Demand::Free { pfn: *pfn, order }));
                }
            }
            What::ZoneLocked { pfn, .. } => self.hold(*pfn, cpu),
            What::Extfrag(x) => self.hold(x.pfn, cpu),
            What::Drain { pfn, order, .. } => self.drained(at, record.pid, *pfn, *order),
            What::Isolate { pfn, order, ret } if *ret > 0 => {
                out.push(timed(Demand::Isolate { pfn: *pfn, order: *order }));
            }
            // A single page is left to the ordinary allocator, which reports it.
            What::Bulk { pages } if *pages > 1 => out.push(timed(Demand::Bulk { pages: *pages })),
            What::Other(other) => {
                let node = other.number("nid").and_then(|n| u8::try_from(n).ok());
                if let Some(node) = node.filter(|_| &*other.name == "mm_vmscan_kswapd_wake") {
                    out.push(timed(Demand::Kswapd { node, running: true }));
                }
            }
            _ => {}
        }
        if let Some(node) = self.fates.reclaim_end(event) {
            out.push(timed(Demand::Kswapd { node, running: false }));
        }
    }

    fn hold(&mut self, pfn: Pfn, cpu: u8) {
        if let Some(slot) = self.holder.get_mut(pfn.0 as usize) {
            *slot = cpu;
        }
    }

    /// A drain right after a free of the same task is the policy's own.
    fn drained(&mut self, at: usize, pid: u32, pfn: Pfn, order: Order) {
        if self.freed_by[at] == Some(pid) || (self.background)(pid) {
            return;
        }
        let owner = self.holder.get(pfn.0 as usize).copied().unwrap_or(0);
        let (_, pages) = self.draining[at].filter(|d| d.0 == owner).unwrap_or((owner, 0));
        self.draining[at] = Some((owner, pages + (1 << order)));
    }
}

mod op {
    pub(super) const ALLOC: u8 = 0;
    pub(super) const FAILED: u8 = 1;
    pub(super) const FREE: u8 = 2;
    pub(super) const ISOLATE: u8 = 3;
    pub(super) const BULK: u8 = 4;
    pub(super) const DRAIN: u8 = 5;
    pub(super) const KSWAPD_RUNS: u8 = 6;
    pub(super) const KSWAPD_ENDS: u8 = 7;
}

const COLUMNS: &[(&str, ColumnType)] = &[
    ("t_ms", ColumnType::U32),
    ("cpu", ColumnType::U8),
    ("op", ColumnType::U8),
    ("order", ColumnType::U8),
    ("pfn", ColumnType::U32),
    ("arg", ColumnType::U32),
];

/// Changes with the meaning of the columns.
const FORMAT: &str = "3";

/// The demands of a recording in a file of columns, made once and kept.
pub struct Demands {
    path: PathBuf,
    /// Recorded events that they stand for.
    pub events: u64,
    /// How many there are.
    pub count: u64,
    /// Fallbacks below the pageblock order that the recorded kernel reported.
    pub recorded_fragmenting: u64,
}

impl Demands {
    /// The demands in the file at `path`, if it was made of this columnar form.
    #[must_use]
    pub fn open(path: &Path, source: &Columnar) -> Option<Self> {
        let reader = TableReader::open(path, &["op"]).ok()?;
        let metadata = reader.metadata();
        let number = |key: &str| metadata.get(key)?.parse::<u64>().ok();
        let fresh = metadata.get("format").map(String::as_str) == Some(FORMAT)
            && metadata.get("source").map(String::as_str) == Some(identity(source).as_str());
        fresh.then_some(())?;
        Some(Self {
            path: path.into(),
            events: number("events")?,
            count: number("count")?,
            recorded_fragmenting: number("recorded_fragmenting")?,
        })
    }

    /// Writes the demands of a recording's window to `path`.
    ///
    /// # Errors
    /// Where the events cannot be read, or the file not written.
    pub fn write(
        path: &Path,
        recording: &Recording,
        source: &Columnar,
        fates: &Fates,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, Error> {
        let window = source.windows.start_event()..source.windows.end_event();
        let mut finder = DemandFinder::new(recording, fates);
        let mut writer = DemandWriter::create(path)?;
        let mut chunks = source.chunks()?;
        let mut event = 0;
        let mut found = Vec::new();
        let mut recorded_fragmenting = 0;
        while let Some(chunk) = chunks.next_chunk()? {
            for record in chunk {
                if window.contains(&event) {
                    finder.push(event, record, &mut found);
                    if let What::Extfrag(x) = &record.what {
                        let fragmenting = x.fragmenting(recording.pageblock_order);
                        recorded_fragmenting += u64::from(fragmenting);
                    }
                }
                event += 1;
            }
            for timed in found.drain(..) {
                writer.push(timed)?;
            }
            progress(event);
        }
        let events = window.end - window.start;
        let count = writer.finish(events, recorded_fragmenting, &identity(source))?;
        Ok(Self { path: path.into(), events, count, recorded_fragmenting })
    }

    /// Streams the demands, some at a time.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub fn chunks(&self) -> Result<DemandChunks, Error> {
        let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
        let reader = TableReader::open(&self.path, &names)?;
        Ok(DemandChunks { reader, chunk: Vec::new() })
    }
}

/// What tells one columnar form from another.
fn identity(source: &Columnar) -> String {
    format!("{} {} {:?}", source.path.display(), source.events, source.windows)
}

struct DemandWriter {
    table: TableWriter,
    rows: [Vec<u32>; 3],
    bytes: [Vec<u8>; 3],
    count: u64,
}

const ROWS: usize = 1 << 16;

impl DemandWriter {
    fn create(path: &Path) -> Result<Self, Error> {
        let table = TableWriter::create(path, COLUMNS)?;
        Ok(Self { table, rows: Default::default(), bytes: Default::default(), count: 0 })
    }

    fn push(&mut self, Timed { t_ms, cpu, demand }: Timed) -> Result<(), Error> {
        let frame = |pfn: Pfn| u32::try_from(pfn.0).map_err(|_| Error::Frame(pfn));
        let (op, order, pfn, arg) = match demand {
            Demand::Alloc { pfn, order, gfp } => (op::ALLOC, order, frame(pfn)?, gfp.0),
            Demand::Failed { order, gfp } => (op::FAILED, order, 0, gfp.0),
            Demand::Free { pfn, order } => (op::FREE, order, frame(pfn)?, 0),
            Demand::Isolate { pfn, order } => (op::ISOLATE, order, frame(pfn)?, 0),
            Demand::Bulk { pages } => (op::BULK, 0, 0, pages),
            Demand::Drain { pages } => (op::DRAIN, 0, 0, pages),
            Demand::Kswapd { node, running: true } => (op::KSWAPD_RUNS, 0, 0, u32::from(node)),
            Demand::Kswapd { node, running: false } => (op::KSWAPD_ENDS, 0, 0, u32::from(node)),
        };
        for (column, value) in self.rows.iter_mut().zip([t_ms, pfn, arg]) {
            column.push(value);
        }
        for (column, value) in self.bytes.iter_mut().zip([cpu, op, order]) {
            column.push(value);
        }
        self.count += 1;
        if self.rows[0].len() == ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let [t_ms, pfn, arg] = std::mem::take(&mut self.rows);
        let [cpu, op, order] = std::mem::take(&mut self.bytes);
        self.table.write(vec![
            Column::U32(t_ms),
            Column::U8(cpu),
            Column::U8(op),
            Column::U8(order),
            Column::U32(pfn),
            Column::U32(arg),
        ])?;
        Ok(())
    }

    fn finish(
        mut self,
        events: u64,
        recorded_fragmenting: u64,
        source: &str,
    ) -> Result<u64, Error> {
        self.flush()?;
        let metadata = BTreeMap::from([
            ("format".to_owned(), FORMAT.to_owned()),
            ("source".to_owned(), source.to_owned()),
            ("events".to_owned(), events.to_string()),
            ("count".to_owned(), self.count.to_string()),
            ("recorded_fragmenting".to_owned(), recorded_fragmenting.to_string()),
        ]);
        self.table.finish(&metadata)?;
        Ok(self.count)
    }
}

/// The demands of a file, some at a time.
pub struct DemandChunks {
    reader: TableReader,
    chunk: Vec<Timed>,
}

impl DemandChunks {
    /// The next demands; `None` at the end.
    ///
    /// # Errors
    /// Where the file is damaged.
    pub fn next_chunk(&mut self) -> Result<Option<&[Timed]>, Error> {
        let Some(batch) = self.reader.next_batch()? else { return Ok(None) };
        self.chunk.clear();
        decode(&batch, &mut self.chunk)?;
        Ok(Some(&self.chunk))
    }
}

fn decode(batch: &Batch, out: &mut Vec<Timed>) -> Result<(), Error> {
    let (t_ms, cpu, ops) = (batch.u32(0)?, batch.u8(1)?, batch.u8(2)?);
    let (orders, pfns, args) = (batch.u8(3)?, batch.u32(4)?, batch.u32(5)?);
    for row in 0..batch.len() {
        let (pfn, order, arg) = (Pfn(u64::from(pfns[row])), orders[row], args[row]);
        let demand = match ops[row] {
            op::ALLOC => Demand::Alloc { pfn, order, gfp: Gfp(arg) },
            op::FAILED => Demand::Failed { order, gfp: Gfp(arg) },
            op::FREE => Demand::Free { pfn, order },
            op::ISOLATE => Demand::Isolate { pfn, order },
            op::BULK => Demand::Bulk { pages: arg },
            op::DRAIN => Demand::Drain { pages: arg },
            op::KSWAPD_RUNS => Demand::Kswapd { node: arg as u8, running: true },
            op::KSWAPD_ENDS => Demand::Kswapd { node: arg as u8, running: false },
            other => return Err(Error::Demand(other)),
        };
        out.push(Timed { t_ms: t_ms[row], cpu: cpu[row], demand });
    }
    Ok(())
}

/// The type that an unknown page in use was most likely requested as.
#[must_use]
pub fn assumed_type(movable: bool, block: Migratetype) -> Migratetype {
    match block {
        _ if movable => Migratetype::Movable,
        Migratetype::Movable => Migratetype::Unmovable,
        block => block,
    }
}
