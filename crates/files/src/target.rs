//! What a path names: a regular file to be, or something to be written directly.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Error, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Symbolic links that are followed one after the other, as in the kernel.
const LINKS: usize = 40;
/// The sticky bit: in such a folder each user removes own files only.
const STICKY: u32 = 0o1000;
/// Who may write beside the owner.
const OTHERS_WRITE: u32 = 0o022;

/// What a path names.
pub(crate) enum Target {
    /// A regular file, or nothing yet. The path has no symbolic link.
    File {
        path: PathBuf,
        /// What is there.
        existing: Option<Metadata>,
    },
    /// A pipe, a character device, or a file that this process has open already.
    Stream(File),
}

/// Finds out what a path names.
///
/// # Errors
/// If its folder does not exist, it is a folder, a socket or a block device, or another user's link in a shared folder.
pub(crate) fn resolve(path: &Path) -> io::Result<Target> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let Some(name) = path.file_name() else {
            let is_empty = path.as_os_str().is_empty();
            let kind = if is_empty { ErrorKind::NotFound } else { ErrorKind::IsADirectory };
            return Err(kind.into());
        };
        let folder = fs::canonicalize(folder_of(&path))?;
        let whole = folder.join(name);
        // `/dev/stdout`, `/dev/fd/3` and the like lead there.
        if fs::canonicalize("/proc/self/fd").is_ok_and(|own| own == folder) {
            return stream(&whole);
        }
        let meta = match fs::symlink_metadata(&whole) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Target::File { path: whole, existing: None });
            }
            meta => meta?,
        };
        let kind = meta.file_type();
        if kind.is_symlink() {
            if is_of_another(&folder, &meta)? {
                return Err(refused("another user's symbolic link in a shared folder"));
            }
            path = folder.join(fs::read_link(&whole)?);
        } else if kind.is_file() {
            return Ok(Target::File { path: whole, existing: Some(meta) });
        } else if kind.is_fifo() || kind.is_char_device() {
            return stream(&whole);
        } else if kind.is_dir() {
            return Err(ErrorKind::IsADirectory.into());
        } else {
            return Err(refused("neither a regular file, a pipe nor a character device"));
        }
    }
    Err(rustix::io::Errno::LOOP.into())
}

pub(crate) fn refused(why: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, format!("{why}; allowed: a regular file"))
}

/// Returns the folder of a path.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Reports whether something belongs to another user in a folder where everybody may put files.
pub(crate) fn is_of_another(folder: &Path, meta: &Metadata) -> io::Result<bool> {
    let folder = fs::metadata(folder)?;
    let is_shared = folder.mode() & STICKY != 0 && folder.mode() & OTHERS_WRITE != 0;
    Ok(is_shared && !is_own(meta) && meta.uid() != folder.uid())
}

/// Reports whether something belongs to this process's user.
pub(crate) fn is_own(meta: &Metadata) -> bool {
    meta.uid() == rustix::process::geteuid().as_raw()
}

/// Opens what is written directly: nothing is made, and what a file already has stays.
fn stream(path: &Path) -> io::Result<Target> {
    let keeps = fs::metadata(path)?.is_file();
    let mut options = OpenOptions::new();
    if keeps {
        options.append(true)
    } else {
        options.write(true)
    };
    let file = options.custom_flags(rustix::fs::OFlags::NOCTTY.bits() as i32).open(path)?;
    let kind = file.metadata()?.file_type();
    match kind.is_fifo() || kind.is_char_device() || keeps {
        true => Ok(Target::Stream(file)),
        false => Err(refused("neither a regular file, a pipe nor a character device")),
    }
}
