//! The columns of a recording in a cache folder.

use std::collections::HashMap;
use std::path::Path;

use pageblock_files::{Access, NewFile};

use crate::input::error::Error;
use crate::state::recording::Recording;
use crate::store::columnar::{Columnar, SCHEMA, SCHEMA_KEY, Writer};
use crate::store::fingerprint::Fingerprint;
use crate::store::pbrec;

impl Recording {
    /// Returns the recording's columnar form: a `.pbrec` itself; of another recording the file in the cache folder
    /// that was made of the same content, else a newly converted one. `progress` is called now and then with the bytes of
    /// the events file read so far and its size.
    ///
    /// # Errors
    /// If the recording cannot be read or the file cannot be written.
    pub fn columnar(
        &self,
        cache_dir: &Path,
        progress: &mut dyn FnMut(u64, Option<u64>),
    ) -> Result<Columnar, Error> {
        let path = cache_dir.join(cache_name(&self.name, self.fingerprint()?));
        if pbrec::is_pbrec(&self.events_file)? {
            return Ok(Columnar { cache: path, ..pbrec::columnar(&self.events_file)? });
        }
        // A damaged file, or one that another version of the format wrote, is made again.
        if path.is_file()
            && let Ok(columnar) = Columnar::open(&path)
        {
            return Ok(columnar);
        }
        let head = HashMap::from([(SCHEMA_KEY.to_owned(), SCHEMA.to_owned())]);
        let failed = |e| Error::io(&path, e);
        pageblock_files::part_folder(cache_dir, Access::Private).map_err(failed)?;
        pageblock_files::remove_abandoned(cache_dir);
        let begun = NewFile::create(&path, Access::Private).map_err(failed)?;
        let writer = Writer::new(&path, begun, self, head)?;
        writer.write_all(self.events()?, &self.events_file, progress)?;
        Columnar::open(&path)
    }
}

/// Returns the name of a file in the cache: the recording's, as far as any file system takes it, and its fingerprint.
fn cache_name(recording: &str, of: Fingerprint) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '_' };
    let name: String = recording.chars().map(plain).take(64).collect();
    format!("{name}-{of}.pbrec")
}
