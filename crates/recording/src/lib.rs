//! Reads recordings of real kernels: every event of the page allocator while a workload ran, with
//! the machine's state at the start and at the end.
//!
//! [`Recording::open`] reads a folder's state and settings; [`Recording::events`] streams its events.
//!
//! Each folder imports only from itself and the folders before it, in this order: `input`, `record`, `formats`, `state`,
//! `store`, `open`, `convert` (`tests/it/rings.rs`). A capture format is one file that implements [`Capture`], and one line
//! in `open/events.rs`.
#![forbid(unsafe_code)]

mod convert;
mod formats;
mod input;
mod open;
mod record;
mod state;
mod store;

pub use convert::llfree;
pub use convert::pack::pack;
pub use convert::part::{Part, Written};
pub use convert::salvage::salvage;
pub use formats::capture::{Capture, Machine};
pub use formats::events::Events;
pub use formats::perf_data::PerfData;
pub use formats::text::{TextLine, TextParser, TextReader, is_perf_script};
pub use formats::trace_dat::TraceDat;
pub use formats::tsv::{LineParser, TsvReader, write_line};
pub use input::bytes::{Input, Line};
pub use input::compression::{decompressed, is_packed};
pub use input::error::{Damage, Error, Expected, Malformed, Place};
pub use open::capture::CaptureOptions;
pub use record::decoding::Decoding;
pub use record::event::{CALLED_BY, NOT_UNDERSTOOD, Other, PFN_LIMIT, Record, STACK, What};
pub use record::gfp;
pub use record::kernel::KernelVersion;
pub use record::losses::{Losses, LostByCpu};
pub use state::meminfo::MemInfo;
pub use state::procfs::{BuddyInfo, PageTypeInfo, VmStat, ZoneName};
pub use state::recording::Recording;
pub use state::snapshot::{
    BlockInfo, CompactState, FreeBlock, PageUse, PcpInfo, PcpPage, Snapshot, UsedRange, Watermarks,
    ZoneSnapshot,
};
pub use state::window::{Window, WindowFinder, Windows};
pub use state::zoneinfo::{ListFigures, ProcFiles, ZoneFigures};
pub use store::columnar::{Chunks, Columnar, Position, Records, Writer};
pub use store::fingerprint::Fingerprint;
pub use store::table::{Batch, Column, ColumnType, TableReader, TableWriter, TextColumn, Texts};
pub use store::{columnar, table};
