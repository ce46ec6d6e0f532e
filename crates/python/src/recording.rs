//! Recordings of real kernels.

use std::path::PathBuf;
use std::sync::Arc;

use pageblock_measure::{Grades, Verification};
use pageblock_plan::policy::NamedPolicy;
use pageblock_plan::replays::Wanted;
use pageblock_plan::verify::verify;
use pageblock_plan::{Session, grade, recording, replays};
use pageblock_recording::CaptureOptions;
use pageblock_replay::contents;
use pageblock_report::{contents as print, verify as words};
use pyo3::prelude::*;

use crate::arguments;
use crate::error::{Failure, asked, failed};
use crate::events::Events;
use crate::kernel::{KernelArgument, KernelArguments};
use crate::report::Report;
use crate::runs::Runs;
use crate::table::{Columns, Table};
use crate::work::{Look, watcher, work, work_watched};

/// A recording of a real kernel: a .pbrec, a folder, or a capture of perf, trace-cmd or LLFree.
///
/// `kernel` (a version) and `proc` (a folder with the machine's zoneinfo, buddyinfo and pagetypeinfo) say what a capture
/// does not.
#[pyclass(frozen, module = "pageblock")]
pub(crate) struct Recording {
    path: PathBuf,
    capture: CaptureOptions,
    session: Arc<Session>,
}

#[pymethods]
impl Recording {
    #[new]
    #[pyo3(signature = (path, *, kernel = None, proc = None))]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::path)] path: PathBuf,
        #[pyo3(from_py_with = arguments::version)] kernel: Option<String>,
        #[pyo3(from_py_with = arguments::proc)] proc: Option<PathBuf>,
    ) -> PyResult<Self> {
        let path = recording::path(path).map_err(failed)?;
        let capture = recording::capture(kernel.as_deref(), proc).map_err(failed)?;
        let (path, capture, session) = work(py, move |quiet| {
            let session = Session::recorded(&path, &capture, &watcher(quiet))?;
            Ok((path, capture, session))
        })?;
        Ok(Self { path, capture, session: Arc::new(session) })
    }

    /// Opens a recording: the same as `Recording(path)`.
    #[staticmethod]
    #[pyo3(signature = (path, *, kernel = None, proc = None))]
    fn open(
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::path)] path: PathBuf,
        #[pyo3(from_py_with = arguments::version)] kernel: Option<String>,
        #[pyo3(from_py_with = arguments::proc)] proc: Option<PathBuf>,
    ) -> PyResult<Self> {
        Self::new(py, path, kernel, proc)
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.session.recording.name
    }

    /// What tells it from any other recording: its name and a digest of its content.
    #[getter]
    fn key(&self) -> String {
        self.session.key()
    }

    /// The version of the recorded kernel.
    #[getter]
    fn kernel(&self) -> &str {
        let text = self.session.recording.kernel.text.trim_start_matches("Linux version ");
        text.split_whitespace().next().unwrap_or_default()
    }

    /// The number of events.
    fn __len__(&self) -> PyResult<usize> {
        Ok(usize::try_from(self.session.columnar.events)?)
    }

    /// Returns the events, a row each: all columns, or those that are named.
    #[pyo3(signature = (columns = None))]
    fn events(
        &self,
        #[pyo3(from_py_with = arguments::columns)] columns: Option<Vec<String>>,
    ) -> PyResult<Events> {
        Events::new(&self.session, columns)
    }

    /// Counts the events, as `pageblock recording stats` does; the table has `event` and `count`.
    fn stats(&self, py: Python<'_>) -> PyResult<Report> {
        let session = Arc::clone(&self.session);
        let of = work(py, move |quiet| {
            let Session { recording, columnar, .. } = session.as_ref();
            let watch = watcher(quiet);
            let counted =
                contents::statistics(recording, columnar, &mut |_| {}, &|| watch.stopped())?;
            counted.ok_or_else(stopped)
        })?;
        let each = || of.by_event.iter();
        let table = Columns::of("statistics")
            .text("event", each().map(|(event, _)| Some(event)))
            .counts("count", each().map(|(_, count)| Some(*count)))
            .table()?;
        Report::new(py, print::statistics(&of), pageblock_report::json::to_json(&of), table)
    }

    /// Lets the allocator take every decision that the recorded kernel took, and grades the recording, as
    /// `pageblock verify` does.
    ///
    /// The table has a row for each kind of decision: `decision`, `cases`, `shape` and `exact` (how many of them have the
    /// recorded shape, and are exactly the recorded ones). `kernel` judges by another policy than the recorded kernel's, and
    /// gives no grade; `mismatches` is how many are shown.
    #[pyo3(signature = (kernel = None, *, mismatches = 0))]
    fn verify(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::some_kernel)] kernel: Option<KernelArgument<'_>>,
        #[pyo3(from_py_with = arguments::mismatches)] mismatches: usize,
    ) -> PyResult<Report> {
        let kernel = kernel.map(|kernel| kernel.get()).transpose()?;
        let (path, capture) = (self.path.clone(), self.capture.clone());
        let (verification, grades) = work(py, move |quiet| {
            let mut session = Session::open(&path, &capture, &watcher(quiet))?;
            let own = NamedPolicy::recorded(&session.recording);
            let judged = kernel.as_ref().map_or(&own, |kernel| &kernel.policy);
            let verification = verify(&session, &judged.name, &judged.policy, mismatches)?;
            let grades = match kernel {
                None => grade::make(&mut session, &own, &verification)?,
                Some(_) => None,
            };
            Ok((verification, grades))
        })?;
        verified(py, verification, grades, mismatches)
    }

    /// Replays the recorded requests under the recorded kernel's policy and under each of these, as `pageblock replay`
    /// does, and returns a run for each; its `compare()` marks changes that are larger than the replay's own error.
    /// `baseline` is the kernel that the others are compared with; by default the recorded one. `seeds` replays are made
    /// under each: from the second on the free lists begin rotated, which shows what is chance. `progress` and `stop` are those
    /// of `run`.
    #[pyo3(signature = (kernels, *, baseline = None, seeds = 1, pictures = false, progress = None, stop = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn replay(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::kernels)] kernels: KernelArguments<'_>,
        #[pyo3(from_py_with = arguments::baseline)] baseline: Option<KernelArgument<'_>>,
        #[pyo3(from_py_with = arguments::draws)] seeds: u64,
        #[pyo3(from_py_with = arguments::pictures)] pictures: bool,
        #[pyo3(from_py_with = arguments::progress)] progress: Option<Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arguments::stop)] stop: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Runs> {
        let mut policies = kernels.policies()?;
        let has_baseline = baseline.is_some();
        if let Some(baseline) = baseline {
            let policy = baseline.get()?.policy;
            policies.retain(|other| other.name != policy.name);
            policies.insert(0, policy);
        }
        pageblock_plan::policy::given_once(policies.iter().map(|policy| policy.name.as_str()))
            .map_err(failed)?;
        let (path, capture) = (self.path.clone(), self.capture.clone());
        // The recorded kernel is replayed too, and a history is kept of one replay.
        let recording = &self.session.recording;
        let count = replays::with_recorded(policies.clone(), has_baseline, recording).len();
        let total = count * if pictures { 1 } else { usize::try_from(seeds)? };
        let look = Look::begin(py, progress, total, "replay", stop)?;
        let runs = work_watched(py, &look, move |quiet| {
            let mut session = Session::open(&path, &capture, &watcher(quiet))?;
            let own = NamedPolicy::recorded(&session.recording);
            let policies = replays::with_recorded(policies, has_baseline, &session.recording);
            let replayed = match pictures {
                true => replays::with_history(&mut session, &own, &policies)?,
                false => replays::replays(&mut session, &own, &policies, Wanted::Better, seeds)?,
            };
            replayed
                .map_err(|gap| Failure::Python(asked(format!("nothing can be replayed: {gap}"))))
        })?;
        Ok(Runs::new(runs))
    }

    fn __repr__(&self) -> String {
        let (name, kernel, events) = (self.name(), self.kernel(), self.session.columnar.events);
        format!("<pageblock.Recording {name}: {events} events of {kernel}>")
    }
}

fn stopped() -> Failure {
    Failure::Python(asked("stopped"))
}

fn verified(
    py: Python<'_>,
    verification: Verification,
    grades: Option<Grades>,
    mismatches: usize,
) -> PyResult<Report> {
    let table: Table = {
        let each = || verification.kinds.iter();
        Columns::of("verification")
            .text("decision", each().map(|(name, _)| Some(name)))
            .counts("cases", each().map(|(_, kind)| Some(kind.cases)))
            .counts("shape", each().map(|(_, kind)| Some(kind.shape)))
            .counts("exact", each().map(|(_, kind)| Some(kind.exact)))
            .table()?
    };
    let text = words::print(&verification, grades.as_ref(), mismatches);
    Report::new(py, text, grade::to_json(verification, grades), table)
}
