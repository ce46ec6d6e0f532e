//! Writes a small recording that is the start of a large one.

use std::fmt::Write as _;
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::error::Error;
use crate::input::Input;
use crate::record::{Record, What};
use crate::recording::Recording;
use crate::tsv::Decoding;

/// The files beside the start snapshot that an excerpt contains.
const STATE_FILES: [&str; 6] =
    ["snapshot.txt", "buddyinfo", "pagetypeinfo", "zoneinfo", "vmstat", "meminfo"];
/// The files beside the events that an excerpt contains.
const FILES: [&str; 2] = ["static.tar", "comms.json"];
/// The strongest compression that is still fast for files of a few megabytes.
const ZSTD_LEVEL: i32 = 19;

impl Recording {
    /// Writes a recording of the first `events` events after the start snapshot into a new folder:
    /// `events.tsv.zst`, the start state, settings and a README; without an end snapshot. Returns the number of
    /// events written, without the start markers. The folder appears only when it is complete.
    ///
    /// # Errors
    /// If the recording cannot be read, the folder exists, or it cannot be written.
    pub fn write_excerpt(&self, dir: &Path, events: u64) -> Result<u64, Error> {
        let failed = |e| Error::io(dir, e);
        if dir.try_exists().map_err(failed)? {
            let allowed = "a folder that does not exist";
            return Err(failed(io::Error::new(
                io::ErrorKind::AlreadyExists,
                format!("it exists; allowed: {allowed}"),
            )));
        }
        let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
        let unfinished = tempfile::Builder::new()
            .prefix(".excerpt-")
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in(parent.unwrap_or(Path::new(".")))
            .map_err(failed)?;
        let written = self.write_parts(unfinished.path(), events)?;
        self.write_readme(unfinished.path(), dir, written)?;
        std::fs::rename(unfinished.path(), dir).map_err(failed)?;
        // The folder was renamed, so there is nothing left to remove.
        let _ = unfinished.keep();
        Ok(written)
    }

    fn write_parts(&self, dir: &Path, events: u64) -> Result<u64, Error> {
        let first = self.windows()?.start_event();
        std::fs::create_dir(dir.join("start")).map_err(|e| Error::io(dir, e))?;
        for name in STATE_FILES {
            copy(&self.dir.join("start"), &dir.join("start"), name)?;
        }
        for name in FILES {
            copy(&self.dir, dir, name)?;
        }
        let path = dir.join("events.tsv.zst");
        let failed = |e| Error::io(&path, e);
        let file = BufWriter::new(File::create(&path).map_err(failed)?);
        let mut out = zstd::Encoder::new(file, ZSTD_LEVEL).map_err(failed)?;
        out.include_checksum(true).map_err(failed)?;
        out.write_all(HEADER.as_bytes()).map_err(failed)?;
        let mut line = String::new();
        let mut written = 0;
        let mut records =
            self.events()?.skip(usize::try_from(first).unwrap_or(usize::MAX)).peekable();
        // The markers are adjacent: the snapshot is the state before all events.
        if let Some(Ok(first)) = records.peek() {
            for name in ["S1", "S2"] {
                let what = What::Marker(name.into());
                write_line(&mut line, &Record { what, ..first.clone() }, self.decoding);
            }
        }
        for record in records {
            let record = record?;
            if written == events {
                break;
            }
            // The original's marker has another position in the window.
            if record.what.marker() == Some("S2") {
                continue;
            }
            write_line(&mut line, &record, self.decoding);
            written += 1;
            if line.len() > 1 << 16 {
                out.write_all(line.as_bytes()).map_err(failed)?;
                line.clear();
            }
        }
        out.write_all(line.as_bytes()).map_err(failed)?;
        let file = out.finish().map_err(failed)?;
        file.into_inner().map_err(|e| failed(e.into_error()))?.sync_all().map_err(failed)?;
        Ok(written)
    }

    fn write_readme(&self, unfinished: &Path, dir: &Path, events: u64) -> Result<(), Error> {
        let path = unfinished.join("README.md");
        let name = dir.file_name().unwrap_or_default().to_string_lossy();
        let text = format!(
            "# {name}\n\n* kernel: `{}`\n* the first {events} events after the start snapshot of the \
             recording {}\n* the start snapshot lies between the markers S1 and S2, which come \
             first; there is no end snapshot\n",
            self.kernel.text, self.name
        );
        std::fs::write(&path, text).map_err(|e| Error::io(&path, e))
    }
}

const HEADER: &str = "# pb-events v1: t_us cpu pid op args | A pfn order mt gfp (pfn - = failed) | \
                      F pfn order | B pfn | Z pfn order mt refill | D pfn order mt | X pfn \
                      alloc_order fallback_order alloc_mt fallback_mt change_ownership | I pfn order \
                      ret | K npages | M marker | E name args\n";

/// Appends an event as a line of `events.tsv`, with its line end.
pub fn write_line(out: &mut String, record: &Record, decoding: Decoding) {
    let Record { t_us, cpu, pid, what } = record;
    let number = |mt| decoding.number(mt);
    // Writing to a string cannot fail.
    let _ = write!(out, "{t_us} {cpu} {pid} ");
    let _ = match what {
        What::Alloc { pfn: Some(pfn), order, mt, gfp } => {
            writeln!(out, "A {pfn} {order} {} {gfp}", number(*mt))
        }
        What::Alloc { pfn: None, order, mt, gfp } => {
            writeln!(out, "A - {order} {} {gfp}", number(*mt))
        }
        What::Free { pfn, order } => writeln!(out, "F {pfn} {order}"),
        What::FreeBatched { pfn } => writeln!(out, "B {pfn}"),
        What::ZoneLocked { pfn, order, mt, refill } => {
            writeln!(out, "Z {pfn} {order} {} {}", number(*mt), u8::from(*refill))
        }
        What::Drain { pfn, order, mt } => writeln!(out, "D {pfn} {order} {}", number(*mt)),
        What::Extfrag(x) => writeln!(
            out,
            "X {} {} {} {} {} {}",
            x.pfn,
            x.alloc_order,
            x.fallback_order,
            number(x.alloc_migratetype),
            number(x.fallback_migratetype),
            u8::from(x.change_ownership)
        ),
        What::Isolate { pfn, order, ret } => writeln!(out, "I {pfn} {order} {ret}"),
        What::Bulk { pages } => writeln!(out, "K {pages}"),
        What::Marker(name) => writeln!(out, "M {name}"),
        What::Other(other) => writeln!(out, "E {} {}", other.name, other.args),
    };
}

/// Copies a file if it exists, plain or compressed, and compresses it with xz: it is decompressed on the way,
/// so that damage is detected.
fn copy(from: &Path, to: &Path, name: &str) -> Result<(), Error> {
    let Some(source) = crate::find(from, name) else { return Ok(()) };
    let is_large = matches!(name, "snapshot.txt" | "static.tar");
    let target = if is_large { to.join(format!("{name}.xz")) } else { to.join(name) };
    let failed = |e: io::Error| Error::io(&target, e);
    let mut input = Input::open(&source)?;
    let mut out = BufWriter::new(File::create(&target).map_err(failed)?);
    if is_large {
        let mut packed = liblzma::write::XzEncoder::new(out, 9);
        pour(&mut input, &mut packed, &target)?;
        out = packed.finish().map_err(failed)?;
    } else {
        pour(&mut input, &mut out, &target)?;
    }
    out.flush().map_err(failed)
}

fn pour(input: &mut Input, out: &mut impl Write, target: &Path) -> Result<(), Error> {
    loop {
        let chunk = input.next_chunk()?;
        if chunk.is_empty() {
            return Ok(());
        }
        out.write_all(chunk).map_err(|e| Error::io(target, e))?;
    }
}
