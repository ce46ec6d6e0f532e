//! The headers of a `trace.dat` of version 6 or 7: event formats, options, and the position of each CPU's data.
//! See the manual pages trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5).

use std::collections::BTreeMap;

use super::format::{Format, parse_fields};
use super::ring::PageLayout;
use crate::input::error::Error;
use crate::input::source::Endian;
use crate::input::source::{Codec, Source, Walk};

/// The contents of the headers.
pub(crate) struct Header {
    pub(crate) layout: PageLayout,
    pub(crate) codec: Codec,
    pub(crate) formats: Vec<Format>,
    pub(crate) cpus: Vec<CpuPart>,
    pub(crate) uname: Option<String>,
    pub(crate) comms: BTreeMap<u32, String>,
    pub(crate) clock: Clock,
    /// The ring buffer's counters by CPU.
    pub(crate) counted: BTreeMap<u32, Counted>,
    /// The position and size of the kernel's symbols, where they are stored plainly.
    pub(crate) symbols: Option<(u64, u64)>,
    /// Whether the following counters are those of another buffer.
    other_buffer: bool,
}

/// The ring buffer's own counters of lost events on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Counted {
    /// Events overwritten by newer ones.
    pub(crate) overwritten: u64,
    /// Events not written because the buffer was full or too many others were in progress.
    pub(crate) dropped: u64,
}

impl Counted {
    /// Parses a text of lines `name: number`; the first line names the CPU.
    fn parse(text: &str) -> Option<(u32, Self)> {
        let number = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
        };
        let dropped = number("dropped events:").unwrap_or(0);
        let dropped = dropped.saturating_add(number("commit overrun:").unwrap_or(0));
        let cpu = u32::try_from(number("CPU:")?).ok()?;
        Some((cpu, Self { overwritten: number("overrun:").unwrap_or(0), dropped }))
    }
}

/// The position of a CPU's data in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CpuPart {
    pub(crate) cpu: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) packed: bool,
}

/// The conversion of time stamps to nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Clock {
    /// Multiplier, shift and offset of a clock that counts cycles.
    cycles: Option<(u64, u32, u64)>,
}

impl Clock {
    #[inline]
    pub(crate) fn nanos(self, stamp: u64) -> u64 {
        match self.cycles {
            None => stamp,
            Some((mult, shift, offset)) => {
                let nanos = (u128::from(stamp) * u128::from(mult)) >> shift;
                (nanos as u64).wrapping_add(offset)
            }
        }
    }
}

const OPTION_DONE: u16 = 0;
const OPTION_CPUSTAT: u16 = 2;
const OPTION_BUFFER: u16 = 3;
const OPTION_UNAME: u16 = 5;
const OPTION_CPUCOUNT: u16 = 8;
const OPTION_TSC2NSEC: u16 = 14;
const OPTION_HEADER_INFO: u16 = 16;
const OPTION_FTRACE_EVENTS: u16 = 17;
const OPTION_EVENT_FORMATS: u16 = 18;
const OPTION_CMDLINES: u16 = 21;
const SECTION_COMPRESSED: u16 = 1;
/// The first bytes of a file.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";
/// The maximum number of CPUs, above that of any kernel.
const CPUS_LIMIT: u32 = 1 << 16;
/// The maximum number of option sections, above that of any trace; it ends a circular chain.
const SECTIONS_LIMIT: usize = 1000;

/// Reads the headers.
pub(crate) fn read(source: &mut Source) -> Result<Header, Error> {
    let mut walk = Walk::file(source, Endian::Little, 0);
    let at = walk.place();
    let (version, mut header) = start(&mut walk)?;
    match version.as_str() {
        "6" => header.read_v6(&mut walk)?,
        "7" => header.read_v7(&mut walk)?,
        _ => return Err(Error::malformed(at, version.as_bytes(), "version 6 or 7")),
    }
    let layout = header.layout;
    let usable = layout.data < layout.page_bytes
        && layout.commit.0 + layout.commit.1 <= layout.data
        && matches!(layout.commit.1, 4 | 8);
    if !usable || layout.page_bytes > 1 << 24 {
        return Err(Error::unexpected(
            source.place(0),
            format!("ring-buffer pages of {} bytes", layout.page_bytes),
            "pages larger than their header, up to 16 MiB",
        ));
    }
    Ok(header)
}

/// Reads what `perf` puts in its files at this position: the headers of a trace up to the command names.
pub(crate) fn read_formats(source: &mut Source, at: u64) -> Result<Header, Error> {
    let mut walk = Walk::file(source, Endian::Little, at);
    let place = walk.place();
    let (version, mut header) = start(&mut walk)?;
    header.event_headers(&mut walk)?;
    match version.as_str() {
        "0.5" => {}
        "0.6" => header.cmdlines(&mut walk)?,
        _ => return Err(Error::malformed(place, version.as_bytes(), "version 0.5 or 0.6")),
    }
    Ok(header)
}

/// Reads the fields that all versions begin with; returns the version.
fn start(walk: &mut Walk<'_>) -> Result<(String, Header), Error> {
    walk.mark(MAGIC)?;
    let version = walk.text("a version")?;
    let endian_and_long = walk.bytes(2, "byte order and word size")?;
    walk.endian = if endian_and_long[0] == 0 { Endian::Little } else { Endian::Big };
    let page_bytes = walk.u32("a page size")? as usize;
    let layout = PageLayout { endian: walk.endian, page_bytes, commit: (8, 8), data: 16 };
    let header = Header {
        layout,
        codec: Codec::None,
        formats: Vec::new(),
        cpus: Vec::new(),
        uname: None,
        comms: BTreeMap::new(),
        clock: Clock::default(),
        counted: BTreeMap::new(),
        symbols: None,
        other_buffer: false,
    };
    Ok((version, header))
}

impl Header {
    fn event_headers(&mut self, walk: &mut Walk<'_>) -> Result<(), Error> {
        self.header_info(walk)?;
        self.ftrace_events(walk)?;
        self.event_formats(walk)?;
        let bytes = walk.u32("the size of the symbols")?;
        self.symbols = (bytes > 0).then_some((walk.at, bytes.into()));
        walk.at += u64::from(bytes);
        let bytes = walk.u32("the size of the printk formats")?;
        walk.at += u64::from(bytes);
        Ok(())
    }

    fn read_v6(&mut self, walk: &mut Walk<'_>) -> Result<(), Error> {
        self.event_headers(walk)?;
        self.cmdlines(walk)?;
        let mut cpus = walk.u32("a number of CPUs")?;
        let at = walk.place();
        let mut mark = walk.bytes(10, "the mark of options or data")?;
        if mark == b"options  \0" {
            loop {
                let id = walk.u16("an option")?;
                if id == OPTION_DONE {
                    break;
                }
                let bytes = walk.u32("an option's size")?;
                let data = walk.bytes(bytes.into(), "an option")?;
                if id == OPTION_CPUCOUNT && data.len() <= 8 {
                    cpus = walk.endian.number(&data) as u32;
                }
                self.option(id, &data, walk.endian);
            }
            mark = walk.bytes(10, "the mark of the data")?;
        }
        if mark != b"flyrecord\0" {
            return Err(Error::malformed(at, &mark, "\"flyrecord\\x00\": binary trace data"));
        }
        if cpus > CPUS_LIMIT {
            return Err(Error::unexpected(at, format!("{cpus} CPUs"), "at most 65536 CPUs"));
        }
        for cpu in 0..cpus {
            let offset = walk.u64("the offset of a CPU's data")?;
            let bytes = walk.u64("the size of a CPU's data")?;
            self.cpus.push(CpuPart { cpu, offset, bytes, packed: false });
        }
        Ok(())
    }

    fn read_v7(&mut self, walk: &mut Walk<'_>) -> Result<(), Error> {
        let at = walk.place();
        let name = walk.text("the name of a compression")?;
        walk.text("the version of a compression")?;
        self.codec = match name.as_str() {
            "none" => Codec::None,
            "zstd" => Codec::Zstd,
            _ => return Err(Error::malformed(at, name.as_bytes(), "the compression none or zstd")),
        };
        let mut next = walk.u64("the offset of the options")?;
        let mut sections = BTreeMap::new();
        let mut buffer = None;
        for _ in 0..SECTIONS_LIMIT {
            if next == 0 {
                break;
            }
            let mut options = self.section(walk, next, OPTION_DONE)?;
            loop {
                let id = options.u16("an option")?;
                let bytes = options.u32("an option's size")?;
                let data = options.bytes(bytes.into(), "an option")?;
                let number = || self.layout.endian.number(&data[..data.len().min(8)]);
                match id {
                    OPTION_DONE => {
                        next = number();
                        break;
                    }
                    OPTION_HEADER_INFO..=OPTION_CMDLINES => {
                        sections.insert(id, number());
                    }
                    // The first, unnamed buffer is the top instance; others are ignored.
                    OPTION_BUFFER if data.get(8) == Some(&0) => buffer = Some(data),
                    _ => self.option(id, &data, self.layout.endian),
                }
            }
        }
        for (&id, &at) in &sections {
            match id {
                OPTION_HEADER_INFO => self.section(walk, at, id)?.pipe(|w| self.header_info(w))?,
                OPTION_FTRACE_EVENTS => {
                    self.section(walk, at, id)?.pipe(|w| self.ftrace_events(w))?;
                }
                OPTION_EVENT_FORMATS => {
                    self.section(walk, at, id)?.pipe(|w| self.event_formats(w))?;
                }
                OPTION_CMDLINES => self.section(walk, at, id)?.pipe(|w| self.cmdlines(w))?,
                _ => {}
            }
        }
        let Some(buffer) = buffer else {
            let expected = "an option with the position of the data";
            return Err(Error::unexpected(walk.place(), "no trace data", expected));
        };
        let endian = walk.endian;
        let mut option = Walk::section(walk.source, endian, 0, buffer);
        let at = option.u64("the offset of the data")?;
        option.text("the name of the instance")?;
        option.text("the name of the clock")?;
        option.u32("a page size")?;
        let cpus = option.u32("a number of CPUs")?;
        for _ in 0..cpus.min(CPUS_LIMIT) {
            let cpu = option.u32("a CPU")?;
            let offset = option.u64("the offset of a CPU's data")?;
            let bytes = option.u64("the size of a CPU's data")?;
            self.cpus.push(CpuPart { cpu, offset, bytes, packed: false });
        }
        let (_, flags, _) = section_header(walk, at, OPTION_BUFFER)?;
        for cpu in &mut self.cpus {
            cpu.packed = flags & SECTION_COMPRESSED != 0;
        }
        Ok(())
    }

    /// Opens a section of version 7 and decompresses it.
    fn section<'a>(&self, walk: &'a mut Walk<'_>, at: u64, id: u16) -> Result<Walk<'a>, Error> {
        let (at, flags, bytes) = section_header(walk, at, id)?;
        let endian = walk.endian;
        let data = if flags & SECTION_COMPRESSED == 0 {
            walk.source.read_vec(at, bytes.min(walk.source.bytes - at), "a section")?
        } else {
            let mut header = Walk::file(walk.source, endian, at);
            let packed_bytes = header.u32("the size of a compressed section")?;
            let bytes = header.u32("the size of a section")?;
            let packed = header.bytes(packed_bytes.into(), "a compressed section")?;
            self.codec.unpack(walk.source, at + 8, &packed, bytes as usize)?
        };
        Ok(Walk::section(walk.source, endian, at, data))
    }

    fn option(&mut self, id: u16, data: &[u8], endian: Endian) {
        match id {
            OPTION_UNAME => {
                let text = data.split(|&b| b == 0).next().unwrap_or_default();
                self.uname = Some(String::from_utf8_lossy(text).into_owned());
            }
            OPTION_CPUSTAT => {
                let text = String::from_utf8_lossy(data);
                let text = text.trim_matches(['\0', '\n']);
                self.other_buffer |= text.starts_with("Buffer:");
                if let Some((cpu, counted)) = Counted::parse(text).filter(|_| !self.other_buffer) {
                    self.counted.insert(cpu, counted);
                }
            }
            OPTION_TSC2NSEC if data.len() >= 16 => {
                let mult = endian.number(&data[..4]);
                let shift = endian.number(&data[4..8]).min(127) as u32;
                if mult != 0 {
                    self.clock.cycles = Some((mult, shift, endian.number(&data[8..16])));
                }
            }
            _ => {}
        }
    }

    fn header_info(&mut self, walk: &mut Walk<'_>) -> Result<(), Error> {
        walk.mark(b"header_page\0")?;
        let bytes = walk.u64("the size of header_page")?;
        let at = walk.place();
        let text = walk.bytes(bytes, "header_page")?;
        let fields = parse_fields(&String::from_utf8_lossy(&text));
        let fields = fields.map_err(|expected| Error::malformed(at, &text, expected))?;
        for field in fields {
            match field.name.as_str() {
                "commit" => self.layout.commit = (field.offset, field.size),
                "data" => {
                    self.layout.data = field.offset;
                    self.layout.page_bytes = field.offset + field.size;
                }
                _ => {}
            }
        }
        walk.mark(b"header_event\0")?;
        let bytes = walk.u64("the size of header_event")?;
        walk.bytes(bytes, "header_event").map(drop)
    }

    fn ftrace_events(&mut self, walk: &mut Walk<'_>) -> Result<(), Error> {
        let count = walk.u32("a number of event formats")?;
        (0..count).try_for_each(|_| self.format(walk, "ftrace"))
    }

    fn event_formats(&mut self, walk: &mut Walk<'_>) -> Result<(), Error> {
        for _ in 0..walk.u32("a number of event systems")? {
            let system = walk.text("the name of an event system")?;
            let count = walk.u32("a number of event formats")?;
            (0..count).try_for_each(|_| self.format(walk, &system))?;
        }
        Ok(())
    }

    fn format(&mut self, walk: &mut Walk<'_>, system: &str) -> Result<(), Error> {
        let bytes = walk.u64("the size of an event format")?;
        let at = walk.place();
        let text = walk.bytes(bytes, "an event format")?;
        let format = Format::parse(system, &String::from_utf8_lossy(&text));
        self.formats.push(format.map_err(|expected| Error::malformed(at, &text, expected))?);
        Ok(())
    }

    fn cmdlines(&mut self, walk: &mut Walk<'_>) -> Result<(), Error> {
        let bytes = walk.u64("the size of the command names")?;
        let text = walk.bytes(bytes, "the command names")?;
        let text = String::from_utf8_lossy(&text);
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let names = lines.filter_map(|(pid, name)| Some((pid.parse().ok()?, name.to_owned())));
        self.comms.extend(names);
        Ok(())
    }
}

impl<'a> Walk<'a> {
    fn pipe<T>(mut self, read: impl FnOnce(&mut Walk<'a>) -> T) -> T {
        read(&mut self)
    }
}

/// Returns the position after a section's header, its flags and its size.
fn section_header(walk: &mut Walk<'_>, at: u64, id: u16) -> Result<(u64, u16, u64), Error> {
    let mut header = Walk::file(walk.source, walk.endian, at);
    let place = header.place();
    let found = header.u16("a section's id")?;
    if found != id {
        return Err(Error::unexpected(place, format!("section {found}"), format!("section {id}")));
    }
    let flags = header.u16("a section's flags")?;
    header.u32("a section's description")?;
    let bytes = header.u64("a section's size")?;
    Ok((header.at, flags, bytes))
}
