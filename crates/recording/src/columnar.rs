//! A recording's events as columns: converted once, kept in a cache, read many times faster.
//!
//! One row per event. Columns: `t` (microseconds: [`Layout`]), `cpu`, `pid`, `op` ([`op`]), `pfn`, `order`,
//! `mt` (this library's own numbers, [`pageblock::mobility::Migratetype`] as a number), `arg` and `text`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::error::Error;
use crate::losses::{LossFinder, Losses};
use crate::record::Record;
use crate::recording::Recording;
use crate::rows::{EventWriter, NAMES, decode};
pub use crate::rows::{Layout, column, op};
use crate::table::{Batch, TableReader};
use crate::window::{Window, WindowFinder, Windows};

/// The version of the columns' meaning; a file of another version is converted again.
const FORMAT_VERSION: &str = "2";

/// A recording's events as columns in a file.
#[derive(Clone, Debug)]
pub struct Columnar {
    /// The file.
    pub path: PathBuf,
    /// The number of events.
    pub events: u64,
    /// The widths of some columns.
    pub layout: Layout,
    /// The positions of the snapshots.
    pub windows: Windows,
    /// The events that the recorder lost, if the events file says.
    pub losses: Losses,
    /// The time of the first event in microseconds.
    pub first_t_us: u64,
}

impl Recording {
    /// Returns the recording's columnar form: the file in the cache folder if it exists and matches the current
    /// events file, else a newly converted one. `progress` is called now and then with the bytes of the events
    /// file read so far and its size.
    ///
    /// # Errors
    /// If the events cannot be read or the file cannot be written.
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

    /// Returns a hash that distinguishes recordings of the same name.
    fn path_hash(&self) -> u64 {
        let path = self.dir.canonicalize().unwrap_or_else(|_| self.dir.clone());
        let bytes = path.as_os_str().as_encoded_bytes();
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// Returns the properties of the file's source: if any of them changes, the file is stale.
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

    /// Converts the events. Returns `false`, and writes nothing, if they do not fit the layout.
    fn convert(
        &self,
        path: &Path,
        layout: Layout,
        source: &BTreeMap<String, String>,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<bool, Error> {
        let mut writer = EventWriter::create(path, layout)?;
        let mut finder = WindowFinder::new(self);
        let mut losses = LossFinder::default();
        let mut events = self.events()?;
        let mut first_t_us = None;
        while let Some(record) = events.next() {
            let record = record?;
            first_t_us.get_or_insert(record.t_us);
            finder.push(&record);
            losses.push(&record, events.lost(), || events.lost_by_cpu());
            if !writer.push(&record)? {
                return Ok(false);
            }
            if writer.is_flushed() {
                progress(events.file_bytes_read(), events.file_bytes());
            }
        }
        progress(events.file_bytes_read(), events.file_bytes());
        let windows = finder.finish();
        let mut metadata = source.clone();
        metadata.insert("layout".to_owned(), format!("{layout:?}"));
        metadata.insert("events".to_owned(), windows.events.to_string());
        let losses = losses.finish(events.lost_by_cpu(), &events.lost_unplaced());
        metadata.insert("losses".to_owned(), losses.text());
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
    /// If it is not a columnar file of this version.
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
        let text = get("losses")?;
        let losses = Losses::parse(text)
            .ok_or_else(|| Error::columnar(path, format!("its losses are {text}")))?;
        let first_t_us = number("first_t_us")?;
        Ok(Self { path: path.to_owned(), events, layout, windows, losses, first_t_us })
    }

    /// Returns the end (exclusive) of the events that can be replayed: those before the end snapshot and before
    /// the first loss.
    #[must_use]
    pub fn end_event(&self) -> u64 {
        self.windows.end_event().min(self.losses.first_event.unwrap_or(u64::MAX))
    }

    fn is_of(&self, source: &BTreeMap<String, String>) -> Result<bool, Error> {
        let reader = self.batches()?;
        Ok(source.iter().all(|(key, value)| reader.metadata().get(key) == Some(value)))
    }

    /// Streams the columns, batch by batch.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn batches(&self) -> Result<TableReader, Error> {
        TableReader::open_verified(&self.path, &NAMES)
    }

    /// Streams the events in chunks: faster than [`Columnar::records`].
    ///
    /// # Errors
    /// If the file cannot be opened.
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
    /// If the file cannot be opened.
    pub fn records(&self) -> Result<Records, Error> {
        Ok(Records { chunks: self.chunks()?, ready: Vec::new().into_iter(), done: false })
    }
}

/// The number of rows that are decoded at a time.
const CHUNK_ROWS: usize = 1024;

/// Streams the events of a columnar file in chunks.
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
    /// Returns the next events, at least one; `None` at the end of the file.
    ///
    /// # Errors
    /// If the file is damaged.
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
