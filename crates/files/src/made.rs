//! What this run made and has not finished.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

static MADE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Locks the list. It is held while a temporary file is made or renamed, so that the list says what is there.
pub(crate) fn lock() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes every file and folder that this run made and has not finished. To be called when the program ends at once, such as
/// after a signal: no other file is begun or finished afterwards.
pub fn remove_unfinished() {
    let mut made = lock();
    for path in std::mem::take(&mut *made) {
        // Nothing can be done about what cannot be removed: the program ends.
        let _ = match path.is_dir() {
            true => std::fs::remove_dir_all(&path),
            false => std::fs::remove_file(&path),
        };
    }
    // Held until the process is gone.
    std::mem::forget(made);
}
