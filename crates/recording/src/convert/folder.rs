//! Writes a recording as a folder of plain and compressed text, which other tools and people can read.

use std::io::{BufWriter, Write};
use std::path::Path;

use pageblock_files::{Access, NewFolder, part, part_folder};

use crate::formats::tsv::{HEADER, write_line};
use crate::input::error::Error;
use crate::state::files::{Attachments, STATIC};
use crate::state::recording::Recording;
use crate::store::pbrec::must_be_new;

/// Compression of events: a tenth of the text at tens of megabytes a second.
const ZSTD_LEVEL: i32 = 9;
/// Files from this size on are compressed.
const LARGE_BYTES: usize = 64 << 10;

impl Recording {
    /// Writes the recording into a new folder: `events.tsv.zst`, the states, settings and names. The folder appears
    /// only when it is complete. `progress` is called now and then with the bytes of the events read so far and their number.
    ///
    /// # Errors
    /// If the recording cannot be read or has no state at the start, the folder exists, or it cannot be written.
    pub fn write_folder(
        &self,
        dir: &Path,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<(), Error> {
        let failed = |e| Error::io(dir, e);
        must_be_new(dir)?;
        if !self.start_known {
            // A folder without a start is no recording: nothing could read it.
            return Err(Error::Missing {
                path: self.dir.clone(),
                what: "state at the start, which a folder must have",
                expected: "NAME.pbrec as the output, which needs none",
            });
        }
        let unfinished = NewFolder::create_new(dir, Access::Private).map_err(failed)?;
        self.write_files(&self.attachments()?, unfinished.path())?;
        self.write_events(&unfinished.path().join("events.tsv.zst"), progress)?;
        unfinished.finish().map_err(failed)
    }

    /// Writes what stands beside the events into a folder: the states, settings and names.
    ///
    /// # Errors
    /// If it cannot be read or written.
    pub fn write_state(&self, dir: &Path) -> Result<(), Error> {
        self.write_files(&self.attachments()?, dir)
    }

    fn write_files(&self, files: &Attachments, dir: &Path) -> Result<(), Error> {
        let mut settings = tar::Builder::new(Vec::new());
        for path in files.files.keys() {
            let content = files.content(path)?;
            if let Some(setting) = path.strip_prefix(STATIC) {
                let mut header = tar::Header::new_gnu();
                header.set_size(content.len() as u64);
                header.set_mode(0o644);
                let name = setting.replace('/', "__");
                let added = settings.append_data(&mut header, name, &content[..]);
                added.map_err(|e| Error::io(&files.of, e))?;
            } else {
                write_file(dir, path, &content)?;
            }
        }
        let settings = settings.into_inner().map_err(|e| Error::io(&files.of, e))?;
        write_file(dir, "static.tar", &settings)?;
        if files.files.contains_key("README.md") {
            return Ok(());
        }
        let readme = format!("# {}\n\n* kernel: `{}`\n", self.name, self.kernel.text);
        write_file(dir, "README.md", readme.as_bytes())
    }

    fn write_events(
        &self,
        path: &Path,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<(), Error> {
        let failed = |e| Error::io(path, e);
        let file = BufWriter::new(part(path, Access::Private).map_err(failed)?);
        let mut out = zstd::Encoder::new(file, ZSTD_LEVEL).map_err(failed)?;
        out.include_checksum(true).map_err(failed)?;
        let mut lines = HEADER.to_owned();
        let mut events = self.events()?;
        while let Some(record) = events.next() {
            write_line(&mut lines, &record?, self.decoding);
            if lines.len() > 1 << 18 {
                out.write_all(lines.as_bytes()).map_err(failed)?;
                lines.clear();
                progress(events.file_bytes_read(), events.file_bytes());
            }
        }
        out.write_all(lines.as_bytes()).map_err(failed)?;
        let file = out.finish().map_err(failed)?;
        file.into_inner().map_err(|e| failed(e.into_error()))?.sync_all().map_err(failed)
    }
}

/// Writes a file of a recording, compressed if it is large.
fn write_file(dir: &Path, name: &str, content: &[u8]) -> Result<(), Error> {
    let large = content.len() >= LARGE_BYTES;
    let path = dir.join(if large { format!("{name}.zst") } else { name.to_owned() });
    let failed = |e| Error::io(&path, e);
    if let Some(parent) = path.parent() {
        part_folder(parent, Access::Private).map_err(failed)?;
    }
    let mut file = part(&path, Access::Private).map_err(failed)?;
    if !large {
        return file.write_all(content).map_err(failed);
    }
    let mut out = zstd::Encoder::new(file, 19).map_err(failed)?;
    out.include_checksum(true).map_err(failed)?;
    out.write_all(content).map_err(failed)?;
    out.finish().map(drop).map_err(failed)
}
