//! A file that appears only when it is whole.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::Access;
use crate::made;
use crate::target::{Target, folder_of, is_own, refused, resolve};

/// The bits of a mode that a new file takes over.
const MODE: u32 = 0o777;

/// A file that is being written: it gets its name by [`NewFile::finish`], and is removed otherwise.
#[must_use = "a file that is not finished is removed"]
#[derive(Debug)]
pub struct NewFile {
    /// `None` of a stream.
    temporary: Option<TempPath>,
    target: PathBuf,
    replaces: bool,
}

impl NewFile {
    /// Begins a file that takes the place of what is there, if that is a regular file. The file is read and written by what is
    /// returned first.
    ///
    /// # Errors
    /// If the path names a folder, a socket, a block device or another user's link in a shared folder, or no file can be
    /// made in its folder.
    pub fn create(path: &Path, access: Access) -> io::Result<(File, Self)> {
        match resolve(path)? {
            Target::Stream(file) => {
                Ok((file, Self { temporary: None, target: path.to_owned(), replaces: true }))
            }
            Target::File { path, existing } => {
                // Nobody else decides who reads what this user writes.
                let mode = existing.filter(is_own).map(|meta| meta.mode() & MODE);
                Self::begin(path, access, mode, true)
            }
        }
    }

    /// Begins a file under a name that nothing has.
    ///
    /// # Errors
    /// Those of [`NewFile::create`], and [`ErrorKind::AlreadyExists`], also of [`NewFile::finish`].
    pub fn create_new(path: &Path, access: Access) -> io::Result<(File, Self)> {
        if fs::symlink_metadata(path).is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        match resolve(path)? {
            Target::File { path, existing: None } => Self::begin(path, access, None, false),
            _ => Err(ErrorKind::AlreadyExists.into()),
        }
    }

    fn begin(
        target: PathBuf,
        access: Access,
        mode: Option<u32>,
        replaces: bool,
    ) -> io::Result<(File, Self)> {
        let mut made = made::lock();
        let file = made::builder()
            .permissions(Permissions::from_mode(access.file_mode()))
            .tempfile_in(folder_of(&target))?;
        made.insert(file.path().to_owned());
        let (file, temporary) = file.into_parts();
        // Tells other processes that the file is being written. On a file system without locks that of a killed run
        // stays.
        let _ = file.try_lock();
        drop(made);
        let new = Self { temporary: Some(temporary), target, replaces };
        if let Some(mode) = mode.or((access == Access::Everyone).then_some(access.file_mode())) {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        Ok((file, new))
    }

    /// Returns where the file is while it is being written, for other programs that write it.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.temporary.as_deref().unwrap_or(&self.target)
    }

    /// Gives a file its name, now that all of it is written.
    ///
    /// # Errors
    /// If the disk fails, or its name was taken meanwhile.
    pub fn finish(mut self, file: &File) -> io::Result<()> {
        let Some(temporary) = &self.temporary else { return Ok(()) };
        file.sync_all()?;
        let path = temporary.to_path_buf();
        let mut made = made::lock();
        if fs::symlink_metadata(&self.target).is_ok_and(|meta| !meta.is_file()) {
            return Err(refused("no regular file any more"));
        }
        let Some(temporary) = self.temporary.take() else { return Ok(()) };
        let renamed = match self.replaces {
            true => temporary.persist(&self.target),
            false => temporary.persist_noclobber(&self.target),
        };
        made.remove(&path);
        renamed.map_err(|error| error.error)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.take() {
            let mut made = made::lock();
            made.remove(&temporary.to_path_buf());
            drop(temporary);
        }
    }
}

/// Writes a file whole or not at all.
///
/// # Errors
/// Those of [`NewFile::create`], or if it cannot be written.
pub fn write(path: &Path, bytes: &[u8], access: Access) -> io::Result<()> {
    let (mut file, new) = NewFile::create(path, access)?;
    file.write_all(bytes)?;
    new.finish(&file)
}

/// Checks that a file could be written there, by making an empty one beside it.
///
/// # Errors
/// Those of [`NewFile::create`].
pub fn can_write(path: &Path) -> io::Result<()> {
    // A pipe is not opened: its reader would see an end.
    match fs::metadata(path) {
        Ok(meta) if !meta.is_file() && !meta.is_dir() => Ok(()),
        _ => NewFile::create(path, Access::Private).map(drop),
    }
}
