//! The recorded pages as a `trace.dat` (version 6), the format of trace-cmd(5), which other tools read too: read where they
//! are, or written as a file.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pageblock_files::{Access, NewFile};
use serde::{Deserialize, Serialize};

use crate::drain::file_of;
use crate::error::Error;
use crate::open_files;
use crate::stop::{Stop, Stoppable};

const OPTION_DONE: u16 = 0;
const OPTION_CPUSTAT: u16 = 2;
const OPTION_UNAME: u16 = 5;

/// What the pages of a trace need beside them; written before the first event.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Meta {
    /// `header_page` of tracefs.
    pub(crate) header_page: String,
    /// `header_event` of tracefs.
    pub(crate) header_event: String,
    /// The format of each tracepoint, by `group/event`.
    pub(crate) formats: Vec<(String, String)>,
    /// The size of a ring buffer's page in bytes.
    pub(crate) page_bytes: usize,
    /// The CPUs.
    pub(crate) cpus: Vec<u32>,
    /// Kernel, host and machine, as trace-cmd writes them.
    pub(crate) uname: String,
    /// The recorder's process.
    pub(crate) recorder: u32,
    /// What moves pages without an event or a probe.
    #[serde(default)]
    pub(crate) inferred: Vec<String>,
    /// The kernel's functions by address, where stacks are recorded.
    #[serde(default)]
    pub(crate) symbols: String,
}

/// What is known at the end.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct End {
    /// The statistics of each CPU's buffer.
    pub(crate) stats: Vec<(u32, String)>,
    /// Task names as tracefs saves them.
    pub(crate) names: String,
}

/// The whole pages in some folders as a trace. Nothing is copied: the pages are read from the files in which they were recorded.
pub(crate) struct Trace {
    parts: Vec<Part>,
    /// Where the trace is read next.
    at: u64,
    /// Set, it makes every further read fail.
    pub(crate) stopped: Arc<AtomicBool>,
}

/// A part of a trace from a byte to another.
struct Part {
    start: u64,
    end: u64,
    content: Content,
}

enum Content {
    Head(Vec<u8>),
    Pages(File),
}

impl Trace {
    /// Opens the pages in `folders`, one after the other; a last page that is not whole is left out.
    pub(crate) fn open(meta: &Meta, end: &End, folders: &[PathBuf]) -> Result<Self, Error> {
        let mut head = header(meta, end);
        // The CPUs of a machine need not be numbered without gaps; those that are missing have no pages.
        let cpus = meta.cpus.iter().max().map_or(0, |cpu| cpu + 1);
        let page = meta.page_bytes.max(1) as u64;
        let size = (head.len() as u64 + 16 * u64::from(cpus)).next_multiple_of(page);
        let (mut parts, mut at) = (Vec::new(), size);
        open_files::allow((4 + folders.len()) * meta.cpus.len());
        for cpu in 0..cpus {
            let begin = at;
            for folder in folders.iter().filter(|_| meta.cpus.contains(&cpu)) {
                let path = file_of(folder, cpu);
                // A recorder may be killed before every CPU has its file.
                let Ok(file) = File::open(&path) else { continue };
                let stored = file.metadata().map_err(Error::io(&path))?.len();
                let start = at;
                at += stored / page * page;
                parts.push(Part { start, end: at, content: Content::Pages(file) });
            }
            head.extend(begin.to_ne_bytes());
            head.extend((at - begin).to_ne_bytes());
        }
        head.resize(usize::try_from(size).unwrap_or(head.len()), 0);
        parts.insert(0, Part { start: 0, end: size, content: Content::Head(head) });
        Ok(Self { parts, at: 0, stopped: Arc::default() })
    }

    /// Writes the trace as a file; leaves none where it cannot.
    pub(crate) fn write(self, to: &Path, stop: Stop<'_>) -> Result<(), Error> {
        let (file, new) = NewFile::create(to, Access::Private).map_err(Error::io(to))?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        io::copy(&mut Stoppable::new(self, stop), &mut out)
            .and_then(|_| out.into_inner().map_err(io::IntoInnerError::into_error))
            .and_then(|file| new.finish(&file))
            .map_err(Error::io(to))
    }
}

impl Read for Trace {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stopped.load(Relaxed) {
            return Err(io::Error::other("stopped"));
        }
        let part = self.parts.partition_point(|part| part.end <= self.at);
        let Some(part) = self.parts.get(part) else { return Ok(0) };
        let left = usize::try_from(part.end - self.at).unwrap_or(usize::MAX);
        let (inside, room) = (self.at - part.start, buffer.len().min(left));
        let read = match &part.content {
            Content::Head(bytes) => (&bytes[inside as usize..]).read(&mut buffer[..room])?,
            Content::Pages(file) => file.read_at(&mut buffer[..room], inside)?,
        };
        self.at += read as u64;
        Ok(read)
    }
}

impl Seek for Trace {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let end = self.parts.last().map_or(0, |part| part.end);
        let to = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => end.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = to.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// Returns the head of a trace up to the positions of the CPUs' pages.
fn header(meta: &Meta, end: &End) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(b"\x17\x08\x44tracing6\0");
    out.extend([u8::from(cfg!(target_endian = "big")), 8]);
    out.extend(u32::try_from(meta.page_bytes).unwrap_or(4096).to_ne_bytes());
    sized(&mut out, b"header_page\0", &meta.header_page);
    sized(&mut out, b"header_event\0", &meta.header_event);
    formats(meta, &mut out);
    out.extend(u32::try_from(meta.symbols.len()).unwrap_or(0).to_ne_bytes());
    out.extend(meta.symbols.as_bytes());
    let printk_formats = 0_u32;
    out.extend(printk_formats.to_ne_bytes());
    sized(&mut out, b"", &end.names);
    out.extend(meta.cpus.iter().max().map_or(0, |cpu| cpu + 1).to_ne_bytes());
    out.extend(b"options  \0");
    option(&mut out, OPTION_UNAME, meta.uname.as_bytes());
    for (cpu, stats) in &end.stats {
        option(&mut out, OPTION_CPUSTAT, format!("CPU: {cpu}\n{stats}\0").as_bytes());
    }
    out.extend(OPTION_DONE.to_ne_bytes());
    out.extend(b"flyrecord\0");
    out
}

fn sized(out: &mut Vec<u8>, mark: &[u8], text: &str) {
    out.extend(mark);
    out.extend((text.len() as u64).to_ne_bytes());
    out.extend(text.as_bytes());
}

fn formats(meta: &Meta, out: &mut Vec<u8>) {
    let of = |group: &str| {
        let group = format!("{group}/");
        meta.formats.iter().filter(move |(name, _)| name.starts_with(&group)).collect::<Vec<_>>()
    };
    let list = |out: &mut Vec<u8>, formats: Vec<&(String, String)>| {
        out.extend(u32::try_from(formats.len()).unwrap_or(0).to_ne_bytes());
        formats.into_iter().for_each(|(_, text)| sized(out, b"", text));
    };
    list(out, of("ftrace"));
    let mut groups: Vec<&str> =
        meta.formats.iter().filter_map(|(name, _)| name.split('/').next()).collect();
    groups.dedup();
    groups.retain(|group| *group != "ftrace");
    out.extend(u32::try_from(groups.len()).unwrap_or(0).to_ne_bytes());
    for group in groups {
        out.extend(group.as_bytes());
        out.push(0);
        list(out, of(group));
    }
}

fn option(out: &mut Vec<u8>, id: u16, data: &[u8]) {
    out.extend(id.to_ne_bytes());
    out.extend(u32::try_from(data.len()).unwrap_or(0).to_ne_bytes());
    out.extend(data);
}
