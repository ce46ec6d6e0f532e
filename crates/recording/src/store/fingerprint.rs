//! What tells one recording from another: a digest of all that it was read from.

use std::fmt::{self, Display, Formatter};
use std::fs::File;
use std::path::Path;

use crate::input::error::Error;
use crate::state::files::files_below;
use crate::state::paths::{DEPTH, find};
use crate::state::recording::Recording;
use crate::store::seal;

/// A BLAKE3 digest of everything that a recording was read from: the content of its files, and what the user says of a
/// capture. Where two are equal, whatever is made of the recordings is equal too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fingerprint(blake3::Hash);

/// The first 128 bits in hexadecimal digits.
impl Display for Fingerprint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.to_hex()[..32])
    }
}

impl Recording {
    /// Returns the recording's fingerprint. All of its files are read; what a note says ([`Recording::keep_note`]) does not
    /// count.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn fingerprint(&self) -> Result<Fingerprint, Error> {
        let mut digest = blake3::Hasher::new();
        let mut add = |text: &str| {
            // With its length, so that one text cannot begin where another ends.
            digest.update(&(text.len() as u64).to_le_bytes());
            digest.update(text.as_bytes());
        };
        add(&self.name);
        add(&self.kernel.text);
        add(&format!("{:?} {} {}", self.decoding, self.pageblock_order, self.requests_only));
        if !self.start_known {
            // What the user says of a capture: zones, or nothing.
            add(&format!("{} {:?}", self.kernel_assumed, self.start));
        }
        if self.dir.is_dir() {
            let mut found = Vec::new();
            files_below(&self.dir, "", DEPTH, &mut found)?;
            found.extend(find(&self.dir, "static.tar").map(|path| (String::new(), path)));
            // A folder lists its files in any order.
            found.sort_unstable();
            for (name, path) in found {
                digest.update(name.as_bytes());
                add_file(&mut digest, &path)?;
            }
        }
        add_file(&mut digest, &self.events_file)?;
        Ok(Fingerprint(digest.finalize()))
    }
}

/// Adds the content of a file, and its length behind it.
fn add_file(digest: &mut blake3::Hasher, path: &Path) -> Result<(), Error> {
    let before = digest.count();
    let mut file = File::open(path).map_err(|e| Error::io(path, e))?;
    seal::digest(&mut file, digest).map_err(|e| Error::io(path, e))?;
    let length = digest.count() - before;
    digest.update(&length.to_le_bytes());
    Ok(())
}
