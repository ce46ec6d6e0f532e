//! A recording opened for work: its files, and its columnar form in the cache.

use std::path::{Path, PathBuf};

use anyhow::Context;
use pageblock_recording::{Columnar, Recording};

use crate::progress::Progress;

/// A recording and its columnar form.
pub(crate) struct Session {
    pub(crate) recording: Recording,
    pub(crate) columnar: Columnar,
}

impl Session {
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        let path = path.canonicalize().with_context(|| path.display().to_string())?;
        let recording = Recording::open(&path)?;
        let cache = cache_dir();
        std::fs::create_dir_all(&cache)
            .with_context(|| format!("the cache folder {}", cache.display()))?;
        let bar = Progress::new("reading", 0, "bytes");
        let columnar = recording.columnar(&cache, &mut |done, total| {
            total.into_iter().for_each(|total| bar.resize(total));
            bar.set(done);
        })?;
        Ok(Self { recording, columnar })
    }
}

/// Where columnar forms are kept: `PAGEBLOCK_CACHE`, or the user's cache folder.
fn cache_dir() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    variable("PAGEBLOCK_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|dir| dir.join("pageblock")))
        .or_else(|| variable("HOME").map(|dir| dir.join(".cache/pageblock")))
        .unwrap_or_else(|| std::env::temp_dir().join("pageblock"))
}
