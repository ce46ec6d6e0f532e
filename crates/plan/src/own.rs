//! Workloads by name: those that are included, and users' own, whose requests come from outside.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use pageblock_measure::run::tables::Tables;
use pageblock_simulate::workload::requests::{Ask, Requests, Source, Stream};
use pageblock_simulate::workload::{self, stated};
use xxhash_rust::xxh3::Xxh3;

use crate::error::{Error, Place, Result, bail};
use crate::jobs::Load;
use crate::text::read_text;

/// The most bytes of a workload file.
const FILE_BYTES: u64 = 1 << 20;

/// The workloads that a name can mean.
#[derive(Clone, Debug, Default)]
pub struct Loads {
    own: Vec<Arc<Requests>>,
}

impl Loads {
    /// Returns those that are included and these.
    ///
    /// # Errors
    /// If two have the same name.
    pub fn with(own: Vec<Arc<Requests>>) -> Result<Self> {
        for (at, of) in own.iter().enumerate() {
            let name = &of.name;
            if workload::find(name).is_some() || own[..at].iter().any(|other| other.name == *name) {
                bail!("workload '{name}' exists already; choose another name");
            }
        }
        Ok(Self { own })
    }

    /// Returns the workload with this name.
    ///
    /// # Errors
    /// If there is none; it lists those that there are.
    pub fn find(&self, name: &str) -> Result<Load> {
        if let Some(own) = self.own.iter().find(|own| own.name == name) {
            return Ok(Load::Own(Arc::clone(own)));
        }
        crate::run::find_workload(name).map(Load::Known)
    }

    /// Returns the workload with this name, or that of a file (`NAME.toml`). What is kept by a workload's name
    /// must not take a file, which may change.
    ///
    /// # Errors
    /// As [`find`](Self::find); if the file cannot be read, or describes no workload.
    pub fn named_or_file(&self, name: &str) -> Result<Load> {
        match is_file(name) {
            true => of_text(&file_text(Path::new(name))?, name).map(|of| Load::Own(Arc::new(of))),
            false => self.find(name),
        }
    }

    /// Returns the workloads whose requests come from outside: nothing tells whether they are those of before.
    #[cfg(feature = "full")]
    pub(crate) fn outside(&self) -> impl Iterator<Item = &Requests> {
        self.own.iter().map(|own| &**own).filter(|own| own.text.is_empty())
    }

    /// Returns the text of the file that describes a workload; empty for others.
    #[cfg(feature = "full")]
    pub(crate) fn text(&self, name: &str) -> &str {
        self.own.iter().find(|own| own.name == name).map_or("", |own| &own.text)
    }

    /// Returns the tables of a workload.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn tables(&self, name: &str) -> Result<Tables> {
        Ok(workload::tables(self.find(name)?.get())?)
    }
}

/// Reports whether a workload's name is that of a file.
#[must_use]
pub fn is_file(name: &str) -> bool {
    name.ends_with(".toml")
}

/// Returns the text of a workload file.
///
/// # Errors
/// If it cannot be read, or is longer than 1 MiB.
pub fn file_text(path: &Path) -> Result<String> {
    read_text(path, "a workload file", FILE_BYTES)
}

/// Returns the workload that the text of the file `name` describes.
///
/// # Errors
/// If it describes none, or its name is that of an included one.
pub fn of_text(text: &str, file: &str) -> Result<Requests> {
    let stated = stated::parse(text).map_err(|error| Error::Asked(error.to_string()));
    let requests = stated.at(|| file)?;
    let name = &requests.name;
    if workload::find(name).is_some() {
        bail!("{file}: workload '{name}' exists already; choose another name");
    }
    Ok(requests)
}

/// The hashes of the batches, from the first to each, by seed and task.
type Seen = Arc<Mutex<BTreeMap<(u64, u32), Vec<u64>>>>;

/// Requests that are checked: the same seed and task must have the same requests in every run, whatever the kernel.
pub struct Checked {
    source: Arc<dyn Source>,
    seen: Seen,
}

impl Checked {
    /// Checks the requests of a source.
    #[must_use]
    pub fn new(source: Arc<dyn Source>) -> Self {
        Self { source, seen: Arc::default() }
    }

    /// Returns a hash of all requests of a seed, task by task.
    #[must_use]
    pub fn digest(&self, seed: u64) -> u64 {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = Xxh3::new();
        for ((_, task), hashes) in seen.range((seed, 0)..=(seed, u32::MAX)) {
            all.update(&task.to_le_bytes());
            all.update(&hashes.last().copied().unwrap_or(0).to_le_bytes());
        }
        all.digest()
    }
}

/// Returns the hash of the requests of a seed, as [`Checked::digest`] does after a run, without one.
#[cfg(feature = "full")]
pub(crate) fn digest(of: &Requests, seed: u64) -> Result<u64> {
    let checked = Checked::new(Arc::clone(&of.source));
    let failed = |error| Error::Asked(format!("{}, seed {seed}: {error}", of.name));
    for task in 0..of.tasks {
        // What is drawn by the size of a machine is described by a file, whose text is compared.
        let mut stream = checked.open(seed, task, 0).map_err(failed)?;
        while stream.next().map_err(failed)?.is_some() {}
    }
    Ok(checked.digest(seed))
}

impl fmt::Debug for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl Source for Checked {
    fn open(
        &self,
        seed: u64,
        task: u32,
        pages: u64,
    ) -> std::result::Result<Box<dyn Stream>, String> {
        Ok(Box::new(CheckedStream {
            stream: self.source.open(seed, task, pages)?,
            seen: Arc::clone(&self.seen),
            of: (seed, task),
            batches: 0,
            hash: Xxh3::new(),
        }))
    }
}

struct CheckedStream {
    stream: Box<dyn Stream>,
    seen: Seen,
    of: (u64, u32),
    batches: usize,
    hash: Xxh3,
}

impl Stream for CheckedStream {
    fn next(&mut self) -> std::result::Result<Option<Vec<Ask>>, String> {
        let Some(batch) = self.stream.next()? else { return Ok(None) };
        for Ask { time_ns, operation, id, amount, offset, flags } in &batch {
            self.hash.update(&time_ns.to_le_bytes());
            self.hash.update(&[*operation as u8]);
            self.hash.update(&id.to_le_bytes());
            self.hash.update(&amount.to_le_bytes());
            self.hash.update(&offset.to_le_bytes());
            self.hash.update(&flags.0.to_le_bytes());
        }
        let hash = self.hash.digest();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = seen.entry(self.of).or_default();
        match before.get(self.batches) {
            Some(first) if *first != hash => {
                let ((seed, task), batch) = (self.of, self.batches);
                return Err(format!(
                    "seed {seed}, task {task}, batch {batch}: the generator gave other requests than for another kernel; \
                     draw every random number from a generator that is made of seed and task"
                ));
            }
            Some(_) => {}
            None => before.push(hash),
        }
        self.batches += 1;
        Ok(Some(batch))
    }
}
