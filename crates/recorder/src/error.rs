//! Why a machine cannot be recorded.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use pageblock_files::Access;

/// Why a recording cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file of the kernel or of the recording cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What was recorded cannot be read, or not be written as one file.
    #[error(transparent)]
    Recording(#[from] pageblock_recording::Error),
    /// There is no tracefs.
    #[error(
        "no tracefs at /sys/kernel/tracing or /sys/kernel/debug/tracing; mount it with `mount -t tracefs none \
         /sys/kernel/tracing`, or read another tool's capture"
    )]
    NoTracefs,
    /// Only root may.
    #[error(
        "{path}: root is needed to record; without it, `pageblock explain` reads a log and `pageblock verify` a \
         recording",
        path = path.display()
    )]
    NotRoot {
        /// What could not be opened.
        path: PathBuf,
    },
    /// The kernel forbids it even to root.
    #[error(
        "{path}: the kernel is locked down ({mode}, /sys/kernel/security/lockdown), which forbids tracing even to root; boot \
         with lockdown=none, or read a recording of another machine",
        path = path.display()
    )]
    LockedDown {
        /// What could not be opened.
        path: PathBuf,
        /// The mode of the lockdown.
        mode: String,
    },
    /// Something else forbids it even to root.
    #[error(
        "{path}: it is forbidden even to root: by a lockdown of the kernel (`dmesg | grep -i lockdown`), or in a container \
         without CAP_SYS_ADMIN; record on the host, or read a recording of another machine",
        path = .0.display()
    )]
    Forbidden(PathBuf),
    /// The kernel lacks an event that a replay needs.
    #[error("this kernel has no tracepoint {0}; it is needed")]
    NoEvent(&'static str),
    /// The kernel takes no stacks of events.
    #[error("{path}: this kernel takes no stacks (CONFIG_STACKTRACE); record without --stacks", path = .0.display())]
    NoStacks(PathBuf),
    /// The folder to write exists.
    #[error("{path} exists; name another with -o", path = .0.display())]
    Exists(PathBuf),
    /// A folder is not one that a recorder left behind.
    #[error("{path} is not what a killed recorder leaves behind: it has no {missing}", path = path.display())]
    NotPartial {
        /// The folder.
        path: PathBuf,
        /// What it lacks.
        missing: &'static str,
    },
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
    /// A recording could not be finished, but what was recorded can be saved.
    #[error(
        "{why}; what was recorded is kept: `pageblock record --salvage {partial} -o NAME.pbrec` makes a recording of it, on \
         another disk too",
        partial = partial.display()
    )]
    Kept {
        /// The folder of what was recorded.
        partial: PathBuf,
        /// Why it could not be finished.
        why: Box<Error>,
    },
    /// A file of the kernel is not as expected.
    #[error("{path}: found {found}; allowed: {expected}", path = path.display())]
    Unexpected {
        /// The file.
        path: PathBuf,
        /// What stands there.
        found: String,
        /// What may.
        expected: &'static str,
    },
}

impl Error {
    /// Says that a folder exists where that is why it cannot be made.
    pub(crate) fn creating(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::AlreadyExists => Self::Exists(path.to_owned()),
            _ => Self::io(path)(source),
        }
    }

    /// Says why something is forbidden.
    pub(crate) fn denied(path: &Path) -> Self {
        Self::denied_under(path, &lockdown())
    }

    /// Says why an instance of tracefs cannot be made: a locked-down kernel calls it an invalid argument.
    pub(crate) fn making(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match Self::denied(path) {
            locked @ Self::LockedDown { .. } => locked,
            _ => Self::io(path)(source),
        }
    }

    /// Says why something is forbidden; the mode of the lockdown stands in brackets.
    fn denied_under(path: &Path, modes: &str) -> Self {
        let path = path.to_owned();
        let mode = modes.split(['[', ']']).nth(1).filter(|mode| *mode != "none");
        // Without root the lockdown is not what forbids it.
        match (rustix::process::geteuid().is_root(), mode) {
            (false, _) => Self::NotRoot { path },
            (true, Some(mode)) => Self::LockedDown { path, mode: mode.to_owned() },
            (true, None) => Self::Forbidden(path),
        }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| {
            let path = path.to_owned();
            match source.kind() {
                io::ErrorKind::PermissionDenied => Self::denied(&path),
                _ => Self::Io { path, source },
            }
        }
    }
}

/// Returns the modes of the kernel's lockdown, the current one in brackets; nothing where it has none.
fn lockdown() -> String {
    std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default()
}

/// Reads a file of the kernel as text.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    // Some files of tracefs have one answer only, which is cut where the buffer is small.
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = Vec::new();
    let mut file = File::open(path).map_err(Error::io(path))?;
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io(path)(error)),
        }
    }
}

/// Writes a file of the kernel, which is there.
pub(crate) fn set(path: &Path, content: &str) -> Result<(), Error> {
    let file = File::options().write(true).open(path);
    file.and_then(|mut file| file.write_all(content.as_bytes())).map_err(Error::io(path))
}

/// Writes a file in a recorder's own folder, for its user alone.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Error> {
    pageblock_files::write(path, content.as_ref(), Access::Private).map_err(Error::io(path))
}

/// Makes a new file in a recorder's own folder, for its user alone.
pub(crate) fn part(path: &Path) -> Result<File, Error> {
    pageblock_files::part(path, Access::Private).map_err(Error::io(path))
}

/// Makes a new folder in a recorder's own folder, for its user alone.
pub(crate) fn part_folder(path: &Path) -> Result<(), Error> {
    pageblock_files::part_folder(path, Access::Private).map_err(Error::io(path))
}

/// Copies a file into a recorder's own folder.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    let mut source = File::open(from).map_err(Error::io(from))?;
    io::copy(&mut source, &mut part(to)?).map(drop).map_err(Error::io(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lockdown_is_told_from_a_missing_right() {
        let under = |modes| Error::denied_under(Path::new("/x"), modes).to_string();
        let texts =
            ["", "[none] integrity confidentiality\n", "none integrity [confidentiality]\n"];
        let root = rustix::process::geteuid().is_root();
        let expected = if root {
            ["even to root: by", "even to root: by", "locked down (confidentiality"]
        } else {
            ["root is needed"; 3]
        };
        for (modes, expected) in texts.into_iter().zip(expected) {
            assert!(under(modes).contains(expected), "{modes}");
        }
    }
}
