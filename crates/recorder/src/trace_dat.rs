//! Writes the recorded pages as a `trace.dat` (version 6), the format of trace-cmd(5), which other tools read too.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::drain::file_of;
use crate::error::Error;
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

/// Writes the whole pages in `folders`, one after the other, as a trace; leaves no file where it cannot.
pub(crate) fn write(
    meta: &Meta,
    end: &End,
    folders: &[PathBuf],
    to: &Path,
    stop: Stop<'_>,
) -> Result<(), Error> {
    write_whole(meta, end, folders, to, stop).inspect_err(|_| {
        let _ = std::fs::remove_file(to);
    })
}

fn write_whole(
    meta: &Meta,
    end: &End,
    folders: &[PathBuf],
    to: &Path,
    stop: Stop<'_>,
) -> Result<(), Error> {
    let file = File::create_new(to).map_err(Error::io(to))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    compose(meta, end, folders, &mut out, stop).map_err(Error::io(to))?;
    let file = out.into_inner().map_err(|error| Error::io(to)(error.into_error()))?;
    file.sync_all().map_err(Error::io(to))
}

fn compose(
    meta: &Meta,
    end: &End,
    folders: &[PathBuf],
    out: &mut (impl Write + Seek),
    stop: Stop<'_>,
) -> std::io::Result<()> {
    out.write_all(b"\x17\x08\x44tracing6\0")?;
    out.write_all(&[u8::from(cfg!(target_endian = "big")), 8])?;
    out.write_all(&u32::try_from(meta.page_bytes).unwrap_or(4096).to_ne_bytes())?;
    sized(out, b"header_page\0", &meta.header_page)?;
    sized(out, b"header_event\0", &meta.header_event)?;
    formats(meta, out)?;
    out.write_all(&u32::try_from(meta.symbols.len()).unwrap_or(0).to_ne_bytes())?;
    out.write_all(meta.symbols.as_bytes())?;
    let printk_formats = 0_u32;
    out.write_all(&printk_formats.to_ne_bytes())?;
    out.write_all(&(end.names.len() as u64).to_ne_bytes())?;
    out.write_all(end.names.as_bytes())?;
    // The CPUs of a machine need not be numbered without gaps; those that are missing have no pages.
    let cpus = meta.cpus.iter().max().map_or(0, |cpu| cpu + 1);
    out.write_all(&cpus.to_ne_bytes())?;
    out.write_all(b"options  \0")?;
    option(out, OPTION_UNAME, meta.uname.as_bytes())?;
    for (cpu, stats) in &end.stats {
        option(out, OPTION_CPUSTAT, format!("CPU: {cpu}\n{stats}\0").as_bytes())?;
    }
    out.write_all(&OPTION_DONE.to_ne_bytes())?;
    out.write_all(b"flyrecord\0")?;
    pages(meta, cpus, folders, out, stop)
}

fn sized(out: &mut impl Write, mark: &[u8], text: &str) -> std::io::Result<()> {
    out.write_all(mark)?;
    out.write_all(&(text.len() as u64).to_ne_bytes())?;
    out.write_all(text.as_bytes())
}

fn formats(meta: &Meta, out: &mut impl Write) -> std::io::Result<()> {
    let of = |group: &str| {
        let group = format!("{group}/");
        meta.formats.iter().filter(move |(name, _)| name.starts_with(&group)).collect::<Vec<_>>()
    };
    let list = |out: &mut dyn Write, formats: Vec<&(String, String)>| {
        out.write_all(&u32::try_from(formats.len()).unwrap_or(0).to_ne_bytes())?;
        formats.into_iter().try_for_each(|(_, text)| {
            out.write_all(&(text.len() as u64).to_ne_bytes())?;
            out.write_all(text.as_bytes())
        })
    };
    list(out, of("ftrace"))?;
    let mut groups: Vec<&str> =
        meta.formats.iter().filter_map(|(name, _)| name.split('/').next()).collect();
    groups.dedup();
    groups.retain(|group| *group != "ftrace");
    out.write_all(&u32::try_from(groups.len()).unwrap_or(0).to_ne_bytes())?;
    for group in groups {
        out.write_all(group.as_bytes())?;
        out.write_all(b"\0")?;
        list(out, of(group))?;
    }
    Ok(())
}

fn option(out: &mut impl Write, id: u16, data: &[u8]) -> std::io::Result<()> {
    out.write_all(&id.to_ne_bytes())?;
    out.write_all(&u32::try_from(data.len()).unwrap_or(0).to_ne_bytes())?;
    out.write_all(data)
}

/// Writes each CPU's position and size, and then its pages; a last page that is not whole is left out.
fn pages(
    meta: &Meta,
    cpus: u32,
    folders: &[PathBuf],
    out: &mut (impl Write + Seek),
    stop: Stop<'_>,
) -> std::io::Result<()> {
    let page = meta.page_bytes as u64;
    let whole = |folder: &PathBuf, cpu| {
        let stored = file_of(folder, cpu).metadata().map_or(0, |file| file.len());
        stored / page * page
    };
    let bytes = |cpu| folders.iter().map(|folder| whole(folder, cpu)).sum::<u64>();
    let table = out.stream_position()?;
    let mut at = (table + 16 * u64::from(cpus)).next_multiple_of(page);
    for cpu in 0..cpus {
        let bytes = bytes(cpu);
        out.write_all(&at.to_ne_bytes())?;
        out.write_all(&bytes.to_ne_bytes())?;
        at += bytes;
    }
    out.seek(SeekFrom::Start((table + 16 * u64::from(cpus)).next_multiple_of(page)))?;
    for &cpu in &meta.cpus {
        for folder in folders {
            let bytes = whole(folder, cpu);
            if bytes > 0 {
                let stored = BufReader::with_capacity(1 << 20, File::open(file_of(folder, cpu))?);
                std::io::copy(&mut Stoppable::new(stored, stop).take(bytes), out)?;
            }
        }
    }
    Ok(())
}
