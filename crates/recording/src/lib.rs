//! Reads recordings of real kernels: every event of the page allocator while a workload ran, with
//! the machine's state at the start and at the end.
//!
//! [`Recording::open`] reads a folder's state and settings; [`Recording::events`] streams its events.
#![forbid(unsafe_code)]

mod anonymise;
mod capture;
pub mod columnar;
mod error;
mod events;
mod files;
mod fingerprint;
mod folder;
mod gfp;
mod input;
mod kernel;
pub mod llfree;
mod losses;
mod names;
mod part;
mod paths;
mod pbrec;
mod perf_data;
mod procfs;
mod record;
mod recording;
mod rows;
mod salvage;
mod seal;
mod snapshot;
mod stream;
pub mod table;
mod tar;
mod text;
mod trace_dat;
mod tsv;
mod window;
mod zoneinfo;

use std::fs::File;
use std::path::{Path, PathBuf};

pub use capture::CaptureOptions;
pub use columnar::{Chunks, Columnar, Records, Writer};
pub use error::{Damage, Error, Expected, Malformed, Place};
pub use events::Events;
pub use fingerprint::Fingerprint;
pub use folder::write_line;
pub use input::{Input, Line};
pub use kernel::KernelVersion;
pub use losses::{Losses, LostByCpu};
pub use part::{Part, Position, Written};
pub use pbrec::pack;
pub use perf_data::PerfData;
pub use procfs::{BuddyInfo, PageTypeInfo, VmStat, ZoneName};
pub use record::{CALLED_BY, NOT_UNDERSTOOD, Other, Record, STACK, What};
pub use recording::Recording;
pub use salvage::salvage;
pub use snapshot::{
    BlockInfo, CompactState, FreeBlock, PageUse, PcpInfo, PcpPage, Snapshot, UsedRange, Watermarks,
    ZoneSnapshot,
};
pub use table::{Batch, Column, ColumnType, TableReader, TableWriter, TextColumn, Texts};
pub use text::{TextLine, TextParser, TextReader};
pub use trace_dat::TraceDat;
pub use tsv::{Decoding, LineParser, TsvReader};
pub use window::{Window, WindowFinder, Windows};
pub use zoneinfo::{ListFigures, ProcFiles, ZoneFigures};

/// The limit of frame numbers in a recording: 64-bit addresses reach at most 2^52 pages.
pub const PFN_LIMIT: u64 = 1 << 52;

/// Finds the file with this name in a folder, plain or compressed.
fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    ["", ".zst", ".xz"].iter().map(|end| dir.join(format!("{name}{end}"))).find(|p| p.is_file())
}

/// Creates a file without a name in the folder for temporary files, whose path is returned for messages.
fn temporary_file() -> Result<(File, PathBuf), Error> {
    let folder = std::env::temp_dir();
    let file = tempfile::tempfile_in(&folder).map_err(|e| Error::io(&folder, e))?;
    Ok((file, folder))
}
