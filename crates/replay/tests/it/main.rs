//! The laboratory against the recordings beside the repository.

mod captures;
mod gaps;
mod history;
mod opening;
mod proc;
mod replay;
mod settings;
mod verify;

use std::path::PathBuf;

use pageblock_recording::Recording;

/// The recordings whose snapshots are exact. Says so and gives none where the folder is missing.
pub(crate) fn exact_recordings() -> Vec<Recording> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: there is no {}", folder.display());
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.retain(|path| path.join("start").is_dir());
    folders.sort();
    let recordings = folders.iter().map(|path| Recording::open(path).expect("it is a recording"));
    recordings.filter(|recording| recording.start.exact).collect()
}
