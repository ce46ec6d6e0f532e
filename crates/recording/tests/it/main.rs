//! Tests of the crate, also with recordings of real kernels if they are available.

mod captures;
#[path = "../../../pageblock/tests/it/circles.rs"]
mod circles;
mod columnar;
mod damage;
#[path = "../../../pageblock/tests/it/folders.rs"]
mod folders;
mod forms;
mod made;
mod not_understood;
mod part;
mod pbrec;
mod readers;
mod recordings;
mod rings;
#[path = "../../../pageblock/tests/it/source.rs"]
mod source;
mod text;
mod trace_dat;

use std::path::PathBuf;

/// Returns the folder of a recording, or `None` with a printed message if it is absent.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/recordings");
    let path = PathBuf::from(root).join(name);
    if !path.exists() {
        println!("skipped: {} is absent", path.display());
        return None;
    }
    Some(path)
}

/// A folder that is removed at the end of a test.
pub(crate) struct TempDir(pub(crate) PathBuf);

impl TempDir {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("pageblock-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
