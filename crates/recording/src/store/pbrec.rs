//! A recording as one file, `.pbrec`: an Arrow IPC file with a row for each event and the other files of a
//! recording attached.
//!
//! What is attached stands at the start of the file, in the schema's metadata, so that a file that was cut still has
//! it; the state at the end, windows and losses stand in the footer's.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pageblock::frame::ORDER_LIMIT;
use pageblock_files::{Access, NewFile};

use crate::input::error::Error;
use crate::record::kernel::KernelVersion;
use crate::state::files::{Attachments, Files};
use crate::state::recording::Recording;
use crate::store::columnar::{Columnar, SCHEMA, SCHEMA_KEY, Writer};
use crate::store::seal::{blank_note, note_of, write_note};
use crate::store::table::TableReader;

/// The first bytes of an Arrow IPC file.
pub(crate) const MAGIC: &[u8] = b"ARROW1";

const KERNEL: &str = "kernel";
const NAME: &str = "name";
const ASSUMED: &str = "kernel_assumed";
const REQUESTS_ONLY: &str = "requests_only";
const PAGEBLOCK_ORDER: &str = "pageblock_order";
/// The key of what was found out about a recording later.
pub(crate) const NOTE: &str = "note";

impl Recording {
    /// Starts a `.pbrec` of this recording's kernel, states and settings for other events.
    ///
    /// # Errors
    /// If the recording's files cannot be read, or `out` exists or cannot be written.
    pub fn writer(&self, out: &Path) -> Result<Writer, Error> {
        must_be_new(out)?;
        start_file(out, Access::Private, self, &self.attachments()?)
    }

    /// Returns the note that was kept in a `.pbrec` ([`Recording::keep_note`]); `None` if there is none.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let reader = TableReader::open_verified(&self.events_file, &[]).ok()?;
        let packed = STANDARD.decode(note_of(reader.metadata().get(NOTE)?)).ok()?;
        // A note that was changed or half-written is ignored.
        String::from_utf8(zstd::decode_all(&packed[..]).ok()?).ok().filter(|note| !note.is_empty())
    }

    /// Keeps a text in a `.pbrec`: what was found out about the recording, such as its grade. The rest of the file stays as it
    /// is. Returns `false` if this is not a `.pbrec`, it has no room for the text, or it may not be written.
    ///
    /// # Errors
    /// If writing fails.
    pub fn keep_note(&self, note: &str) -> Result<bool, Error> {
        if !is_pbrec(&self.events_file)? {
            return Ok(false);
        }
        if self.note().as_deref() == Some(note) {
            return Ok(true);
        }
        let failed = |error| Error::io(&self.events_file, error);
        let mut packer = zstd::Encoder::new(Vec::new(), 19).map_err(failed)?;
        packer.include_checksum(true).map_err(failed)?;
        let packed = packer.write_all(note.as_bytes()).and_then(|()| packer.finish());
        let text = STANDARD.encode(packed.map_err(failed)?);
        match pageblock_files::in_place(&self.events_file, Access::Private) {
            Ok((mut file, _)) => write_note(&mut file, &text).map_err(failed),
            Err(_) => Ok(false),
        }
    }

    /// Returns the files beside the events; of a capture, what it says of names.
    pub(crate) fn attachments(&self) -> Result<Attachments, Error> {
        if self.dir.is_dir() {
            return Files::Folder(self.dir.clone()).attach();
        }
        if is_pbrec(&self.events_file)? {
            return attachments_of(&self.events_file);
        }
        let mut files = Attachments::of(&self.events_file);
        if !self.comms.is_empty() {
            files.insert_comms(&self.comms)?;
        }
        Ok(files)
    }
}

/// Starts the file of a recording with these attachments.
pub(crate) fn start_file(
    out: &Path,
    access: Access,
    recording: &Recording,
    attachments: &Attachments,
) -> Result<Writer, Error> {
    let mut head: HashMap<String, String> = attachments.texts(false).collect();
    let mut say = |key: &str, value: String| head.insert(key.to_owned(), value);
    say(SCHEMA_KEY, SCHEMA.to_owned());
    say(KERNEL, recording.kernel.text.clone());
    say(NAME, recording.name.clone());
    say(PAGEBLOCK_ORDER, recording.pageblock_order.to_string());
    if recording.kernel_assumed {
        say(ASSUMED, "true".to_owned());
    }
    if recording.requests_only {
        say(REQUESTS_ONLY, "true".to_owned());
    }
    if let Some(dir) = out.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        std::fs::create_dir_all(dir).map_err(|e| Error::io(dir, e))?;
    }
    let begun = NewFile::create_new(out, access).map_err(|e| Error::io(out, e))?;
    let mut conversion = Writer::new(out, begun, recording, head)?;
    conversion.footer(attachments.texts(true).collect());
    conversion.footer(BTreeMap::from([(NOTE.to_owned(), blank_note())]));
    Ok(conversion)
}

/// Refuses to write over what exists.
pub(crate) fn must_be_new(out: &Path) -> Result<(), Error> {
    match std::fs::symlink_metadata(out) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Error::io(out, error)),
        // A link counts too, whatever it leads to.
        Ok(_) => {
            let why = "it exists; allowed: a name that does not exist";
            Err(Error::io(out, io::Error::new(io::ErrorKind::AlreadyExists, why)))
        }
    }
}

/// Reports whether a file is one of columns by its first bytes, or an empty or cut one by its name.
pub(crate) fn is_pbrec(path: &Path) -> Result<bool, Error> {
    let mut start = Vec::new();
    let file = File::open(path).map_err(|e| Error::io(path, e))?;
    file.take(MAGIC.len() as u64).read_to_end(&mut start).map_err(|e| Error::io(path, e))?;
    let named = path.extension().is_some_and(|end| end == "pbrec");
    Ok(start == MAGIC || (named && MAGIC.starts_with(&start)))
}

/// Opens the columns of a `.pbrec`.
pub(crate) fn columnar(path: &Path) -> Result<Columnar, Error> {
    Columnar::open(path).map_err(|error| as_pbrec(path, error))
}

/// Takes an error of a file of columns as one of a recording that the user has.
pub(crate) fn as_pbrec(path: &Path, error: Error) -> Error {
    match error {
        Error::Columnar { why, .. } => Error::pbrec(path, why),
        error => error,
    }
}

fn attachments_of(path: &Path) -> Result<Attachments, Error> {
    let reader = TableReader::open_verified(path, &[]).map_err(|e| as_pbrec(path, e))?;
    let mut texts = reader.head();
    texts.extend(reader.metadata().clone());
    Attachments::read(path, &texts)
}

/// Opens a `.pbrec`; `kernel` is what the user says of a recording that does not say its own.
pub(crate) fn open(path: &Path) -> Result<Recording, Error> {
    // The checksum is verified first: whatever else is read is as it was written.
    let columnar = columnar(path)?;
    let head =
        TableReader::open_verified(&columnar.path, &[]).map_err(|e| as_pbrec(path, e))?.head();
    recording_of(path, &head, attachments_of(path)?)
}

/// Makes a recording of the texts at the start of a file and of its attachments.
pub(crate) fn recording_of(
    path: &Path,
    head: &HashMap<String, String>,
    attachments: Attachments,
) -> Result<Recording, Error> {
    let is = |key: &str| head.get(key).is_some_and(|value| value == "true");
    let kernel = head.get(KERNEL).and_then(|text| KernelVersion::from_uname(text));
    let kernel = kernel.ok_or_else(|| Error::pbrec(path, "it has no version of its kernel"))?;
    let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let files = Files::Attached(attachments);
    let mut recording = Recording::of(&files, stem, kernel, path.to_owned())?;
    recording.kernel_assumed = is(ASSUMED);
    recording.requests_only = is(REQUESTS_ONLY);
    let order = head.get(PAGEBLOCK_ORDER).and_then(|order| order.parse().ok());
    if let Some(order) = order.filter(|&order| order <= ORDER_LIMIT) {
        recording.pageblock_order = order;
    }
    Ok(recording)
}
