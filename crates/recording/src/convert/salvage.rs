//! Makes a whole recording of a `.pbrec` that was cut.

use std::path::Path;

use pageblock_files::Access;

use crate::input::error::Error;
use crate::record::losses::Losses;
use crate::state::files::Attachments;
use crate::store::columnar::{BatchDecoder, SCHEMA, SCHEMA_KEY};
use crate::store::pbrec::{as_pbrec, must_be_new, recording_of, start_file};
use crate::store::rows::names;
use crate::store::stream::StreamReader;

/// Writes the events that a cut `.pbrec` still has, with the state at its start, as a whole one. Returns their number. The state
/// at the end and the losses, which stand at the end of a file, are gone.
///
/// # Errors
/// If the beginning of the file is damaged, it has no events, or `out` exists or cannot be written.
pub fn salvage(path: &Path, out: &Path, progress: &mut dyn FnMut(u64)) -> Result<u64, Error> {
    must_be_new(out)?;
    let mut reader = StreamReader::open(path, &names()).map_err(|e| as_pbrec(path, e))?;
    let head = reader.head();
    if head.get(SCHEMA_KEY).is_none_or(|version| version != SCHEMA) {
        return Err(Error::pbrec(path, "what is left of it does not begin as one"));
    }
    let recording = recording_of(path, &head, Attachments::read(path, &head)?)?;
    let mut file = start_file(out, Access::Private, &recording, &Attachments::read(path, &head)?)?;
    let mut decoding = BatchDecoder::default();
    while let Some(batch) = reader.next_batch() {
        decoding.load(batch)?;
        while decoding.fill()? {
            for record in decoding.chunk() {
                file.push(record)?;
            }
        }
        progress(file.events());
    }
    let events = file.events();
    if events == 0 {
        return Err(Error::pbrec(path, "it was cut before its first events"));
    }
    file.finish(&Losses::default())?;
    Ok(events)
}
