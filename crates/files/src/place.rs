//! Files that are changed in place.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::Access;
use crate::target::{Target, folder_of, is_of_another, refused, resolve};

/// Opens a regular file to read and write it in place, or makes one. Returns whether this call made it: no other file may be
/// removed after an error.
///
/// # Errors
/// If it is no regular file, or another user's in a shared folder, or cannot be opened.
pub fn in_place(path: &Path, access: Access) -> io::Result<(File, bool)> {
    // Before it is opened: to open a pipe that nobody reads would wait without an end.
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        return Err(refused("no regular file"));
    }
    let Target::File { path, existing } = resolve(path)? else {
        return Err(refused("no regular file"));
    };
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(access.file_mode());
    // The path has no link any more; whoever puts one there now is refused.
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    let Some(existing) = existing else {
        return Ok((options.create_new(true).open(path)?, true));
    };
    if is_of_another(folder_of(&path), &existing)? {
        return Err(refused("another user's file in a shared folder"));
    }
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok((file, false)),
        false => Err(refused("no regular file")),
    }
}
