//! Kernels built from their source, with and without patches: a small configuration, objects that the next patch uses again,
//! and images by what they were built from.

mod make;
mod patch;
mod source;

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use pageblock_files::Access;

use crate::error::Error;
use source::Source;

/// What is configured.
const CONFIG: &str = include_str!("guest.config");
/// The digits of a key: 64 bits of a hash.
const DIGITS: usize = 16;

/// What a build reports.
#[derive(Clone, Copy, Debug)]
pub enum Step<'s> {
    /// A word about what happens now.
    Note(&'s str),
    /// A build begins, of about so many steps; 0 if nothing says how many.
    Begin(&'s str, u64),
    /// So many steps of it are done.
    Done(u64),
}

/// Sees what a build does; `false` stops it.
pub type Look<'l> = &'l dyn Fn(Step<'_>) -> bool;

/// What is to be built.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The source: a folder, an archive, a package of Debian or its name.
    pub source: &'a Path,
    /// The patches. Each makes a kernel of its own.
    pub patches: &'a [PathBuf],
    /// The folder that keeps sources, objects and images.
    pub cache: &'a Path,
    /// How many compilers run at a time.
    pub jobs: usize,
}

/// Builds the kernel as it is and one with each patch, and returns their images in this order. An image that was built before
/// is returned at once.
///
/// # Errors
/// [`Error::Source`] if the source or a patch cannot be used, [`Error::Build`] if it cannot be built, [`Error::Stopped`].
pub fn images(asked: Asked<'_>, look: Look<'_>) -> Result<Vec<PathBuf>, Error> {
    fs::create_dir_all(asked.cache).map_err(Error::at(asked.cache))?;
    let patches = asked.patches.iter().map(|path| patch::Patch::read(path));
    let patches = patches.collect::<Result<Vec<_>, _>>()?;
    if let Some(at) =
        (1..patches.len()).find(|&at| patches[..at].iter().any(|p| p.name == patches[at].name))
    {
        let why =
            format!("another patch has the name {}, which names the kernel", patches[at].name);
        return Err(Error::source(&asked.patches[at], why));
    }
    let source = Source::find(asked.source, asked.cache)?;
    let work = Work { folder: asked.cache.join(&source.key), jobs: asked.jobs, look };
    fs::create_dir_all(&work.folder).map_err(Error::at(&work.folder))?;
    let _lock = work.lock()?;
    source.update(&work)?;
    std::iter::once(None)
        .chain(patches.iter().map(Some))
        .map(|patch| work.image(&source, patch))
        .collect()
}

/// The folder of a source, where its kernels are built.
struct Work<'w> {
    folder: PathBuf,
    jobs: usize,
    look: Look<'w>,
}

impl Work<'_> {
    fn say(&self, step: Step<'_>) -> Result<(), Error> {
        if (self.look)(step) { Ok(()) } else { Err(Error::Stopped) }
    }

    /// Waits until nobody else builds this source.
    fn lock(&self) -> Result<File, Error> {
        let path = self.folder.join("lock");
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(Error::at(&path))?;
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => {
                self.say(Step::Note("waiting for another build of this source"))?;
            }
            Err(TryLockError::Error(error)) => return Err(Error::at(&path)(error)),
        }
        file.lock().map_err(Error::at(&path))?;
        Ok(file)
    }

    /// Returns the image of the kernel with a patch; builds it if it is not there.
    fn image(&self, source: &Source, patch: Option<&patch::Patch>) -> Result<PathBuf, Error> {
        let text = patch.map_or(&[][..], |patch| &patch.text);
        let key = key(&[source.content.as_bytes(), CONFIG.as_bytes(), text]);
        let name = patch.map_or("", |patch| &patch.name);
        let path = self.folder.join("images").join(format!("{key}-{name}"));
        if path.is_file() {
            return Ok(path);
        }
        patch::apply(&self.folder, patch)?;
        let built = make::kernel(self, name, &key)?;
        let bytes = fs::read(&built).map_err(Error::at(&built))?;
        let images = self.folder.join("images");
        fs::create_dir_all(&images).map_err(Error::at(&images))?;
        pageblock_files::write(&path, &bytes, Access::Shared).map_err(Error::at(&path))?;
        Ok(path)
    }
}

/// Returns the key of something that consists of these parts.
fn key(parts: &[&[u8]]) -> String {
    let mut hash = blake3::Hasher::new();
    for part in parts {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().to_hex()[..DIGITS].to_owned()
}
