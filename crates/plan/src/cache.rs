//! The cache: what was made of recordings, in a folder for each build of the program, under the name and the fingerprint of
//! the recording. An entry is thus valid for ever, and only its use decides how long it stays.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::program::build;

/// The limit of all entries of all builds, in bytes. What is used meanwhile may go beyond it until the next use of the
/// cache.
const LIMIT_BYTES: u64 = 4 << 30;

/// The ends of the names of entries, behind the fingerprint.
const ENDS: [&str; 3] = [".pbrec", ".demands.pbrec", ".judgement.json"];

/// The digits of a fingerprint in a name.
const DIGITS: usize = 32;

/// The cache while it is used.
pub(crate) struct Cache {
    /// The folder of this build.
    pub(crate) folder: PathBuf,
    /// Tells others not to remove entries.
    _in_use: File,
}

impl Cache {
    /// Opens the cache in a folder, which is made if it does not exist, and removes the entries that were not used for
    /// longest until the others take 4 GiB at most; nothing is removed while another process uses the cache.
    ///
    /// # Errors
    /// If the folder cannot be written.
    pub(crate) fn open(root: &Path) -> io::Result<Self> {
        Self::open_with(root, LIMIT_BYTES)
    }

    fn open_with(root: &Path, limit: u64) -> io::Result<Self> {
        let folder = root.join(build());
        // What recordings hold is for those who may read them.
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let lock = root.join("lock");
        let lock = File::options().create(true).truncate(false).write(true).open(lock)?;
        match lock.try_lock() {
            Ok(()) => remove_oldest(root, limit)?,
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        lock.lock_shared()?;
        Ok(Self { folder, _in_use: lock })
    }

    /// Notes that an entry and what is beside it were used now. `entry` is its path, that of a columnar form.
    pub(crate) fn used(entry: &Path) {
        for end in ENDS {
            let path = entry.with_extension(&end[1..]);
            // What is not there, or cannot be changed, only goes earlier.
            if let Ok(file) = File::options().write(true).open(path) {
                let _ = file.set_modified(SystemTime::now());
            }
        }
    }
}

/// Removes the entries that were not used for longest until the others have `limit` bytes at most. Other files are left
/// alone: the folder may be anybody's.
fn remove_oldest(root: &Path, limit: u64) -> io::Result<()> {
    let mut entries = Vec::new();
    for folder in fs::read_dir(root)? {
        let folder = folder?.path();
        if !folder.is_dir() {
            continue;
        }
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let meta = entry.metadata()?;
            if meta.is_file() && is_entry(&entry.file_name().to_string_lossy()) {
                entries.push((meta.modified()?, meta.len(), entry.path()));
            }
        }
    }
    entries.sort_unstable();
    let mut bytes: u64 = entries.iter().map(|(_, bytes, _)| bytes).sum();
    for (_, size, path) in entries {
        if bytes <= limit {
            break;
        }
        fs::remove_file(path)?;
        bytes -= size;
    }
    Ok(())
}

/// Reports whether a file name is an entry's: `NAME-FINGERPRINT.END`.
fn is_entry(name: &str) -> bool {
    let stem = ENDS.into_iter().filter_map(|end| name.strip_suffix(end)).next_back();
    let Some((_, digits)) = stem.and_then(|stem| stem.rsplit_once('-')) else { return false };
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    digits.len() == DIGITS && digits.bytes().all(is_digit)
}

/// Returns the folder of the cache: `PAGEBLOCK_CACHE`, or the user's folder for such files; `None` if the user has none.
pub(crate) fn root() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    variable("PAGEBLOCK_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|dir| dir.join("pageblock")))
        .or_else(|| variable("HOME").map(|dir| dir.join(".cache/pageblock")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn entry(folder: &Path, name: &str, age_s: u64) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, [0; 100]).unwrap();
        let then = SystemTime::now() - Duration::from_secs(age_s);
        File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
        path
    }

    #[test]
    fn the_entries_that_were_not_used_for_longest_go_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let folder = Cache::open(root.path()).unwrap().folder;
        let other = root.path().join("0.0.9-0123");
        fs::create_dir(&other).unwrap();
        let digits = "0123456789abcdef".repeat(2);
        let old = entry(&other, &format!("a-6.12-{digits}.demands.pbrec"), 500);
        let used = entry(&folder, &format!("b-{digits}.judgement.json"), 400);
        let young = entry(&folder, &format!("c-{digits}.pbrec"), 100);
        let foreign = entry(&folder, "thesis.pbrec", 900);
        Cache::used(&folder.join(format!("b-{digits}.pbrec")));

        // Somebody else uses the cache: nothing goes.
        let beside = Cache::open_with(root.path(), 1 << 20).unwrap();
        drop(Cache::open_with(root.path(), 250).unwrap());
        assert!(old.exists() && young.exists());
        drop(beside);

        drop(Cache::open_with(root.path(), 250).unwrap());
        assert_eq!([&old, &young, &used, &foreign].map(|p| p.exists()), [false, true, true, true]);
        drop(Cache::open_with(root.path(), 150).unwrap());
        assert_eq!([&young, &used, &foreign].map(|p| p.exists()), [false, true, true]);
    }

    #[test]
    fn only_names_of_entries_are_entries() {
        let digits = "f".repeat(DIGITS);
        assert!(is_entry(&format!("x-{digits}.pbrec")));
        assert!(is_entry(&format!("x-y-{digits}.demands.pbrec")));
        for other in ["x.pbrec", "x-ff.pbrec", "-.judgement.json", "lock"] {
            assert!(!is_entry(other), "{other}");
        }
        assert!(!is_entry(&format!("x-{}.pbrec", "g".repeat(DIGITS))));
        assert!(!is_entry(&format!("x-{digits}.toml")));
    }
}
