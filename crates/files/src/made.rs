//! What this run made and has not finished.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tempfile::Builder;

use crate::target::is_own;

/// What names of temporary files begin and end with, and how many random letters are between.
const PREFIX: &str = ".pageblock-";
const SUFFIX: &str = ".tmp";
const LETTERS: usize = 12;
/// A younger file may belong to a run that is about to lock it.
const YOUNG: Duration = Duration::from_secs(60);

/// How often a renamed folder is removed: once more for each file that a thread was about to make when it was renamed.
const TRIES: usize = 100;

static MADE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Locks the list. It is held while a temporary file is made or renamed, so that the list says what is there.
pub(crate) fn lock() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns what makes a temporary file or folder under a random name.
pub(crate) fn builder() -> Builder<'static, 'static> {
    let mut builder = Builder::new();
    builder.prefix(PREFIX).suffix(SUFFIX).rand_bytes(LETTERS);
    builder
}

/// Removes what killed runs of this program left in a folder that is this program's own, such as its cache: temporary files by
/// their names, which no process holds a lock of.
pub fn remove_abandoned(own: &Path) {
    let Ok(entries) = fs::read_dir(own) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_named(path)) {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        let age = meta.modified().ok().and_then(|modified| modified.elapsed().ok());
        let is_abandoned = meta.is_file() && is_own(&meta) && age.is_some_and(|age| age > YOUNG);
        if is_abandoned && File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            // Another run may have removed it first.
            let _ = fs::remove_file(&path);
        }
    }
}

fn is_named(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let letters = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX));
    letters.is_some_and(|l| l.len() == LETTERS && l.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Removes a folder in which another thread may still make files. It is renamed first: a file that is made by its path fails
/// from then on, however fast the thread is, and only a file whose folder was found before can still come.
fn remove_folder(path: &Path) -> io::Result<()> {
    let aside = path.with_extension("gone");
    fs::rename(path, &aside)?;
    let mut result = Ok(());
    for _ in 0..TRIES {
        result = fs::remove_dir_all(&aside);
        match &result {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
            _ => break,
        }
    }
    result
}

/// Removes every file and folder that this run made and has not finished. To be called when the program ends at once, such as
/// after a signal: no other file is begun or finished afterwards.
pub fn remove_unfinished() {
    let mut made = lock();
    for path in std::mem::take(&mut *made) {
        // Nothing can be done about what cannot be removed: the program ends.
        let _ = match path.is_dir() {
            true => remove_folder(&path),
            false => fs::remove_file(&path),
        };
    }
    // Held until the process is gone.
    std::mem::forget(made);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_while_files_are_made_in_it() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("unfinished");
        fs::create_dir(&folder).expect("it is ours");
        std::thread::scope(|scope| {
            let inside = folder.clone();
            scope.spawn(move || {
                let mut names = 0..;
                while names
                    .next()
                    .is_some_and(|name: u32| fs::write(inside.join(name.to_string()), "x").is_ok())
                {
                }
            });
            while fs::read_dir(&folder).is_ok_and(|mut files| files.next().is_none()) {}
            remove_folder(&folder).expect("it is ours");
        });
        let left: Vec<_> = fs::read_dir(place.path()).expect("a folder").collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
