//! Files of `/proc` and `/sys`, of this machine or copied from another.

pub mod iomem;
pub mod page_size;
pub mod tree;
pub mod zoneinfo;

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Opens a regular file for reading, as those of `/proc` and `/sys` are. Other kinds of files are refused at once: opening
/// a pipe without a writer would wait forever.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "no regular file")),
    }
}
