//! Many machines: what was collected of each is examined, a row each.

mod archive;
mod find;
mod metrics;
mod table;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use pageblock_doctor::checkup::{Sample, Signs, checkup};
use pageblock_doctor::fleet::Row;
use serde::{Deserialize, Serialize};

pub use find::hosts;
pub use table::{batch, save};

use crate::doctor::{DoctorRequest, samples};
use crate::error::{Result, bail, line};
use crate::log;
use crate::watch::Watch;

/// What was collected of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// A copied tree, such as a sosreport.
    Tree,
    /// A sosreport as it is sent: a tar file.
    Archive,
    /// A file of the flight recorder.
    Flight,
    /// What `pageblock metrics` wrote.
    Metrics,
    /// A log of the kernel.
    Log,
    /// None of these, or it cannot be read.
    Unknown,
}

impl Source {
    const fn name(self) -> &'static str {
        match self {
            Self::Tree => "tree",
            Self::Archive => "archive",
            Self::Flight => "flight",
            Self::Metrics => "metrics",
            Self::Log => "log",
            Self::Unknown => "unknown",
        }
    }
}

/// A machine that is to be examined, as it is sent to a worker.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// The file or folder.
    pub path: String,
    /// What it is.
    pub source: Source,
    /// Why it cannot be examined.
    pub error: Option<String>,
}

impl Host {
    /// Examines it. A machine that cannot be examined is a row that says why.
    #[must_use]
    pub fn examine(&self) -> Row {
        let made = match &self.error {
            Some(error) => Err(error.clone()),
            None => self.row().map_err(|error| line(&error)),
        };
        made.unwrap_or_else(|why| Row::failed(&self.name, self.source.name(), &self.path, why))
    }

    fn row(&self) -> Result<Row> {
        let path = Path::new(&self.path);
        let of = |first: &Sample, second: Option<&Sample>| {
            let checkup = checkup(first, second);
            Row::of(&self.name, self.source.name(), &self.path, second.unwrap_or(first), &checkup)
        };
        match self.source {
            Source::Tree => {
                let asked =
                    DoctorRequest { root: Some(path.to_owned()), ..DoctorRequest::default() };
                self.sampled(&asked, of)
            }
            Source::Flight => {
                let asked =
                    DoctorRequest { flight: Some(path.to_owned()), ..DoctorRequest::default() };
                self.sampled(&asked, of)
            }
            Source::Archive => {
                let unpacked = archive::unpack(path)?;
                let inner = find::unpacked(unpacked.folder.path(), self);
                let mut row = inner.examine();
                row.error = row.error.map(|why| self.in_place_of(&inner, &why));
                row.missing = row.missing.map(|why| self.in_place_of(&inner, &why));
                if unpacked.left_out > 0 {
                    let left_out = format!("{} files larger than 64 MiB", unpacked.left_out);
                    row.missing =
                        Some(row.missing.map_or(left_out.clone(), |m| m + "; " + &left_out));
                }
                Ok(Row { path: self.path.clone(), source: self.source.name().to_owned(), ..row })
            }
            Source::Metrics => metrics::row(self, of),
            Source::Log => {
                let explained = log::explain(path)?;
                let signs = Signs::of_reports(&explained.found, explained.lines);
                let sample = Sample { log: Some(signs), ..Sample::default() };
                let mut row = of(&sample, None);
                // That a log has no files of /proc is no lack.
                row.missing = None;
                row.take_report(&explained.found);
                Ok(row)
            }
            Source::Unknown => bail!("{}: no tree, flight file, metrics or log", self.path),
        }
    }

    /// Names the archive where an error names what was unpacked.
    fn in_place_of(&self, inner: &Self, why: &str) -> String {
        why.replace(&inner.path, &self.path)
    }

    fn sampled(
        &self,
        asked: &DoctorRequest,
        of: impl Fn(&Sample, Option<&Sample>) -> Row,
    ) -> Result<Row> {
        match samples(asked, &|_| false)? {
            Some((first, second)) => Ok(of(&first, second.as_ref())),
            None => bail!("{}: stopped", self.path),
        }
    }
}

/// How often the watcher is asked, and the bar drawn.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Examines machines, as many at a time; `None` if it was stopped. The order of the rows is that of the machines.
///
/// # Errors
/// If a thread ends on a defect.
pub fn examine(hosts: &[Host], at_a_time: usize, watch: &dyn Watch) -> Result<Option<Vec<Row>>> {
    let next = AtomicUsize::new(0);
    let (done, results) = sync_channel::<(usize, Row)>(at_a_time.max(1));
    let mut rows: Vec<Option<Row>> = hosts.iter().map(|_| None).collect();
    let bar = watch.bar("examining", hosts.len() as u64, "hosts");
    let stopped = std::thread::scope(|scope| {
        for _ in 0..at_a_time.min(hosts.len()) {
            let (next, done) = (&next, done.clone());
            scope.spawn(move || {
                while let Some((at, host)) = {
                    let at = next.fetch_add(1, Relaxed);
                    hosts.get(at).map(|host| (at, host))
                } {
                    if done.send((at, host.examine())).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        let mut count = 0;
        loop {
            if watch.stopped() {
                // Whoever sends now fails, and ends.
                drop(results);
                return true;
            }
            match results.recv_timeout(LOOK_EVERY) {
                Ok((at, row)) => {
                    rows[at] = Some(row);
                    count += 1;
                    bar.set(count);
                }
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return false,
            }
        }
    });
    if stopped {
        return Ok(None);
    }
    match rows.into_iter().collect() {
        Some(rows) => Ok(Some(rows)),
        None => bail!("a host was not examined: a thread ended on a defect"),
    }
}

#[cfg(test)]
mod tests;
