//! The files of a guest's disks: holes until the guest writes them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use pageblock_files::{Access, NewFile};

use crate::error::Error;
use crate::job::{Disks, Filesystem};

/// Makes the disks that a job names, in the order of their names, and notes the files in `made`.
///
/// # Errors
/// [`Error::NoRoom`], [`Error::Program`] if a file system cannot be made, [`Error::File`].
pub(crate) fn make(
    folder: &Path,
    disks: &Disks,
    data_mib: u64,
    swap_mib: u64,
    recording_mib: u64,
    made: &mut BTreeSet<PathBuf>,
) -> Result<Vec<PathBuf>, Error> {
    check_room(folder, data_mib + swap_mib)?;
    let mut list = Vec::new();
    let mut add = |name: &str, mib: u64| -> Result<PathBuf, Error> {
        let path = folder.join(name);
        let made_new = NewFile::create(&path, Access::Private).and_then(|(file, new)| {
            file.set_len(mib << 20)?;
            new.finish(&file)
        });
        made_new.map_err(Error::at(&path))?;
        made.insert(path.clone());
        list.push(path.clone());
        Ok(path)
    };
    if let Some((_, filesystem)) = &disks.data {
        format(&add("data.disk", data_mib)?, *filesystem)?;
    }
    if disks.swap.is_some() {
        add("swap.disk", swap_mib)?;
    }
    if disks.recording.is_some() {
        format(&add("recording.disk", recording_mib)?, Filesystem::Ext4)?;
    }
    Ok(list)
}

/// Checks that the host's disk has room for what the guest may write.
fn check_room(folder: &Path, mib: u64) -> Result<(), Error> {
    let room = rustix::fs::statvfs(folder).map_err(|error| Error::at(folder)(error.into()))?;
    let available = (room.f_bavail * room.f_frsize) >> 20;
    if available < mib {
        return Err(Error::NoRoom(format!(
            "{}: a guest's disks take up to {mib} MiB, {available} MiB are free",
            folder.display()
        )));
    }
    Ok(())
}

/// Makes a file system that every kernel from 3.10 on mounts.
fn format(path: &Path, filesystem: Filesystem) -> Result<(), Error> {
    let (program, arguments): (&str, &[&str]) = match filesystem {
        Filesystem::Xfs => (
            "mkfs.xfs",
            &[
                "-q",
                "-f",
                "-m",
                "crc=1,finobt=1,reflink=0,rmapbt=0,bigtime=0,inobtcount=0",
                "-i",
                "sparse=0,nrext64=0",
            ],
        ),
        Filesystem::Ext4 => ("mkfs.ext4", &["-q", "-F", "-O", "^metadata_csum,^orphan_file"]),
    };
    let failed = |why: &str| Error::Program(format!("{program} {}: {why}", path.display()));
    let output = Command::new(tool(program)).args(arguments).arg(path).output();
    let output = output.map_err(|error| failed(&error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(
            String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or("it failed"),
        )),
    }
}

/// Returns the path of a program for disks, which users' paths often lack.
pub(crate) fn tool(name: &str) -> PathBuf {
    let folders = ["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).join(name));
    folders.into_iter().find(|path| path.is_file()).unwrap_or_else(|| PathBuf::from(name))
}

/// Copies the recording from the disk that the guest wrote it to.
///
/// # Errors
/// [`Error::Program`] if there is none.
pub(crate) fn take_recording(folder: &Path) -> Result<(), Error> {
    let (disk, out) = (folder.join("recording.disk"), folder.join("recording.pbrec"));
    let (file, new) = NewFile::create(&out, Access::Private).map_err(Error::at(&out))?;
    let command = format!("dump /recording.pbrec {}", new.path().display());
    let output = Command::new(tool("debugfs")).arg("-R").arg(command).arg(&disk).output();
    let failed = |why: &str| Error::Program(format!("debugfs {}: {why}", disk.display()));
    let output = output.map_err(|error| failed(&error.to_string()))?;
    if file.metadata().is_ok_and(|meta| meta.len() > 0) {
        return new.finish(&file).map_err(Error::at(&out));
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("no recording")))
}
