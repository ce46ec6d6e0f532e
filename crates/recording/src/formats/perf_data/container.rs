//! The headers of a `perf.data`: in a file at its start and end, in a pipe as records of the stream.

use std::io::Cursor;

use byteorder::{BigEndian, LittleEndian};
use linux_perf_event_reader::{
    AttrFlags, Endianness, PerfEventAttr, RecordParseInfo, SampleFormat,
};

use crate::input::error::Error;
use crate::input::source::Endian;
use crate::input::source::{Source, Walk};

/// The header of a pipe has nothing but its size.
const PIPE_HEADER_BYTES: u64 = 16;
const FEATURE_TRACING_DATA: u32 = 1;
const FEATURE_OSRELEASE: u32 = 4;
const FEATURES: u32 = 256;
/// The maximum number of events and of ids of an event, above those of real files.
const LIMIT: u64 = 1 << 20;
/// The largest text in a header, above that of any.
const TEXT_BYTES: u64 = 64 << 10;

/// What the headers say.
pub(super) struct Container {
    pub(super) endian: Endian,
    /// Whether the stream has the headers too.
    pub(super) pipe: bool,
    /// The position of the records.
    pub(super) records: std::ops::Range<u64>,
    pub(super) attrs: Vec<Attr>,
    /// The position of the event formats.
    pub(super) formats: Option<u64>,
    /// The kernel's release.
    pub(super) release: Option<String>,
}

/// How the records of an event are read.
pub(super) struct Attr {
    pub(super) info: RecordParseInfo,
    pub(super) sample_id_all: bool,
    pub(super) ids: Vec<u64>,
}

impl Container {
    pub(super) fn read(source: &mut Source) -> Result<Self, Error> {
        let mut walk = Walk::file(source, Endian::Little, 0);
        let place = walk.place();
        let magic = walk.bytes(8, "the mark of a perf.data")?;
        walk.endian = match magic.as_slice() {
            b"PERFILE2" => Endian::Little,
            b"2ELIFREP" => Endian::Big,
            _ => return Err(Error::malformed(place, &magic, "\"PERFILE2\" or \"2ELIFREP\"")),
        };
        let endian = walk.endian;
        let size = walk.u64("the size of the header")?;
        let end = walk.source.bytes;
        let mut container = Self {
            endian,
            pipe: size == PIPE_HEADER_BYTES,
            records: PIPE_HEADER_BYTES..end,
            attrs: Vec::new(),
            formats: None,
            release: None,
        };
        if !container.pipe {
            container.file(&mut walk)?;
        }
        Ok(container)
    }

    /// Reads the rest of a file's header.
    fn file(&mut self, walk: &mut Walk<'_>) -> Result<(), Error> {
        let place = walk.place();
        let attr_bytes = walk.u64("the size of an event's description")?;
        if !(80..=4096).contains(&attr_bytes) {
            let found = format!("event descriptions of {attr_bytes} bytes");
            return Err(Error::unexpected(place, found, "80 to 4096 bytes"));
        }
        let attrs = section(walk, "the descriptions of events")?;
        let place = walk.place();
        let data = section(walk, "the records")?;
        section(walk, "the types of events")?;
        if data.is_empty() {
            let expected = "records; perf writes their size when it ends in order";
            return Err(Error::unexpected(place, "a data section of 0 bytes", expected));
        }
        let bits = walk.bytes(u64::from(FEATURES / 8), "the features")?;
        let has = |feature: u32| {
            // They are words of the machine's byte order.
            let word = &bits[(feature / 64 * 8) as usize..][..8];
            self.endian.number(word) >> (feature % 64) & 1 != 0
        };
        let features: Vec<u32> = (0..FEATURES).filter(|&feature| has(feature)).collect();
        let mut table = Walk::file(walk.source, self.endian, data.end);
        for feature in features {
            let at = section(&mut table, "a feature of the file")?;
            match feature {
                FEATURE_TRACING_DATA => self.formats = Some(at.start),
                FEATURE_OSRELEASE => {
                    let release = text(&mut Walk::file(table.source, self.endian, at.start))?;
                    self.release = Some(release);
                }
                _ => {}
            }
        }
        let each = usize::try_from(attr_bytes).unwrap_or(usize::MAX);
        for at in attrs.step_by(each).take(LIMIT as usize) {
            let description =
                walk.source.read_vec(at, attr_bytes, "the description of an event")?;
            let mut ids = Walk::file(walk.source, self.endian, at + attr_bytes - 16);
            let ids = section(&mut ids, "the ids of an event")?;
            let ids =
                walk.source.read_vec(ids.start, ids.end - ids.start, "the ids of an event")?;
            let place = walk.source.place(at);
            self.attr(&description, &ids).map_err(|e| Error::unexpected(place, e.0, e.1))?;
        }
        self.records = data;
        Ok(())
    }

    /// Adds an event; `Err` says what was found and what is allowed.
    fn attr(&mut self, description: &[u8], ids: &[u8]) -> Result<u64, (String, &'static str)> {
        let cursor = Cursor::new(description);
        let (parsed, endian) = match self.endian {
            Endian::Little => {
                (PerfEventAttr::parse::<_, LittleEndian>(cursor), Endianness::LittleEndian)
            }
            Endian::Big => (PerfEventAttr::parse::<_, BigEndian>(cursor), Endianness::BigEndian),
        };
        let (attr, bytes) = parsed.map_err(|error| {
            (format!("a description that cannot be read: {error}"), "a perf_event_attr")
        })?;
        let ids = ids.chunks_exact(8).map(|id| self.endian.number(id)).collect();
        let sample_id_all = attr.flags.contains(AttrFlags::SAMPLE_ID_ALL);
        let info = RecordParseInfo::new(&attr, endian);
        self.attrs.push(Attr { info, sample_id_all, ids });
        let identified = |attr: &Attr| attr.info.sample_format.contains(SampleFormat::IDENTIFIER);
        let same = |attr: &Attr| attr.info.sample_format == self.attrs[0].info.sample_format;
        if self.attrs.len() as u64 > LIMIT {
            return Err(("more events".to_owned(), "at most 1048576 events"));
        }
        if !self.attrs.iter().all(identified) && !self.attrs.iter().all(same) {
            let expected = "events recorded alike, or with identifiers, as perf record does";
            return Err(("events that cannot be distinguished".to_owned(), expected));
        }
        Ok(bytes)
    }

    /// Reads a record that describes an event.
    pub(super) fn attr_record(&mut self, body: &[u8]) -> Result<(), (String, &'static str)> {
        let size = body.get(4..8).map_or(0, |size| self.endian.number(size)) as usize;
        let ids = body.get(size..).unwrap_or_default();
        self.attr(body, ids).map(drop)
    }

    /// Reads a record with a feature of the file.
    pub(super) fn feature_record(&mut self, body: &[u8]) {
        let Some((feature, data)) = body.split_at_checked(8) else { return };
        if self.endian.number(feature) == u64::from(FEATURE_OSRELEASE) && data.len() >= 4 {
            let text = data[4..].split(|&byte| byte == 0).next().unwrap_or_default();
            self.release = Some(String::from_utf8_lossy(text).into_owned());
        }
    }

    /// Returns how a record of an event is read: its id tells the event.
    pub(super) fn attr_of(&self, body: &[u8], is_sample: bool) -> Option<&Attr> {
        let first = self.attrs.first()?;
        if self.attrs.len() == 1 || !first.info.sample_format.contains(SampleFormat::IDENTIFIER) {
            return Some(first);
        }
        let id = if is_sample { body.get(..8) } else { body.get(body.len().checked_sub(8)?..) };
        let id = self.endian.number(id?);
        // Few events: a table would not be faster.
        self.attrs.iter().find(|attr| attr.ids.contains(&id)).or(Some(first))
    }
}

/// Reads the position of a section, which must lie in the file.
fn section(walk: &mut Walk<'_>, what: &str) -> Result<std::ops::Range<u64>, Error> {
    let place = walk.place();
    let (offset, bytes) = (walk.u64(what)?, walk.u64(what)?);
    match offset.checked_add(bytes) {
        Some(end) if end <= walk.source.bytes => Ok(offset..end),
        _ => Err(Error::unexpected(
            place,
            format!("{what}: {bytes} bytes at byte {offset}"),
            format!("a part of this file of {} bytes", walk.source.bytes),
        )),
    }
}

fn text(walk: &mut Walk<'_>) -> Result<String, Error> {
    let bytes = u64::from(walk.u32("the size of a text")?).min(TEXT_BYTES);
    let text = walk.bytes(bytes, "a text")?;
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}
