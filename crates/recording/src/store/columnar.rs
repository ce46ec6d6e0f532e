//! A recording's events as columns: of a folder converted once and kept in a cache, of a `.pbrec` the file itself.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

use pageblock_files::NewFile;

use crate::formats::events::Events;
use crate::input::error::Error;
use crate::record::event::{NOT_UNDERSTOOD, Record};
use crate::record::gfp::GfpTexts;
use crate::record::losses::{LossFinder, Losses};
use crate::state::files::{Attachments, Files};
use crate::state::recording::{Recording, comms};
use crate::state::window::{Window, WindowFinder, Windows};
use crate::store::rows::{Codes, EventWriter, decode, names};
use crate::store::table::{Batch, TableReader};

/// The version of the columns' meaning (docs/recordings.md); a cache of another version is converted again.
pub(crate) const SCHEMA: &str = "1";
/// The key of [`SCHEMA`], at the start of the file.
pub(crate) const SCHEMA_KEY: &str = "pageblock.schema";

/// A recording's events as columns in a file.
#[derive(Clone, Debug)]
pub struct Columnar {
    /// The file.
    pub path: PathBuf,
    /// The path in the cache folder beside which is kept what is made of the events.
    pub cache: PathBuf,
    /// The number of events.
    pub events: u64,
    /// The positions of the snapshots.
    pub windows: Windows,
    /// The events that the recorder lost, if the events file says.
    pub losses: Losses,
    /// The events that happened but cannot be used ([`crate::NOT_UNDERSTOOD`]).
    pub not_understood: u64,
    /// The time of the first event in microseconds.
    pub first_t_us: u64,
    /// The time of the last event in microseconds.
    pub last_t_us: u64,
}

/// A position between events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Position {
    /// Before the event with this number, counted from 0.
    Event(u64),
    /// Before the first event at this time, in microseconds from the first event, or later.
    Time(u64),
}

/// Writes events into a file of columns ([`Recording::writer`]), which appears when it is complete.
pub struct Writer {
    writer: EventWriter,
    finder: WindowFinder,
    first_t_us: Option<u64>,
    last_t_us: u64,
    events: u64,
    not_understood: u64,
    footer: BTreeMap<String, String>,
}

impl Writer {
    /// Starts with a file that was begun for the events of `target`, between whose snapshots they lie. `head` are texts at
    /// its start.
    pub(crate) fn new(
        path: &Path,
        begun: (File, NewFile),
        target: &Recording,
        head: HashMap<String, String>,
    ) -> Result<Self, Error> {
        let writer = EventWriter::create(path, begun, head)?;
        let finder = WindowFinder::new(target);
        let footer = BTreeMap::new();
        let (events, not_understood) = (0, 0);
        Ok(Self { writer, finder, first_t_us: None, last_t_us: 0, events, not_understood, footer })
    }

    /// Adds texts at the end of the file.
    pub(crate) fn footer(&mut self, texts: BTreeMap<String, String>) {
        self.footer.extend(texts);
    }

    /// Appends an event.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn push(&mut self, record: &Record) -> Result<(), Error> {
        self.first_t_us.get_or_insert(record.t_us);
        self.last_t_us = record.t_us;
        self.events += 1;
        self.not_understood += u64::from(record.what.is_not_understood());
        self.finder.push(record);
        self.writer.push(record)
    }

    /// Returns the number of events so far.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    /// Reports whether all events have been written.
    pub(crate) fn is_flushed(&self) -> bool {
        self.writer.is_flushed()
    }

    /// Writes all events, and what they say of losses and names; `of` is where they are from.
    pub(crate) fn write_all(
        mut self,
        mut events: Events,
        of: &Path,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<(), Error> {
        let mut losses = LossFinder::default();
        while let Some(record) = events.next() {
            let record = record?;
            losses.push(&record, events.lost(), || events.lost_by_cpu());
            self.push(&record)?;
            if self.is_flushed() {
                progress(events.file_bytes_read(), events.file_bytes());
            }
        }
        progress(events.file_bytes_read(), events.file_bytes());
        if let Some(comms) = events.comms().filter(|comms| !comms.is_empty()) {
            let mut names = Attachments::of(of);
            names.insert_comms(comms)?;
            self.footer(names.texts(false).collect());
        }
        let losses = match events.losses() {
            Some(losses) => losses.clone(),
            None => losses.finish(events.lost_by_cpu(), &events.lost_unplaced()),
        };
        self.finish(&losses)
    }

    /// Writes the rest and gives the file its name.
    ///
    /// # Errors
    /// If the file cannot be written or renamed.
    pub fn finish(self, losses: &Losses) -> Result<(), Error> {
        let windows = self.finder.finish();
        debug_assert_eq!(windows.events, self.events, "events lie beside the snapshots' windows");
        let mut footer = self.footer;
        footer.insert("events".to_owned(), windows.events.to_string());
        footer.insert("losses".to_owned(), losses.text());
        if self.not_understood > 0 {
            footer.insert(NOT_UNDERSTOOD.to_owned(), self.not_understood.to_string());
        }
        footer.insert("first_t_us".to_owned(), self.first_t_us.unwrap_or(0).to_string());
        footer.insert("last_t_us".to_owned(), self.last_t_us.to_string());
        footer.insert("window.start".to_owned(), window_text(&windows.start));
        if let Some(end) = &windows.end {
            footer.insert("window.end".to_owned(), window_text(end));
        }
        self.writer.finish(&footer)
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
    /// If it is not a columnar file of this version.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let reader = TableReader::open(path, &names())?;
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
        match reader.head().get(SCHEMA_KEY) {
            Some(version) if version == SCHEMA => {}
            Some(version) => {
                let why = format!("its schema has version {version}, and this program reads 1");
                return Err(Error::columnar(path, why));
            }
            None => return Err(Error::columnar(path, format!("it has no {SCHEMA_KEY}"))),
        }
        let events = number("events")?;
        let windows = Windows {
            start: window(get("window.start")?)?,
            end: metadata.get("window.end").map(window).transpose()?,
            events,
        };
        let text = get("losses")?;
        let losses = Losses::parse(text)
            .ok_or_else(|| Error::columnar(path, format!("its losses are {text}")))?;
        let has = |key: &str| metadata.contains_key(key);
        let not_understood = if has(NOT_UNDERSTOOD) { number(NOT_UNDERSTOOD)? } else { 0 };
        Ok(Self {
            cache: path.to_owned(),
            path: path.to_owned(),
            events,
            windows,
            losses,
            not_understood,
            first_t_us: number("first_t_us")?,
            last_t_us: number("last_t_us")?,
        })
    }

    /// Returns the number of the first event at or after a position; `default` without one.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn event_at(&self, position: Option<Position>, default: u64) -> Result<u64, Error> {
        let time = match position {
            None => return Ok(default),
            Some(Position::Event(event)) => return Ok(event),
            Some(Position::Time(time)) => {
                i64::try_from(self.first_t_us.saturating_add(time)).unwrap_or(i64::MAX)
            }
        };
        let mut reader = TableReader::open_verified(&self.path, &["t_us"])?;
        let mut passed = 0;
        while let Some(batch) = reader.next_batch()? {
            if let Some(at) = batch.i64(0)?.iter().position(|&t| t >= time) {
                return Ok(passed + at as u64);
            }
            passed += batch.len() as u64;
        }
        Ok(passed)
    }

    /// Streams the events from one on.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn records_from(&self, event: u64) -> Result<Records, Error> {
        let mut chunks = self.chunks()?;
        chunks.skip(event)?;
        Ok(Records { chunks, ready: Vec::new().into_iter(), done: false })
    }

    /// Returns the names of processes that stood among the events of a capture.
    ///
    /// # Errors
    /// If the file is damaged.
    pub fn comms(&self) -> Result<BTreeMap<u32, String>, Error> {
        let texts = TableReader::open_verified(&self.path, &[])?.metadata().clone();
        comms(&Files::Attached(Attachments::read(&self.path, &texts)?))
    }

    /// Returns the end (exclusive) of the events that can be replayed: those before the end snapshot and before
    /// the first loss.
    #[must_use]
    pub fn end_event(&self) -> u64 {
        self.windows.end_event().min(self.losses.first_event.unwrap_or(u64::MAX))
    }

    /// Streams the columns, batch by batch.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn batches(&self) -> Result<TableReader, Error> {
        TableReader::open_verified(&self.path, &names())
    }

    /// Returns the names of the columns.
    #[must_use]
    pub fn column_names() -> Vec<&'static str> {
        names().to_vec()
    }

    /// Streams some of the columns, batch by batch; they are named in the order of [`Columnar::column_names`].
    ///
    /// # Errors
    /// If the file cannot be opened, or there is no such column.
    pub fn batches_of(&self, columns: &[&str]) -> Result<TableReader, Error> {
        TableReader::open_verified(&self.path, columns)
    }

    /// Streams the events in chunks: faster than [`Columnar::records`].
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn chunks(&self) -> Result<Chunks, Error> {
        Ok(Chunks {
            path: self.path.clone(),
            reader: self.batches()?,
            decoding: BatchDecoder::default(),
            left: self.events,
        })
    }

    /// Streams the events. After an error the stream ends.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn records(&self) -> Result<Records, Error> {
        Ok(Records { chunks: self.chunks()?, ready: Vec::new().into_iter(), done: false })
    }
}

/// The number of rows that are decoded at a time.
const CHUNK_ROWS: usize = 1024;

/// Decodes a batch chunk by chunk.
#[derive(Default)]
pub(crate) struct BatchDecoder {
    batch: Option<Batch>,
    codes: Codes,
    gfp: GfpTexts,
    row: usize,
    chunk: Vec<Record>,
}

impl BatchDecoder {
    /// Sets the batch to decode.
    pub(crate) fn load(&mut self, batch: Batch) -> Result<(), Error> {
        self.codes = Codes::of(&batch)?;
        self.batch = Some(batch);
        self.row = 0;
        Ok(())
    }

    /// Decodes the next events; `false` after the last of the batch.
    pub(crate) fn fill(&mut self) -> Result<bool, Error> {
        let Some(batch) = &self.batch else { return Ok(false) };
        if self.row >= batch.len() {
            return Ok(false);
        }
        let rows = self.row..(self.row + CHUNK_ROWS).min(batch.len());
        let events = rows.len();
        self.row = rows.end;
        self.chunk.clear();
        decode(batch, rows, &self.codes, &mut self.gfp, &mut self.chunk)?;
        debug_assert_eq!(self.chunk.len(), events, "each row is an event");
        Ok(true)
    }

    /// Returns the events that were decoded last.
    pub(crate) fn chunk(&self) -> &[Record] {
        &self.chunk
    }
}

/// Streams the events of a columnar file in chunks.
pub struct Chunks {
    path: PathBuf,
    reader: TableReader,
    decoding: BatchDecoder,
    left: u64,
}

impl Chunks {
    /// Returns the next events, at least one; `None` at the end of the file.
    ///
    /// # Errors
    /// If the file is damaged.
    pub fn next_chunk(&mut self) -> Result<Option<&[Record]>, Error> {
        Ok(self.fill()?.then_some(self.decoding.chunk()))
    }

    /// Returns the number of events that have not been read.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Passes over the first events.
    fn skip(&mut self, events: u64) -> Result<(), Error> {
        let mut rest = events.min(self.left);
        self.left -= rest;
        while rest > 0 {
            let Some(batch) = self.reader.next_batch()? else { return Ok(()) };
            let rows = batch.len() as u64;
            if rest < rows {
                self.decoding.load(batch)?;
                self.decoding.row = rest as usize;
            }
            rest = rest.saturating_sub(rows);
        }
        Ok(())
    }

    fn fill(&mut self) -> Result<bool, Error> {
        loop {
            if self.decoding.fill()? {
                self.left = self.left.saturating_sub(self.decoding.chunk.len() as u64);
                return Ok(true);
            }
            let Some(batch) = self.reader.next_batch()? else {
                if self.left > 0 {
                    let why = format!("it lacks {} events at its end", self.left);
                    return Err(Error::columnar(&self.path, why));
                }
                return Ok(false);
            };
            self.decoding.load(batch)?;
        }
    }
}

/// Streams the events of a columnar file.
pub struct Records {
    chunks: Chunks,
    ready: std::vec::IntoIter<Record>,
    done: bool,
}

impl Records {
    /// Returns the number of events that have not been read.
    pub(crate) fn left(&self) -> u64 {
        self.chunks.left() + self.ready.len() as u64
    }
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
                self.ready = std::mem::replace(&mut self.chunks.decoding.chunk, chunk).into_iter();
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
