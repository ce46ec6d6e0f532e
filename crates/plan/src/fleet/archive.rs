//! A sosreport as it is sent: a tar file, compressed or not. What tells of memory is unpacked into a folder that is
//! removed again.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use pageblock_files::{Access, ScratchFolder, part, part_folder};
use pageblock_recording::decompressed;

use crate::error::{Result, bail};

/// The bytes of one file, and of all files, that are unpacked.
const FILE_BYTES: u64 = 64 << 20;
const ALL_BYTES: u64 = 512 << 20;
/// The entries that are looked at: a sosreport has some 20,000.
const ENTRIES: usize = 1_000_000;

/// The folders and files of a machine that are read; what is below them too.
const WANTED: [&str; 11] = [
    "proc",
    "sys/kernel/mm",
    "sys/devices/system/node",
    "etc/hostname",
    "sos_commands/host",
    "sos_commands/kernel",
    "sos_commands/logs",
    "sos_commands/memory",
    "var/log",
    "dmesg",
    "version.txt",
];

/// Returns whether a name is that of an archive which can be unpacked.
pub(super) fn is_archive(name: &str) -> bool {
    [".tar", ".tgz", ".tar.gz", ".txz", ".tar.xz", ".tar.zst"].iter().any(|end| name.ends_with(end))
}

/// What of an archive tells of memory, in a folder of its own, and how many files were too large.
pub(super) struct Unpacked {
    pub(super) folder: ScratchFolder,
    pub(super) left_out: usize,
}

/// Unpacks what tells of memory.
///
/// # Errors
/// If the archive cannot be read, or nothing in it tells of memory.
pub(super) fn unpack(path: &Path) -> Result<Unpacked> {
    let shown = |error: &io::Error| format!("{}: {error}", path.display());
    match files(path) {
        Ok((_, 0, _)) => {
            bail!("{}: nothing in it tells of memory; expected a sosreport", path.display())
        }
        Ok((folder, _, left_out)) => Ok(Unpacked { folder, left_out }),
        Err(error) => bail!("{}", shown(&error)),
    }
}

/// Returns the folder, how many files are in it, and how many were left out.
fn files(path: &Path) -> io::Result<(ScratchFolder, usize, usize)> {
    let folder = ScratchFolder::new()?;
    let (mut files, mut left_out, mut left) = (0, 0, ALL_BYTES);
    let mut archive = tar::Archive::new(decompressed(File::open(path)?)?);
    for entry in archive.entries()?.take(ENTRIES) {
        let mut entry = entry?;
        // Links and devices of a machine mean nothing here.
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let Some(wanted) = wanted(&entry.path()?) else { continue };
        let size = entry.size();
        if size > FILE_BYTES || size > left {
            left_out += 1;
            continue;
        }
        let to = folder.path().join(wanted);
        if let Some(parent) = to.parent() {
            part_folder(parent, Access::Private)?;
        }
        // A name that came before is kept: a later one of an archive that was appended to is not the machine's start.
        let Ok(mut file) = part(&to, Access::Private) else { continue };
        left -= io::copy(&mut (&mut entry).take(FILE_BYTES), &mut file)?.min(left);
        files += 1;
    }
    Ok((folder, files, left_out))
}

/// Returns where a file goes, without the folder that a sosreport has around all; `None` for what is not read, and for
/// names that lead elsewhere.
fn wanted(path: &Path) -> Option<PathBuf> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => parts.push(part),
            Component::CurDir => {}
            _ => return None,
        }
    }
    // The folder around it, if there is one.
    let below = |skipped: usize| parts[skipped..].iter().collect::<PathBuf>();
    let found = (0..parts.len().min(2))
        .map(below)
        .find(|path| WANTED.iter().any(|wanted| path.starts_with(wanted)))?;
    // A machine has 10,000 files of its processes.
    let of_proc = found.strip_prefix("proc").ok().and_then(|path| path.iter().next()?.to_str());
    let is_process = of_proc.is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()));
    (!is_process).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_tells_of_memory_is_taken_and_nothing_leads_elsewhere() {
        let of = |path: &str| wanted(Path::new(path)).map(|path| path.display().to_string());
        assert_eq!(of("sosreport-db/proc/buddyinfo").as_deref(), Some("proc/buddyinfo"));
        assert_eq!(of("./sosreport-db/var/log/messages").as_deref(), Some("var/log/messages"));
        assert_eq!(of("proc/sys/vm/swappiness").as_deref(), Some("proc/sys/vm/swappiness"));
        for other in [
            "sosreport-db/proc/4711/maps",
            "sosreport-db/etc/passwd",
            "a/b/proc/buddyinfo",
            "../proc/buddyinfo",
            "/proc/buddyinfo",
            "sosreport-db/../../proc/buddyinfo",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
