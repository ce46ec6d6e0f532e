//! A recording: one file or a folder with events, the state at the start and at the end, and settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pageblock::frame::Order;

use super::paths::{EVENTS, find};
use crate::formats::trace_dat;
use crate::input::error::Error;
use crate::record::decoding::Decoding;
use crate::record::kernel::KernelVersion;
use crate::state::files::Files;
use crate::state::procfs::PageTypeInfo;
use crate::state::snapshot::Snapshot;

/// A recording of a kernel. The events are read on demand ([`Recording::events`]).
#[derive(Clone, Debug)]
pub struct Recording {
    /// The folder's name; of a `.pbrec` its name without the ending.
    pub name: String,
    /// The folder; of a `.pbrec` or a capture its file.
    pub dir: PathBuf,
    /// The recorded kernel.
    pub kernel: KernelVersion,
    /// How that kernel numbers its migratetypes.
    pub decoding: Decoding,
    /// The order of a pageblock; 9 if the recording does not say.
    pub pageblock_order: Order,
    /// The state at the start: at a point between the markers `S1` and `S2`.
    pub start: Snapshot,
    /// The state at the end: at a point between the markers `E1` and `E2`.
    pub end: Option<Snapshot>,
    /// Command names by process id.
    pub comms: BTreeMap<u32, String>,
    /// Settings and other small files of the machine by path without the first `/`, such as
    /// `proc/sys/vm/min_free_kbytes`.
    pub settings: BTreeMap<String, String>,
    /// The file with the events.
    pub events_file: PathBuf,
    /// Whether the state at the start was recorded; else it is to be inferred from the events.
    pub start_known: bool,
    /// Whether the kernel's version is assumed, as nothing says it.
    pub kernel_assumed: bool,
    /// Whether there are requests and frees only, and no event of what zones give and take: `perf kmem record
    /// --page` records so.
    pub requests_only: bool,
}

impl Recording {
    /// Opens the states and settings of a folder whose events are elsewhere ([`Recording::save_events`]).
    ///
    /// # Errors
    /// If a needed part is missing, or a part that is there cannot be read.
    pub fn open_states(dir: &Path) -> Result<Self, Error> {
        let name =
            dir.canonicalize().ok().as_deref().unwrap_or(dir).file_name().map_or_else(
                || dir.display().to_string(),
                |name| name.to_string_lossy().into_owned(),
            );
        let files = Files::Folder(dir.to_owned());
        let kernel = kernel(&files, &name)?;
        if find(&dir.join("start"), "snapshot.txt").is_none() {
            return Err(Snapshot::missing(&dir.join("start")));
        }
        Self::of(&files, name, kernel, dir.join(EVENTS[0]))
    }

    /// Makes a recording of its files. Without a folder `start` the state at the start is unknown.
    pub(crate) fn of(
        files: &Files,
        name: String,
        kernel: KernelVersion,
        events_file: PathBuf,
    ) -> Result<Self, Error> {
        let start_known = files.has_folder("start");
        let types = match files.open("start/pagetypeinfo")? {
            Some(input) => Some(PageTypeInfo::read(input)?),
            None => None,
        };
        let cma = types.as_ref().map_or(!start_known, PageTypeInfo::has_cma);
        let decoding = Decoding { numbering: kernel.numbering(), cma };
        let state = |side| Snapshot::open(files, side, decoding);
        let settings = files.settings()?.into_iter();
        Ok(Self {
            name,
            dir: files.path().to_owned(),
            kernel,
            decoding,
            pageblock_order: types.and_then(|types| types.pageblock_order).unwrap_or(9),
            start: if start_known { state("start")? } else { Snapshot::default() },
            end: if files.has_folder("end") { Some(state("end")?) } else { None },
            comms: comms(files)?,
            settings: settings
                .map(|(path, text)| (path, String::from_utf8_lossy(&text).into_owned()))
                .collect(),
            events_file,
            start_known,
            kernel_assumed: false,
            requests_only: false,
        })
    }
}

fn kernel(files: &Files, name: &str) -> Result<KernelVersion, Error> {
    let version = files.settings()?.remove("proc/version");
    let version = version.map(|text| String::from_utf8_lossy(&text).into_owned());
    if let Some(kernel) = version.and_then(|text| KernelVersion::parse(&text)) {
        return Ok(kernel);
    }
    if let Some(mut input) = files.open("README.md")? {
        let text = input.read_to_end(1 << 20)?;
        let text = String::from_utf8_lossy(&text);
        let line = text
            .lines()
            .find_map(|line| line.trim_start_matches([' ', '*', '-']).strip_prefix("kernel:"));
        let quoted = |line: &str| line.trim().trim_matches('`').to_owned();
        if let Some(kernel) = line.and_then(|line| KernelVersion::parse(&quoted(line))) {
            return Ok(kernel);
        }
    }
    if let Some(path) = find(files.path(), "trace.dat")
        && let Some(kernel) = trace_dat::kernel_of(&path)?
    {
        return Ok(kernel);
    }
    KernelVersion::from_folder_name(name).ok_or_else(|| Error::Missing {
        path: files.path().to_owned(),
        what: "kernel version",
        expected: "proc__version in static.tar, a line `* kernel: x.y.z` in README.md, the system's \
                   name in trace.dat, or x.y as a part of the folder's name",
    })
}

pub(crate) fn comms(files: &Files) -> Result<BTreeMap<u32, String>, Error> {
    let Some(mut input) = files.open("comms.json")? else { return Ok(BTreeMap::new()) };
    let text = input.read_to_end(64 << 20)?;
    serde_json::from_slice(&text).map_err(|error| {
        let line = error.line() as u64;
        let found = if error.is_data() { "a value of another kind" } else { "invalid JSON" };
        let expected = "an object from process id to name, such as {\"112\": \"ls\"}";
        Error::unexpected(input.place_of(line, 0), found, expected)
    })
}
