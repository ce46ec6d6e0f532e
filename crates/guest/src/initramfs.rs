//! The guest's first file system: a cpio archive that the kernel unpacks into memory.

use std::collections::BTreeSet;
use std::io::{self, Write};

use cpio::NewcBuilder;
use cpio::newc::{ModeFileType, trailer};

use crate::job::{FILE, Job};
use crate::modules::Module;
use crate::program::{self, HostFile};

/// The folders that the guest mounts on.
const FOLDERS: [&str; 6] = ["/dev", "/proc", "/sys", "/data", "/recording", "/modules"];

/// Returns the path of a module in the guest.
#[must_use]
pub fn module_path(name: &str) -> String {
    format!("/modules/{name}.ko")
}

/// Writes the archive, not compressed: the guest would unpack it more slowly than QEMU reads it.
///
/// # Errors
/// Those of the writer.
pub fn write(to: impl Write, files: &[HostFile], modules: &[Module], job: &Job) -> io::Result<()> {
    let mut archive = Archive { to, inode: 1, folders: BTreeSet::new() };
    for folder in FOLDERS {
        archive.folder(folder)?;
    }
    for HostFile { path, bytes } in files {
        archive.file(path, bytes, 0o755)?;
    }
    // The dynamic linker is known under its short path.
    for file in files.iter().filter(|file| file.path.contains("/ld-linux")) {
        let short = "/lib64/ld-linux-x86-64.so.2";
        if file.path != short {
            archive.entry(short, ModeFileType::Symlink, 0o777, file.path.as_bytes())?;
        }
    }
    archive.entry("/init", ModeFileType::Symlink, 0o777, program::NAME.as_bytes())?;
    for Module { name, bytes } in modules {
        archive.file(&module_path(name), bytes, 0o644)?;
    }
    archive.file(FILE, &serde_json::to_vec(job)?, 0o644)?;
    trailer(archive.to)?.flush()
}

struct Archive<W> {
    to: W,
    inode: u32,
    folders: BTreeSet<String>,
}

impl<W: Write> Archive<W> {
    fn file(&mut self, path: &str, bytes: &[u8], mode: u32) -> io::Result<()> {
        self.entry(path, ModeFileType::Regular, mode, bytes)
    }

    /// Writes a folder after those it is in.
    fn folder(&mut self, path: &str) -> io::Result<()> {
        if path.is_empty() || !self.folders.insert(path.to_owned()) {
            return Ok(());
        }
        self.parent(path)?;
        self.raw(path, ModeFileType::Directory, 0o755, &[])
    }

    fn parent(&mut self, path: &str) -> io::Result<()> {
        path.rsplit_once('/').map_or(Ok(()), |(folder, _)| self.folder(folder))
    }

    fn entry(&mut self, path: &str, kind: ModeFileType, mode: u32, bytes: &[u8]) -> io::Result<()> {
        self.parent(path)?;
        self.raw(path, kind, mode, bytes)
    }

    fn raw(&mut self, path: &str, kind: ModeFileType, mode: u32, bytes: &[u8]) -> io::Result<()> {
        let name = path.trim_start_matches('/');
        let entry =
            NewcBuilder::new(name).ino(self.inode).nlink(1).mode(mode).set_mode_file_type(kind);
        self.inode += 1;
        let size = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let mut writer = entry.write(&mut self.to, size);
        writer.write_all(bytes)?;
        writer.finish().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Disks, Load};

    #[test]
    fn folders_come_before_what_is_in_them() {
        let job = Job {
            load: Load::Boot,
            seed: 1,
            modules: Vec::new(),
            disks: Disks::default(),
            settings: Vec::new(),
            fragment: None,
            record: false,
        };
        let files = [HostFile { path: "/usr/lib/x.so".to_owned(), bytes: b"abc".to_vec() }];
        let mut bytes = Vec::new();
        write(&mut bytes, &files, &[], &job).unwrap();
        let mut names = Vec::new();
        let mut rest = bytes.as_slice();
        loop {
            let mut reader = cpio::NewcReader::new(rest).unwrap();
            if reader.entry().is_trailer() {
                break;
            }
            names.push(reader.entry().name().to_owned());
            io::copy(&mut reader, &mut io::sink()).unwrap();
            rest = reader.finish().unwrap();
        }
        let at = |name: &str| names.iter().position(|n| n == name).unwrap();
        assert!(at("usr") < at("usr/lib") && at("usr/lib") < at("usr/lib/x.so"));
        assert!(at("init") < at("job.json"));
    }
}
