//! The crate against the recordings of real kernels, where they are at hand.

mod recordings;

use std::path::PathBuf;

/// The folder of the recordings, or `None` with a printed message where it is absent.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/recordings");
    let path = PathBuf::from(root).join(name);
    if !path.exists() {
        println!("skipped: {} is absent", path.display());
        return None;
    }
    Some(path)
}
