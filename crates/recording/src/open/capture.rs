//! A capture of another tool: one file of events, without the state of the machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pageblock::frame::Pfn;
use pageblock::mobility::Numbering;

use super::events::format_of;
use crate::formats::capture::Machine;
use crate::input::bytes::Input;
use crate::input::bytes::{START_BYTES, refuse_others};
use crate::input::error::Error;
use crate::record::decoding::Decoding;
use crate::record::kernel::KernelVersion;
use crate::state::recording::Recording;
use crate::state::snapshot::{Snapshot, Watermarks, ZoneSnapshot};
use crate::state::zoneinfo::ProcFiles;

/// The version that is assumed where nothing says it: the long-term kernel that most machines of today have.
const ASSUMED: &str = "6.12";

/// What the file does not say and the user can.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CaptureOptions {
    /// The recorded kernel; `None` if the file says it, or it is to be assumed.
    pub kernel: Option<KernelVersion>,
    /// A folder with copies of the machine's `/proc/zoneinfo` and the like.
    pub proc: Option<PathBuf>,
}

impl Recording {
    /// Opens a recording as [`Recording::open`] does; a capture with what the user says about it.
    ///
    /// # Errors
    /// If a needed part is missing, or a part that is there cannot be read.
    pub fn open_with(path: &Path, options: &CaptureOptions) -> Result<Self, Error> {
        let recording = Self::open(path)?;
        if recording.start_known { Ok(recording) } else { open(path, options) }
    }
}

/// Opens a capture, whose format its first bytes tell. Its start state has zones if the options say them, and
/// nothing else.
pub(crate) fn open(path: &Path, options: &CaptureOptions) -> Result<Recording, Error> {
    let Machine { kernel, comms } = machine_of(path)?;
    let kernel = options.kernel.clone().or(kernel);
    let kernel_assumed = kernel.is_none();
    let kernel = kernel.or_else(|| KernelVersion::parse(ASSUMED)).expect("a version");
    let decoding = Decoding { numbering: kernel.numbering(), cma: true };
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let start = match &options.proc {
        Some(folder) => zones_of(ProcFiles::open(folder)?),
        None => Snapshot::default(),
    };
    Ok(Recording {
        name,
        dir: path.to_owned(),
        kernel,
        decoding,
        pageblock_order: 9,
        start,
        end: None,
        comms,
        settings: BTreeMap::new(),
        events_file: path.to_owned(),
        start_known: false,
        kernel_assumed,
        requests_only: false,
    })
}

fn machine_of(path: &Path) -> Result<Machine, Error> {
    let decoding = Decoding { numbering: Numbering::Modern, cma: true };
    let mut input = Input::open(path)?;
    refuse_others(&mut input)?;
    let start = input.peek(START_BYTES)?;
    (format_of(start).machine)(path, start, decoding)
}

/// Returns the zones of a machine, with the limits of its CPU lists and the numbers of its free blocks, and nothing
/// in them.
fn zones_of(files: ProcFiles) -> Snapshot {
    let mut snapshot = Snapshot {
        buddyinfo: Some(files.buddyinfo),
        pagetypeinfo: Some(files.pagetypeinfo).filter(|types| !types.types.is_empty()),
        ..Snapshot::default()
    };
    for zone in files.zones.iter().filter(|zone| zone.managed > 0) {
        let at = snapshot.zones.len() as u16;
        let [min, low, high] = zone.wmark;
        snapshot.zones.push(ZoneSnapshot {
            node: zone.node,
            name: zone.name.clone(),
            start_pfn: Pfn(zone.start()),
            spanned: zone.spanned,
            present: zone.present,
            managed: zone.managed,
            wmark: Watermarks { min, low, high, promo: high },
            ..ZoneSnapshot::default()
        });
        snapshot.pcpinfo.extend(zone.lists.iter().map(|list| list.limits(at)));
    }
    snapshot
}
