//! The recording that is part of the program.

use std::io::Write as _;
use std::path::Path;

use pageblock_files::{Access, NewFolder, ScratchFolder, part, part_folder};

use crate::error::{Place, Result};

/// Its name.
pub const NAME: &str = "debian-6.12-640m";

macro_rules! files {
    ($($file:literal),+ $(,)?) => {
        &[$(($file, include_bytes!(concat!("../recordings/debian-6.12-640m/", $file)))),+]
    };
}

/// Its files: paths in its folder, and their content.
const FILES: &[(&str, &[u8])] = files![
    "README.md",
    "comms.json",
    "events.tsv.zst",
    "static.tar.xz",
    "start/buddyinfo",
    "start/meminfo",
    "start/pagetypeinfo",
    "start/snapshot.txt.xz",
    "start/vmstat",
    "start/zoneinfo",
];

/// Writes its folder, which must not exist, completely or not at all.
///
/// # Errors
/// If something is there, or it cannot be written.
pub fn write(folder: &Path) -> Result<()> {
    let new = NewFolder::create_new(folder, Access::Shared).at(|| folder.display())?;
    fill(new.path())?;
    new.finish().at(|| folder.display())
}

/// Writes its folder into one for temporary files, and returns that one.
///
/// # Errors
/// If it cannot be written.
pub fn unpacked() -> Result<ScratchFolder> {
    let scratch = ScratchFolder::new().at(|| "a folder for temporary files")?;
    let folder = scratch.path().join(NAME);
    part_folder(&folder, Access::Shared).at(|| folder.display())?;
    fill(&folder)?;
    Ok(scratch)
}

fn fill(folder: &Path) -> Result<()> {
    let start = folder.join("start");
    part_folder(&start, Access::Shared).at(|| start.display())?;
    for (name, content) in FILES {
        let file = folder.join(name);
        let written = part(&file, Access::Shared).and_then(|mut new| new.write_all(content));
        written.at(|| file.display())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_recording_is_there() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../recordings").join(NAME);
        let scratch = unpacked().unwrap();
        let written = scratch.path().join(NAME);
        let mut files = 0;
        for folder in ["", "start"] {
            for entry in std::fs::read_dir(source.join(folder)).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_file() {
                    let copy = std::fs::read(written.join(folder).join(entry.file_name())).unwrap();
                    assert!(copy == std::fs::read(entry.path()).unwrap(), "{:?}", entry.path());
                    files += 1;
                }
            }
        }
        assert_eq!(files, FILES.len());
        assert!(write(&written).is_err(), "what is there stays");
    }
}
