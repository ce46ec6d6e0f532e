//! An opened recording: its files, and its columnar form in the cache.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pageblock_recording::{CaptureOptions, Columnar, Error, Recording};
use tempfile::TempDir;

use crate::error::{Place, Result, bail};
use crate::text::{in_line, without_os_numbers};
use crate::watch::Watch;

/// A recording and its columnar form.
pub struct Session {
    /// The recording.
    pub recording: Recording,
    /// Its columnar form.
    pub columnar: Columnar,
    /// Who watches the work on it.
    pub watch: Arc<dyn Watch>,
    /// The replacement of a cache that cannot be written; removed with the session.
    temporary: Option<TempDir>,
}

impl Session {
    /// Opens a recording. If the cache cannot be written, warns and works without it.
    ///
    /// # Errors
    /// If it cannot be read, or its start state cannot be inferred.
    pub fn open(path: &Path, capture: &CaptureOptions, watch: &Arc<dyn Watch>) -> Result<Self> {
        let path = path.canonicalize().at(|| path.display())?;
        let recording = Recording::open_with(&path, capture)?;
        if recording.start_known && *capture != CaptureOptions::default() {
            bail!("--kernel and --proc are for captures: {} says both itself", path.display());
        }
        let mut session = Self::of(recording, watch)?;
        pageblock_replay::infer::complete(&mut session.recording, &session.columnar)?;
        Ok(session)
    }

    /// Opens a recording to look at what was recorded: no start state is inferred.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn recorded(path: &Path, capture: &CaptureOptions, watch: &Arc<dyn Watch>) -> Result<Self> {
        Self::of(Recording::open_with(path, capture)?, watch)
    }

    fn of(recording: Recording, watch: &Arc<dyn Watch>) -> Result<Self> {
        let cache = cache_dir();
        let made = std::fs::create_dir_all(&cache);
        let made = made.map_err(|source| Error::Io { file: cache.clone(), source });
        match made.and_then(|()| columnar(&recording, &cache, watch.as_ref())) {
            Ok(columnar) => Self::with(recording, columnar, None, watch),
            Err(Error::Io { file, source }) if file.starts_with(&cache) => {
                warn(&cache, &source, watch.as_ref());
                Self::without_cache(recording, watch)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn without_cache(recording: Recording, watch: &Arc<dyn Watch>) -> Result<Self> {
        let temporary = tempfile::Builder::new().prefix("pageblock-").tempdir();
        let temporary = temporary.at(|| "a folder for temporary files")?;
        let columnar = columnar(&recording, temporary.path(), watch.as_ref())?;
        Self::with(recording, columnar, Some(temporary), watch)
    }

    fn with(
        mut recording: Recording,
        columnar: Columnar,
        temporary: Option<TempDir>,
        watch: &Arc<dyn Watch>,
    ) -> Result<Self> {
        if !recording.start_known {
            recording.comms.extend(columnar.comms()?);
        }
        Ok(Self { recording, columnar, watch: Arc::clone(watch), temporary })
    }

    /// Creates a file beside the columnar form; if the cache cannot be written, warns and creates it in a temporary
    /// folder.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn make<T>(
        &mut self,
        make: impl Fn(&Self) -> std::result::Result<T, pageblock_replay::Error>,
    ) -> Result<T> {
        let cache = self.columnar.cache.parent().unwrap_or(Path::new("")).to_owned();
        match make(self) {
            Err(pageblock_replay::Error::Recording(Error::Io { file, source }))
                if self.temporary.is_none() && file.starts_with(&cache) =>
            {
                warn(&cache, &source, self.watch.as_ref());
                *self = Self::without_cache(self.recording.clone(), &Arc::clone(&self.watch))?;
                Ok(make(self)?)
            }
            made => Ok(made?),
        }
    }
}

fn columnar(
    recording: &Recording,
    folder: &Path,
    watch: &dyn Watch,
) -> std::result::Result<Columnar, Error> {
    let bar = watch.bar("reading", 0, "bytes");
    recording.columnar(folder, &mut |done, total| {
        total.into_iter().for_each(|total| bar.resize(total));
        bar.set(done);
    })
}

fn warn(cache: &Path, why: &std::io::Error, watch: &dyn Watch) {
    watch.warn(&format!(
        "the cache folder {} cannot be written: {}; continuing without it (PAGEBLOCK_CACHE names another)",
        in_line(&cache.display().to_string()),
        without_os_numbers(&why.to_string())
    ));
}

/// Returns the folder of columnar forms: `PAGEBLOCK_CACHE`, or the user's cache folder.
fn cache_dir() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    variable("PAGEBLOCK_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|dir| dir.join("pageblock")))
        .or_else(|| variable("HOME").map(|dir| dir.join(".cache/pageblock")))
        .unwrap_or_else(|| std::env::temp_dir().join("pageblock"))
}
