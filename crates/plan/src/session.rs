//! An opened recording: its files, and its columnar form in the cache.

use std::path::Path;
use std::sync::Arc;

use pageblock_files::ScratchFolder;
use pageblock_recording::{CaptureOptions, Columnar, Error, Recording};
use pageblock_report::text::in_line;

use crate::cache::{self, Cache};
use crate::error::{Place, Result, bail};
use crate::text::without_os_numbers;
use crate::watch::Watch;

/// A recording and its columnar form.
pub struct Session {
    /// The recording.
    pub recording: Recording,
    /// Its columnar form.
    pub columnar: Columnar,
    /// Who watches the work on it.
    pub watch: Arc<dyn Watch>,
    kept: Kept,
}

/// Where what is made of the recording is kept.
enum Kept {
    /// In the cache, whose entries stay while this is held.
    In(Cache),
    /// In a folder that is removed with the session: the cache cannot be written, or there is none.
    ForNow(ScratchFolder),
}

impl Kept {
    fn folder(&self) -> &Path {
        match self {
            Self::In(cache) => &cache.folder,
            Self::ForNow(folder) => folder.path(),
        }
    }
}

/// Opens a recording, or a capture with what the user says of it.
fn opened(path: &Path, capture: &CaptureOptions) -> Result<Recording> {
    let recording = Recording::open_with(path, capture)?;
    if recording.start_known && *capture != CaptureOptions::default() {
        bail!("--kernel and --proc are for captures: {} says both itself", path.display());
    }
    Ok(recording)
}

impl Session {
    /// Opens a recording. If the cache cannot be written, warns and works without it.
    ///
    /// # Errors
    /// If it cannot be read, or its start state cannot be inferred.
    pub fn open(path: &Path, capture: &CaptureOptions, watch: &Arc<dyn Watch>) -> Result<Self> {
        let path = path.canonicalize().at(|| path.display())?;
        let mut session = Self::of(opened(&path, capture)?, watch)?;
        session.note_hidden_losses(&path);
        pageblock_replay::infer::complete(&mut session.recording, &session.columnar)?;
        Ok(session)
    }

    /// Opens a recording to look at what was recorded: no start state is inferred.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn recorded(path: &Path, capture: &CaptureOptions, watch: &Arc<dyn Watch>) -> Result<Self> {
        let session = Self::of(opened(path, capture)?, watch)?;
        session.note_hidden_losses(path);
        Ok(session)
    }

    /// Says where losses cannot be seen.
    fn note_hidden_losses(&self, path: &Path) {
        let is_capture = !self.recording.start_known && path.is_file();
        // A file that cannot be read so is no such text.
        if is_capture
            && self.columnar.losses.total() == 0
            && pageblock_recording::is_perf_script(path).unwrap_or(false)
        {
            self.watch.warn(&format!(
                "{}: `perf script` prints lost events only with --show-lost-events: whether some were lost is not known",
                in_line(&path.display().to_string())
            ));
        }
    }

    fn of(recording: Recording, watch: &Arc<dyn Watch>) -> Result<Self> {
        let Some(root) = cache::root() else { return Self::without_cache(recording, watch) };
        let cache = match Cache::open(&root) {
            Ok(cache) => cache,
            Err(error) => {
                warn(&root, &error, watch.as_ref());
                return Self::without_cache(recording, watch);
            }
        };
        match columnar(&recording, &cache.folder, watch.as_ref()) {
            Ok(columnar) => {
                Cache::used(&columnar.cache);
                Self::with(recording, columnar, Kept::In(cache), watch)
            }
            Err(Error::Io { file, source }) if file.starts_with(&root) => {
                warn(&root, &source, watch.as_ref());
                Self::without_cache(recording, watch)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn without_cache(recording: Recording, watch: &Arc<dyn Watch>) -> Result<Self> {
        let temporary = ScratchFolder::new().at(|| "a folder for temporary files")?;
        let columnar = columnar(&recording, temporary.path(), watch.as_ref())?;
        Self::with(recording, columnar, Kept::ForNow(temporary), watch)
    }

    fn with(
        mut recording: Recording,
        columnar: Columnar,
        kept: Kept,
        watch: &Arc<dyn Watch>,
    ) -> Result<Self> {
        if !recording.start_known {
            recording.comms.extend(columnar.comms()?);
        }
        Ok(Self { recording, columnar, watch: Arc::clone(watch), kept })
    }

    /// Returns what tells the recording from any other, whatever their files are called: its name and its fingerprint.
    #[must_use]
    pub fn key(&self) -> String {
        self.columnar.cache.file_stem().unwrap_or_default().to_string_lossy().into_owned()
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
        match make(self) {
            Err(pageblock_replay::Error::Recording(Error::Io { file, source }))
                if matches!(self.kept, Kept::In(_)) && file.starts_with(self.kept.folder()) =>
            {
                warn(self.kept.folder(), &source, self.watch.as_ref());
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
