//! Demands in a file of columns.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use pageblock::frame::{Order, Pfn};
use pageblock::request::Gfp;
use pageblock_measure::certificate::Outcome;
use pageblock_recording::{
    Batch, Column, ColumnType, Columnar, Snapshot, TableReader, TableWriter,
};

use super::{Demand, DemandFinder, Faults, Timed};
use crate::error::Error;
use crate::guided::Guided;
use crate::recorded::RecordedOutcome;

mod op {
    pub(super) const ALLOC: u8 = 0;
    pub(super) const FAILED: u8 = 1;
    pub(super) const FREE: u8 = 2;
    pub(super) const ISOLATE: u8 = 3;
    pub(super) const BULK: u8 = 4;
    pub(super) const DRAIN: u8 = 5;
    pub(super) const KSWAPD_RUNS: u8 = 6;
    pub(super) const KSWAPD_ENDS: u8 = 7;
    pub(super) const ALLOC_PAST_LIST: u8 = 8;
    pub(super) const FREE_PAST_LIST: u8 = 9;
    pub(super) const TICK: u8 = 10;
    pub(super) const MOVE_AWAY: u8 = 11;
    pub(super) const EVACUATE: u8 = 12;
    pub(super) const REUSE: u8 = 13;
}

const COLUMNS: &[(&str, ColumnType)] = &[
    ("t_ms", ColumnType::U32),
    ("cpu", ColumnType::U16),
    ("op", ColumnType::U8),
    ("order", ColumnType::U8),
    ("pfn", ColumnType::U32),
    ("arg", ColumnType::U32),
    ("fault", ColumnType::U32),
];

/// Must change with the meaning of the columns.
const FORMAT: &str = "13";

/// The demands of a recording in a file of columns, made once and kept.
pub struct Demands {
    path: PathBuf,
    /// The number of recorded events that they stand for.
    pub events: u64,
    /// The number of demands.
    pub count: u64,
    /// What happened in the recording.
    pub recorded: Outcome,
    /// The state before the first demand.
    pub start: Snapshot,
}

impl Demands {
    /// Opens the demands in the file at `path`, if they were made from this recording. `start` is the state before
    /// the first of them.
    #[must_use]
    pub fn open(path: &Path, source: &Columnar, start: Snapshot) -> Option<Self> {
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
            recorded: serde_json::from_str(metadata.get("recorded")?).ok()?,
            start,
        })
    }

    /// Writes the demands of a recording's window, which begins in the state `start`, to `path`. `guided` is a
    /// guided replay from that state; `end` is the recorded state at the end of the window.
    ///
    /// # Errors
    /// If the events cannot be read, or the file cannot be written.
    pub fn write(
        path: &Path,
        source: &Columnar,
        window: Range<u64>,
        mut finder: DemandFinder<'_>,
        guided: &mut Guided<'_, '_>,
        (start, end): (Snapshot, Option<&Snapshot>),
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, Error> {
        let mut writer = DemandWriter::create(path)?;
        let mut chunks = source.chunks()?;
        let mut event = 0;
        let mut found = Vec::new();
        let mut recorded = RecordedOutcome::new(source.first_t_us, guided.allocator());
        while let Some(chunk) = chunks.next_chunk()? {
            for record in chunk {
                if window.contains(&event) {
                    guided.push(event, record);
                    finder.push(event, record, guided.inferred(), &mut found);
                    recorded.push(record, guided.allocator());
                }
                event += 1;
            }
            for timed in found.drain(..) {
                writer.push(timed)?;
            }
            progress(event);
        }
        finder.finish(&mut found);
        for timed in found {
            writer.push(timed)?;
        }
        let events = window.end.saturating_sub(window.start);
        let recorded = recorded.finish(end, guided.allocator());
        let count = writer.finish(events, &recorded, &identity(source))?;
        Ok(Self { path: path.into(), events, count, recorded, start })
    }

    /// Writes the demands of a recording that has only requests and frees, and so does not say where a request was
    /// served from. `huge` is the order of a huge page.
    ///
    /// # Errors
    /// If the events cannot be read, or the file cannot be written.
    pub fn write_requests(
        path: &Path,
        source: &Columnar,
        window: Range<u64>,
        (start, huge): (Snapshot, Order),
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, Error> {
        let mut writer = DemandWriter::create(path)?;
        let mut chunks = source.chunks()?;
        let mut event = 0;
        let mut recorded = Outcome::default();
        let mut faults = Faults::new(huge);
        while let Some(chunk) = chunks.next_chunk()? {
            for record in chunk {
                if window.contains(&event)
                    && let Some(timed) = super::request(record, &mut faults)
                {
                    recorded.failed += u64::from(matches!(timed.demand, Demand::Failed { .. }));
                    writer.push(timed)?;
                }
                event += 1;
            }
            progress(event);
        }
        let events = window.end.saturating_sub(window.start);
        let count = writer.finish(events, &recorded, &identity(source))?;
        Ok(Self { path: path.into(), events, count, recorded, start })
    }

    /// Streams the demands in chunks.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn chunks(&self) -> Result<DemandChunks, Error> {
        let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
        let reader = TableReader::open(&self.path, &names)?;
        Ok(DemandChunks { reader, chunk: Vec::new() })
    }
}

/// Returns the identity of a columnar form: its name in the cache, which contains the recording's fingerprint, and
/// a summary of its events.
fn identity(source: &Columnar) -> String {
    let name = source.cache.file_name().unwrap_or_default().to_string_lossy();
    format!("{name} {} {:?}", source.events, source.windows)
}

struct DemandWriter {
    table: TableWriter,
    rows: [Vec<u32>; 4],
    cpus: Vec<u16>,
    bytes: [Vec<u8>; 2],
    count: u64,
}

const ROWS: usize = 1 << 16;

impl DemandWriter {
    fn create(path: &Path) -> Result<Self, Error> {
        let table = TableWriter::create(path, COLUMNS)?;
        Ok(Self {
            table,
            rows: Default::default(),
            cpus: Vec::new(),
            bytes: Default::default(),
            count: 0,
        })
    }

    fn push(&mut self, Timed { t_ms, cpu, demand }: Timed) -> Result<(), Error> {
        let frame = |pfn: Pfn| u32::try_from(pfn.0).map_err(|_| Error::Frame(pfn));
        let (op, order, pfn, arg) = match demand {
            Demand::Alloc { pfn, order, gfp, past_list, .. } => {
                (if past_list { op::ALLOC_PAST_LIST } else { op::ALLOC }, order, frame(pfn)?, gfp.0)
            }
            Demand::Failed { order, gfp, .. } => (op::FAILED, order, 0, gfp.0),
            Demand::Free { pfn, order, past_list, reclaimed } => {
                let op = if past_list { op::FREE_PAST_LIST } else { op::FREE };
                (op, order, frame(pfn)?, u32::from(reclaimed))
            }
            Demand::Isolate { pfn, order } => (op::ISOLATE, order, frame(pfn)?, 0),
            Demand::Reuse { pfn } => (op::REUSE, 0, frame(pfn)?, 0),
            Demand::Bulk { pages } => (op::BULK, 0, 0, pages),
            Demand::Drain { pfn } => (op::DRAIN, 0, frame(pfn)?, 0),
            Demand::MoveAway { pfn, to } => {
                let to = to.map(frame).transpose()?.map_or(0, |to| to + 1);
                (op::MOVE_AWAY, 0, frame(pfn)?, to)
            }
            Demand::Evacuate { pfn, pages } => (op::EVACUATE, 0, frame(pfn)?, pages),
            Demand::Tick => (op::TICK, 0, 0, 0),
            Demand::Kswapd { node, running: true } => (op::KSWAPD_RUNS, 0, 0, u32::from(node)),
            Demand::Kswapd { node, running: false } => (op::KSWAPD_ENDS, 0, 0, u32::from(node)),
        };
        let fault = match demand {
            Demand::Alloc { instead_of: fault, .. } | Demand::Failed { fault, .. } => fault,
            _ => None,
        };
        for (column, value) in self.rows.iter_mut().zip([t_ms, pfn, arg, fault.unwrap_or(0)]) {
            column.push(value);
        }
        self.cpus.push(cpu);
        for (column, value) in self.bytes.iter_mut().zip([op, order]) {
            column.push(value);
        }
        self.count += 1;
        if self.rows[0].len() == ROWS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let [t_ms, pfn, arg, fault] = std::mem::take(&mut self.rows);
        let cpu = std::mem::take(&mut self.cpus);
        let [op, order] = std::mem::take(&mut self.bytes);
        self.table.write(vec![
            Column::U32(t_ms),
            Column::U16(cpu),
            Column::U8(op),
            Column::U8(order),
            Column::U32(pfn),
            Column::U32(arg),
            Column::U32(fault),
        ])?;
        Ok(())
    }

    fn finish(mut self, events: u64, recorded: &Outcome, source: &str) -> Result<u64, Error> {
        self.flush()?;
        let metadata = BTreeMap::from([
            ("format".to_owned(), FORMAT.to_owned()),
            ("source".to_owned(), source.to_owned()),
            ("events".to_owned(), events.to_string()),
            ("count".to_owned(), self.count.to_string()),
            ("recorded".to_owned(), serde_json::to_string(recorded)?),
        ]);
        self.table.finish(&metadata)?;
        Ok(self.count)
    }
}

/// The demands of a file, in chunks.
pub struct DemandChunks {
    reader: TableReader,
    chunk: Vec<Timed>,
}

impl DemandChunks {
    /// Returns the next demands; `None` at the end.
    ///
    /// # Errors
    /// If the file is damaged.
    pub fn next_chunk(&mut self) -> Result<Option<&[Timed]>, Error> {
        let Some(batch) = self.reader.next_batch()? else { return Ok(None) };
        self.chunk.clear();
        decode(&batch, &mut self.chunk)?;
        Ok(Some(&self.chunk))
    }
}

fn decode(batch: &Batch, out: &mut Vec<Timed>) -> Result<(), Error> {
    let (t_ms, cpu, ops) = (batch.u32(0)?, batch.u16(1)?, batch.u8(2)?);
    let (orders, pfns, args) = (batch.u8(3)?, batch.u32(4)?, batch.u32(5)?);
    let faults = batch.u32(6)?;
    for row in 0..batch.len() {
        let (pfn, order, arg) = (Pfn(u64::from(pfns[row])), orders[row], args[row]);
        let fault = Some(faults[row]).filter(|&fault| fault > 0);
        let demand = match ops[row] {
            op @ (op::ALLOC | op::ALLOC_PAST_LIST) => {
                let past_list = op == op::ALLOC_PAST_LIST;
                Demand::Alloc { pfn, order, gfp: Gfp(arg), past_list, instead_of: fault }
            }
            op::FAILED => Demand::Failed { order, gfp: Gfp(arg), fault },
            op @ (op::FREE | op::FREE_PAST_LIST) => {
                let past_list = op == op::FREE_PAST_LIST;
                Demand::Free { pfn, order, past_list, reclaimed: arg != 0 }
            }
            op::ISOLATE => Demand::Isolate { pfn, order },
            op::REUSE => Demand::Reuse { pfn },
            op::BULK => Demand::Bulk { pages: arg },
            op::DRAIN => Demand::Drain { pfn },
            op::MOVE_AWAY => {
                Demand::MoveAway { pfn, to: arg.checked_sub(1).map(|to| Pfn(u64::from(to))) }
            }
            op::EVACUATE => Demand::Evacuate { pfn, pages: arg },
            op::TICK => Demand::Tick,
            op::KSWAPD_RUNS => Demand::Kswapd { node: arg as u8, running: true },
            op::KSWAPD_ENDS => Demand::Kswapd { node: arg as u8, running: false },
            other => return Err(Error::Demand(other)),
        };
        out.push(Timed { t_ms: t_ms[row], cpu: cpu[row], demand });
    }
    Ok(())
}
