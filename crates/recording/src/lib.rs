//! Reads recordings of real kernels: every event of the page allocator while a workload ran, with
//! the machine's state at the start and at the end.
//!
//! [`Recording::open`] reads a folder's state and settings; [`Recording::events`] streams its events.
#![forbid(unsafe_code)]

pub mod columnar;
mod error;
mod gfp;
mod input;
mod kernel;
mod procfs;
mod record;
mod recording;
mod seal;
mod snapshot;
pub mod table;
mod tar;
mod tsv;
mod window;

use std::path::{Path, PathBuf};

pub use columnar::{Chunks, Columnar, Layout, Records};
pub use error::{Damage, Error, Expected, Malformed, Place};
pub use input::{Input, Line};
pub use kernel::KernelVersion;
pub use procfs::{BuddyInfo, PageTypeInfo, VmStat, ZoneName};
pub use record::{Other, Record, What};
pub use recording::{Events, Recording};
pub use snapshot::{
    BlockInfo, CompactState, FreeBlock, PageUse, PcpInfo, PcpPage, Snapshot, UsedRange, Watermarks,
    ZoneSnapshot,
};
pub use table::{Batch, Column, ColumnType, TableReader, TableWriter};
pub use tsv::{Decoding, LineParser, TsvReader};
pub use window::{Window, WindowFinder, Windows};

/// Frame numbers in a recording are below this: 2^52 pages are all that 64-bit addresses reach.
pub const PFN_LIMIT: u64 = 1 << 52;

/// The file of this name in a folder, plain or compressed.
fn find(dir: &Path, name: &str) -> Option<PathBuf> {
    ["", ".zst", ".xz"].iter().map(|end| dir.join(format!("{name}{end}"))).find(|p| p.is_file())
}
