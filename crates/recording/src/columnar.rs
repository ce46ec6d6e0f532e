//! A recording's events as columns: converted once, kept in a cache, read many times faster.
//!
//! One row an event. Columns: `t` (microseconds: [`Layout`]), `cpu`, `pid`, `op` ([`op`]), `pfn`,
//! `order`, `mt` (this library's own numbers, [`Migratetype`] as a number), `arg` and `text`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use pageblock::event::Extfrag;
use pageblock::frame::{ORDER_LIMIT, Pfn};
use pageblock::mobility::Migratetype;
use pageblock::request::Gfp;

use crate::error::Error;
use crate::record::{Other, Record, What};
use crate::recording::Recording;
use crate::table::{Batch, Column, ColumnType, TableReader, TableWriter};
use crate::window::{Window, WindowFinder, Windows};

/// The version of the columns' meaning; a file of another version is converted again.
const FORMAT_VERSION: &str = "1";
/// The rows of a batch: its columns together stay within a level-2 cache.
const BATCH_ROWS: usize = 1 << 16;

/// What the values of the column `op` stand for.
pub mod op {
    /// `mm_page_alloc` that was served; `arg` is the flags ([`pageblock::request::Gfp`]).
    pub const ALLOC: u8 = 0;
    /// `mm_page_alloc` that failed; `arg` is the flags.
    pub const ALLOC_FAILED: u8 = 1;
    /// `mm_page_free`.
    pub const FREE: u8 = 2;
    /// `mm_page_free_batched`.
    pub const FREE_BATCHED: u8 = 3;
    /// `mm_page_alloc_zone_locked`; `arg` is 1 where the block goes to a CPU list.
    pub const ZONE_LOCKED: u8 = 4;
    /// `mm_page_pcpu_drain`.
    pub const DRAIN: u8 = 5;
    /// `mm_page_alloc_extfrag`; `order` and `mt` are the request's; `arg` is the fallback order,
    /// plus the fallback type shifted by 8, plus the change of ownership shifted by 16.
    pub const EXTFRAG: u8 = 6;
    /// The probe on isolation; `arg` is the return value as a signed number.
    pub const ISOLATE: u8 = 7;
    /// The probe on the bulk allocator; `arg` is the number of pages.
    pub const BULK: u8 = 8;
    /// A marker; `text` is its name.
    pub const MARKER: u8 = 9;
    /// Another event; `text` is its name, a blank, and its arguments.
    pub const OTHER: u8 = 10;
}

/// The indexes of the columns in a batch of [`Columnar::batches`].
pub mod column {
    /// Time.
    pub const T: usize = 0;
    /// CPU.
    pub const CPU: usize = 1;
    /// Process id.
    pub const PID: usize = 2;
    /// What happened: [`super::op`].
    pub const OP: usize = 3;
    /// First frame.
    pub const PFN: usize = 4;
    /// Order.
    pub const ORDER: usize = 5;
    /// Migratetype.
    pub const MT: usize = 6;
    /// What else the event says: [`super::op`].
    pub const ARG: usize = 7;
    /// Text of markers and other events.
    pub const TEXT: usize = 8;
}

const NAMES: [&str; 9] = ["t", "cpu", "pid", "op", "pfn", "order", "mt", "arg", "text"];

/// The width of the columns `t`, `cpu` and `pfn`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// `t` is the time since the row before, 0 in the first row ([`Columnar::first_t_us`]), in 32
    /// bits; `cpu` has 8 and `pfn` 32 bits.
    Narrow,
    /// `t` is absolute in 64 bits, `cpu` has 16 and `pfn` 64 bits: for streams whose times are not
    /// in order or too far apart, or with large numbers.
    Wide,
}

/// A recording's events as columns in a file.
#[derive(Clone, Debug)]
pub struct Columnar {
    /// The file.
    pub path: PathBuf,
    /// The number of events.
    pub events: u64,
    /// The width of some columns.
    pub layout: Layout,
    /// The points of the snapshots.
    pub windows: Windows,
    /// How many events the recorder lost, as far as the events' file tells.
    pub lost: u64,
    /// The time of the first event in microseconds.
    pub first_t_us: u64,
}

impl Recording {
    /// The recording's columnar form: the file of the cache folder if it is there and was made of
    /// the events' file as it is now, else a new one. `progress` is called now and then with the
    /// bytes of the events' file that were read and its size.
    ///
    /// # Errors
    /// Where the events cannot be read or the file cannot be written.
    pub fn columnar(
        &self,
        cache_dir: &Path,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<Columnar, Error> {
        let path = cache_dir.join(format!("{}-{:016x}.pbrec", self.name, self.path_hash()));
        let source = self.source()?;
        if path.is_file()
            && let Ok(columnar) = Columnar::open(&path)
            && columnar.is_of(&source)?
        {
            return Ok(columnar);
        }
        if !self.convert(&path, Layout::Narrow, &source, progress)? {
            self.convert(&path, Layout::Wide, &source, progress)?;
        }
        Columnar::open(&path)
    }

    /// Tells recordings of the same name apart.
    fn path_hash(&self) -> u64 {
        let path = self.dir.canonicalize().unwrap_or_else(|_| self.dir.clone());
        let bytes = path.as_os_str().as_encoded_bytes();
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// What the file is made of: if any of it changes, the file is stale.
    fn source(&self) -> Result<BTreeMap<String, String>, Error> {
        let file = &self.events_file;
        let stat = file.metadata().map_err(|e| Error::io(file, e))?;
        let modified = stat.modified().ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        Ok(BTreeMap::from([
            ("pageblock.format".to_owned(), FORMAT_VERSION.to_owned()),
            ("source.file".to_owned(), name.into_owned()),
            ("source.bytes".to_owned(), stat.len().to_string()),
            ("source.modified_ns".to_owned(), modified.unwrap_or_default().as_nanos().to_string()),
            ("source.decoding".to_owned(), format!("{:?}", self.decoding)),
        ]))
    }

    /// Returns `false`, and writes nothing, where the events do not fit the layout.
    fn convert(
        &self,
        path: &Path,
        layout: Layout,
        source: &BTreeMap<String, String>,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<bool, Error> {
        let mut writer = EventWriter::create(path, layout)?;
        let mut finder = WindowFinder::new(self);
        let mut events = self.events()?;
        let mut first_t_us = None;
        while let Some(record) = events.next() {
            let record = record?;
            first_t_us.get_or_insert(record.t_us);
            finder.push(&record);
            if !writer.push(&record)? {
                return Ok(false);
            }
            if writer.rows.is_empty() {
                progress(events.file_bytes_read(), events.file_bytes());
            }
        }
        progress(events.file_bytes_read(), events.file_bytes());
        let windows = finder.finish();
        let mut metadata = source.clone();
        metadata.insert("layout".to_owned(), format!("{layout:?}"));
        metadata.insert("events".to_owned(), windows.events.to_string());
        metadata.insert("lost".to_owned(), events.lost().to_string());
        metadata.insert("first_t_us".to_owned(), first_t_us.unwrap_or(0).to_string());
        metadata.insert("window.start".to_owned(), window_text(&windows.start));
        if let Some(end) = &windows.end {
            metadata.insert("window.end".to_owned(), window_text(end));
        }
        writer.finish(&metadata)?;
        Ok(true)
    }
}

fn window_text(window: &Window) -> String {
    let Window { event, markers, votes, voters } = window;
    format!("{event} {} {} {votes} {voters}", markers.start, markers.end)
}

fn parse_window(text: &str) -> Option<Window> {
    let numbers: Result<Vec<u64>, _> = text.split(' ').map(str::parse).collect();
    let &[event, start, end, votes, voters] = numbers.ok()?.as_slice() else { return None };
    Some(Window { event, markers: start..end, votes, voters })
}

impl Columnar {
    /// Opens a columnar file.
    ///
    /// # Errors
    /// Where it is not one of this version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let reader = TableReader::open(path, &NAMES)?;
        let metadata = reader.metadata();
        let get = |key: &str| {
            metadata.get(key).ok_or_else(|| Error::columnar(path, format!("it has no {key}")))
        };
        let number = |key: &str| {
            let value = get(key)?;
            value.parse().map_err(|_| Error::columnar(path, format!("its {key} is {value}")))
        };
        let window = |text: &String| {
            parse_window(text)
                .ok_or_else(|| Error::columnar(path, format!("it has the window {text}")))
        };
        if get("pageblock.format")? != FORMAT_VERSION {
            return Err(Error::columnar(path, "it is of another version"));
        }
        let layout = match get("layout")?.as_str() {
            "Narrow" => Layout::Narrow,
            "Wide" => Layout::Wide,
            other => return Err(Error::columnar(path, format!("its layout is {other}"))),
        };
        let events = number("events")?;
        let windows = Windows {
            start: window(get("window.start")?)?,
            end: metadata.get("window.end").map(window).transpose()?,
            events,
        };
        let (lost, first_t_us) = (number("lost")?, number("first_t_us")?);
        Ok(Self { path: path.to_owned(), events, layout, windows, lost, first_t_us })
    }

    fn is_of(&self, source: &BTreeMap<String, String>) -> Result<bool, Error> {
        let reader = self.batches()?;
        Ok(source.iter().all(|(key, value)| reader.metadata().get(key) == Some(value)))
    }

    /// Streams the columns, batch by batch.
    ///
    /// # Errors
    /// Where the file cannot be opened.
    pub fn batches(&self) -> Result<TableReader, Error> {
        TableReader::open_verified(&self.path, &NAMES)
    }

    /// Streams the events, some at a time: faster than [`Columnar::records`].
    ///
    /// # Errors
    /// Where the file cannot be opened.
    pub fn chunks(&self) -> Result<Chunks, Error> {
        Ok(Chunks {
            path: self.path.clone(),
            reader: self.batches()?,
            layout: self.layout,
            batch: None,
            row: 0,
            chunk: Vec::new(),
            t_us: self.first_t_us,
            left: self.events,
        })
    }

    /// Streams the events. After an error the stream ends.
    ///
    /// # Errors
    /// Where the file cannot be opened.
    pub fn records(&self) -> Result<Records, Error> {
        Ok(Records { chunks: self.chunks()?, ready: Vec::new().into_iter(), done: false })
    }
}

/// Rows that were not written yet.
#[derive(Default)]
struct Rows {
    t: Vec<u64>,
    cpu: Vec<u16>,
    pid: Vec<u32>,
    op: Vec<u8>,
    pfn: Vec<u64>,
    order: Vec<u8>,
    mt: Vec<u8>,
    arg: Vec<u32>,
    text: Vec<Box<str>>,
}

impl Rows {
    fn is_empty(&self) -> bool {
        self.op.is_empty()
    }
}

/// Writes events as columns.
struct EventWriter {
    table: TableWriter,
    layout: Layout,
    rows: Rows,
    t_us: Option<u64>,
}

impl EventWriter {
    fn create(path: &Path, layout: Layout) -> Result<Self, Error> {
        use ColumnType::{Text, U8, U16, U32, U64};
        let (t, cpu, pfn) = match layout {
            Layout::Narrow => (U32, U8, U32),
            Layout::Wide => (U64, U16, U64),
        };
        let types = [t, cpu, U32, U8, pfn, U8, U8, U32, Text];
        let columns: Vec<_> = NAMES.into_iter().zip(types).collect();
        let table = TableWriter::create(path, &columns)?;
        Ok(Self { table, layout, rows: Rows::default(), t_us: None })
    }

    /// Returns `false` where the event does not fit the layout.
    fn push(&mut self, record: &Record) -> Result<bool, Error> {
        let Cells { op, pfn, order, mt, arg, text } = Cells::of(&record.what);
        let t = match self.layout {
            Layout::Narrow => {
                let delta = record.t_us.checked_sub(self.t_us.unwrap_or(record.t_us));
                let fits = |n| n <= u64::from(u32::MAX);
                match delta {
                    Some(delta) if fits(delta) && fits(pfn) && record.cpu < 256 => delta,
                    _ => return Ok(false),
                }
            }
            Layout::Wide => record.t_us,
        };
        self.t_us = Some(record.t_us);
        let rows = &mut self.rows;
        rows.t.push(t);
        rows.cpu.push(record.cpu);
        rows.pid.push(record.pid);
        rows.op.push(op);
        rows.pfn.push(pfn);
        rows.order.push(order);
        rows.mt.push(mt);
        rows.arg.push(arg);
        rows.text.push(text);
        if rows.op.len() == BATCH_ROWS {
            self.flush()?;
        }
        Ok(true)
    }

    fn flush(&mut self) -> Result<(), Error> {
        let rows = std::mem::take(&mut self.rows);
        let (t, cpu, pfn) = match self.layout {
            Layout::Narrow => (
                Column::U32(rows.t.into_iter().map(|v| v as u32).collect()),
                Column::U8(rows.cpu.into_iter().map(|v| v as u8).collect()),
                Column::U32(rows.pfn.into_iter().map(|v| v as u32).collect()),
            ),
            Layout::Wide => (Column::U64(rows.t), Column::U16(rows.cpu), Column::U64(rows.pfn)),
        };
        let (pid, op, order) = (Column::U32(rows.pid), Column::U8(rows.op), Column::U8(rows.order));
        let (mt, arg, text) = (Column::U8(rows.mt), Column::U32(rows.arg), Column::Text(rows.text));
        self.table.write(vec![t, cpu, pid, op, pfn, order, mt, arg, text])
    }

    fn finish(mut self, metadata: &BTreeMap<String, String>) -> Result<(), Error> {
        if !self.rows.is_empty() {
            self.flush()?;
        }
        self.table.finish(metadata)
    }
}

/// What a row says of an event beside time, CPU and process.
#[derive(Default)]
struct Cells {
    op: u8,
    pfn: u64,
    order: u8,
    mt: u8,
    arg: u32,
    text: Box<str>,
}

impl Cells {
    fn of(what: &What) -> Self {
        match what {
            What::Alloc { pfn, order, mt, gfp } => Self {
                op: if pfn.is_some() { op::ALLOC } else { op::ALLOC_FAILED },
                pfn: pfn.map_or(0, |pfn| pfn.0),
                order: *order,
                mt: *mt as u8,
                arg: gfp.0,
                ..Self::default()
            },
            What::Free { pfn, order } => {
                Self { op: op::FREE, pfn: pfn.0, order: *order, ..Self::default() }
            }
            What::FreeBatched { pfn } => {
                Self { op: op::FREE_BATCHED, pfn: pfn.0, ..Self::default() }
            }
            What::ZoneLocked { pfn, order, mt, refill } => Self {
                op: op::ZONE_LOCKED,
                pfn: pfn.0,
                order: *order,
                mt: *mt as u8,
                arg: u32::from(*refill),
                ..Self::default()
            },
            What::Drain { pfn, order, mt } => {
                Self { op: op::DRAIN, pfn: pfn.0, order: *order, mt: *mt as u8, ..Self::default() }
            }
            What::Extfrag(x) => Self {
                op: op::EXTFRAG,
                pfn: x.pfn.0,
                order: x.alloc_order,
                mt: x.alloc_migratetype as u8,
                arg: u32::from(x.fallback_order)
                    | (x.fallback_migratetype as u32) << 8
                    | u32::from(x.change_ownership) << 16,
                ..Self::default()
            },
            What::Isolate { pfn, order, ret } => Self {
                op: op::ISOLATE,
                pfn: pfn.0,
                order: *order,
                arg: (*ret).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32 as u32,
                ..Self::default()
            },
            What::Bulk { pages } => Self { op: op::BULK, arg: *pages, ..Self::default() },
            What::Marker(name) => Self { op: op::MARKER, text: name.clone(), ..Self::default() },
            What::Other(other) => Self {
                op: op::OTHER,
                text: format!("{} {}", other.name, other.args).into(),
                ..Self::default()
            },
        }
    }
}

/// The rows that are turned into records at a time.
const CHUNK_ROWS: usize = 1024;

/// Streams the events of a columnar file, some at a time.
pub struct Chunks {
    path: PathBuf,
    reader: TableReader,
    layout: Layout,
    batch: Option<Batch>,
    row: usize,
    chunk: Vec<Record>,
    t_us: u64,
    left: u64,
}

impl Chunks {
    /// The next events, at least one; `None` at the end of the file.
    ///
    /// # Errors
    /// Where the file is damaged.
    pub fn next_chunk(&mut self) -> Result<Option<&[Record]>, Error> {
        Ok(self.fill()?.then_some(&self.chunk))
    }

    fn fill(&mut self) -> Result<bool, Error> {
        loop {
            if let Some(batch) = &self.batch
                && self.row < batch.len()
            {
                let rows = self.row..(self.row + CHUNK_ROWS).min(batch.len());
                self.row = rows.end;
                self.chunk.clear();
                decode(batch, rows, self.layout, &mut self.t_us, &mut self.chunk)?;
                self.left = self.left.saturating_sub(self.chunk.len() as u64);
                return Ok(true);
            }
            self.row = 0;
            self.batch = self.reader.next_batch()?;
            if self.batch.is_none() {
                if self.left > 0 {
                    let why = format!("it lacks {} events at its end", self.left);
                    return Err(Error::columnar(&self.path, why));
                }
                return Ok(false);
            }
        }
    }
}

/// Streams the events of a columnar file.
pub struct Records {
    chunks: Chunks,
    ready: std::vec::IntoIter<Record>,
    done: bool,
}

impl Iterator for Records {
    type Item = Result<Record, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(record) = self.ready.next() {
            return Some(Ok(record));
        }
        if self.done {
            return None;
        }
        match self.chunks.fill() {
            Ok(true) => {
                let chunk = Vec::with_capacity(CHUNK_ROWS);
                self.ready = std::mem::replace(&mut self.chunks.chunk, chunk).into_iter();
                self.ready.next().map(Ok)
            }
            Ok(false) => {
                self.done = true;
                None
            }
            Err(error) => {
                self.done = true;
                Some(Err(error))
            }
        }
    }
}

fn decode(
    batch: &Batch,
    rows: Range<usize>,
    layout: Layout,
    t_us: &mut u64,
    records: &mut Vec<Record>,
) -> Result<(), Error> {
    let pid = batch.u32(column::PID)?;
    let (op, arg) = (batch.u8(column::OP)?, batch.u32(column::ARG)?);
    let (order, mt) = (batch.u8(column::ORDER)?, batch.u8(column::MT)?);
    let what = |row: usize, pfn: u64| {
        what_of(op[row], pfn, order[row], mt[row], arg[row], || batch.text(column::TEXT, row))
            .ok_or_else(|| batch.damaged(row))
    };
    match layout {
        Layout::Narrow => {
            let (t, cpu, pfn) =
                (batch.u32(column::T)?, batch.u8(column::CPU)?, batch.u32(column::PFN)?);
            for row in rows {
                *t_us = t_us.wrapping_add(u64::from(t[row]));
                let what = what(row, u64::from(pfn[row]))?;
                records.push(Record { t_us: *t_us, cpu: u16::from(cpu[row]), pid: pid[row], what });
            }
        }
        Layout::Wide => {
            let (t, cpu, pfn) =
                (batch.u64(column::T)?, batch.u16(column::CPU)?, batch.u64(column::PFN)?);
            for row in rows {
                let what = what(row, pfn[row])?;
                records.push(Record { t_us: t[row], cpu: cpu[row], pid: pid[row], what });
            }
        }
    }
    Ok(())
}

/// The event of a row; `None` where the values stand for none.
#[inline]
fn what_of<'a>(
    op: u8,
    pfn: u64,
    order: u8,
    mt: u8,
    arg: u32,
    text: impl FnOnce() -> Result<&'a str, Error>,
) -> Option<What> {
    let mt = Migratetype::from_index(usize::from(mt))?;
    if order > ORDER_LIMIT || pfn >= crate::PFN_LIMIT {
        return None;
    }
    let pfn = Pfn(pfn);
    Some(match op {
        op::ALLOC => What::Alloc { pfn: Some(pfn), order, mt, gfp: Gfp(arg) },
        op::ALLOC_FAILED => What::Alloc { pfn: None, order, mt, gfp: Gfp(arg) },
        op::FREE => What::Free { pfn, order },
        op::FREE_BATCHED => What::FreeBatched { pfn },
        op::ZONE_LOCKED => What::ZoneLocked { pfn, order, mt, refill: arg != 0 },
        op::DRAIN => What::Drain { pfn, order, mt },
        op::EXTFRAG => What::Extfrag(Extfrag {
            pfn,
            alloc_order: order,
            fallback_order: Some(arg as u8).filter(|&order| order <= ORDER_LIMIT)?,
            alloc_migratetype: mt,
            fallback_migratetype: Migratetype::from_index((arg >> 8 & 0xff) as usize)?,
            change_ownership: arg >> 16 != 0,
        }),
        op::ISOLATE => What::Isolate { pfn, order, ret: i64::from(arg as i32) },
        op::BULK => What::Bulk { pages: arg },
        op::MARKER => What::Marker(text().ok()?.into()),
        op::OTHER => {
            let text = text().ok()?;
            let (name, args) = text.split_once(' ').unwrap_or((text, ""));
            What::Other(Box::new(Other { name: name.into(), args: args.into() }))
        }
        _ => return None,
    })
}
