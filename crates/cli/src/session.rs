//! An opened recording: its files, and its columnar form in the cache.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use pageblock_recording::{CaptureOptions, Columnar, Error, Recording};
use tempfile::TempDir;

use crate::progress::Progress;

/// A recording and its columnar form.
pub(crate) struct Session {
    pub(crate) recording: Recording,
    pub(crate) columnar: Columnar,
    /// The replacement of a cache that cannot be written; removed with the session.
    temporary: Option<TempDir>,
}

impl Session {
    /// Opens a recording. If the cache cannot be written, prints a warning and works without it.
    pub(crate) fn open(path: &Path, capture: &CaptureOptions) -> anyhow::Result<Self> {
        let path = path.canonicalize().with_context(|| path.display().to_string())?;
        let recording = Recording::open_with(&path, capture)?;
        if recording.start_known && *capture != CaptureOptions::default() {
            bail!("--kernel and --proc are for captures: {} says both itself", path.display());
        }
        let mut session = Self::of(recording)?;
        pageblock_replay::infer::complete(&mut session.recording, &session.columnar)?;
        Ok(session)
    }

    /// Opens a recording to look at what was recorded: no start state is inferred.
    pub(crate) fn recorded(path: &Path, capture: &CaptureOptions) -> anyhow::Result<Self> {
        Self::of(Recording::open_with(path, capture)?)
    }

    fn of(recording: Recording) -> anyhow::Result<Self> {
        let cache = cache_dir();
        let made = std::fs::create_dir_all(&cache);
        let made = made.map_err(|source| Error::Io { file: cache.clone(), source });
        match made.and_then(|()| columnar(&recording, &cache)) {
            Ok(columnar) => Self::with(recording, columnar, None),
            Err(Error::Io { file, source }) if file.starts_with(&cache) => {
                warn(&cache, &source);
                Self::without_cache(recording)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn without_cache(recording: Recording) -> anyhow::Result<Self> {
        let temporary = tempfile::Builder::new().prefix("pageblock-").tempdir();
        let temporary = temporary.context("a folder for temporary files")?;
        let columnar = columnar(&recording, temporary.path())?;
        Self::with(recording, columnar, Some(temporary))
    }

    fn with(
        mut recording: Recording,
        columnar: Columnar,
        temporary: Option<TempDir>,
    ) -> anyhow::Result<Self> {
        if !recording.start_known {
            recording.comms.extend(columnar.comms()?);
        }
        Ok(Self { recording, columnar, temporary })
    }

    /// Creates a file beside the columnar form; if the cache cannot be written, prints a warning and creates it
    /// in a temporary folder.
    pub(crate) fn make<T>(
        &mut self,
        make: impl Fn(&Self) -> Result<T, pageblock_replay::Error>,
    ) -> anyhow::Result<T> {
        let cache = self.columnar.cache.parent().unwrap_or(Path::new("")).to_owned();
        match make(self) {
            Err(pageblock_replay::Error::Recording(Error::Io { file, source }))
                if self.temporary.is_none() && file.starts_with(&cache) =>
            {
                warn(&cache, &source);
                *self = Self::without_cache(self.recording.clone())?;
                Ok(make(self)?)
            }
            made => Ok(made?),
        }
    }
}

fn columnar(recording: &Recording, folder: &Path) -> Result<Columnar, Error> {
    let bar = Progress::new("reading", 0, "bytes");
    recording.columnar(folder, &mut |done, total| {
        total.into_iter().for_each(|total| bar.resize(total));
        bar.set(done);
    })
}

fn warn(cache: &Path, why: &std::io::Error) {
    crate::output::note(&format!(
        "warning: the cache folder {} cannot be written: {}; continuing without it \
         (PAGEBLOCK_CACHE names another)\n",
        crate::output::in_line(&cache.display().to_string()),
        crate::without_os_numbers(&why.to_string())
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
