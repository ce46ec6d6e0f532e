//! A folder that appears only when it is whole, and the files in a folder that this run made.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use tempfile::{Builder, TempDir};

use crate::target::folder_of;
use crate::{Access, made};

/// A folder that is being written: it gets its name by [`NewFolder::finish`], and is removed otherwise.
#[must_use = "a folder that is not finished is removed"]
#[derive(Debug)]
pub struct NewFolder {
    temporary: Option<TempDir>,
    target: PathBuf,
}

impl NewFolder {
    /// Begins a folder under a name that nothing has.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`], [`ErrorKind::NotFound`] without a folder to be in, or if none can be made beside it.
    pub fn create_new(path: &Path, access: Access) -> io::Result<Self> {
        if fs::symlink_metadata(path).is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let parent = folder_of(path);
        if !parent.exists() {
            // What the system says names a file that nobody asked for.
            let why = format!("there is no folder {}", parent.display());
            return Err(io::Error::new(ErrorKind::NotFound, why));
        }
        let mut made = made::lock();
        let temporary = made::builder()
            .permissions(Permissions::from_mode(access.folder_mode()))
            .tempdir_in(parent)?;
        made.insert(temporary.path().to_owned());
        Ok(Self { temporary: Some(temporary), target: path.to_owned() })
    }

    /// Returns where its files are written ([`part`]).
    #[must_use]
    pub fn path(&self) -> &Path {
        self.temporary.as_ref().map_or(&self.target, TempDir::path)
    }

    /// Gives the folder its name.
    ///
    /// # Errors
    /// If its name was taken meanwhile.
    pub fn finish(mut self) -> io::Result<()> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        let mut made = made::lock();
        rename_new(temporary.path(), &self.target)?;
        made.remove(temporary.path());
        // It was renamed: there is nothing to remove.
        let _ = self.temporary.take().map(TempDir::keep);
        Ok(())
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            let mut made = made::lock();
            made.remove(temporary.path());
            drop(temporary);
        }
    }
}

/// A folder in the folder for temporary files, for this user alone; it is removed with this.
#[derive(Debug)]
pub struct ScratchFolder(Option<TempDir>);

impl ScratchFolder {
    /// Makes one.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn new() -> io::Result<Self> {
        let mut made = made::lock();
        let folder = Builder::new().prefix("pageblock-").tempdir()?;
        made.insert(folder.path().to_owned());
        Ok(Self(Some(folder)))
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.as_ref().map_or(Path::new(""), TempDir::path)
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        if let Some(folder) = self.0.take() {
            let mut made = made::lock();
            made.remove(folder.path());
            drop(folder);
        }
    }
}

/// Makes a folder under a name that nothing has, to be written where it stands.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`], or if it cannot be made.
pub fn new_folder(path: &Path, access: Access) -> io::Result<()> {
    DirBuilder::new().mode(access.folder_mode()).create(path)
}

/// Renames to a name that nothing has; an empty folder is something.
///
/// # Errors
/// [`ErrorKind::AlreadyExists`], or if it cannot be renamed.
pub fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system that cannot.
        Err(Errno::INVAL | Errno::NOSYS) if fs::symlink_metadata(to).is_err() => {
            fs::rename(from, to)
        }
        Err(Errno::INVAL | Errno::NOSYS) => Err(ErrorKind::AlreadyExists.into()),
        renamed => Ok(renamed?),
    }
}

/// Makes a file in a folder that this run made: it must not exist.
///
/// # Errors
/// If it exists, or cannot be made.
pub fn part(path: &Path, access: Access) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(access.file_mode()).open(path)
}

/// Makes a folder, with those above it, in a folder that this run made.
///
/// # Errors
/// If it cannot be made.
pub fn part_folder(path: &Path, access: Access) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(access.folder_mode()).create(path)
}
