//! Encodes events as rows of columns and decodes them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use pageblock::event::Extfrag;
use pageblock::frame::{ORDER_LIMIT, Pfn};
use pageblock::mobility::Migratetype;
use pageblock::request::Gfp;

use crate::error::Error;
use crate::record::{Other, Record, What};
use crate::table::{Batch, Column, ColumnType, TableWriter};

/// The rows of a batch, whose columns together fit in a level-2 cache.
const BATCH_ROWS: usize = 1 << 16;

/// The values of the column `op`.
pub mod op {
    /// `mm_page_alloc` that was served; `arg` is the flags ([`pageblock::request::Gfp`]).
    pub const ALLOC: u8 = 0;
    /// `mm_page_alloc` that failed; `arg` is the flags.
    pub const ALLOC_FAILED: u8 = 1;
    /// `mm_page_free`.
    pub const FREE: u8 = 2;
    /// `mm_page_free_batched`.
    pub const FREE_BATCHED: u8 = 3;
    /// `mm_page_alloc_zone_locked`; `arg` is 1 if the block goes to a per-CPU list.
    pub const ZONE_LOCKED: u8 = 4;
    /// `mm_page_pcpu_drain`.
    pub const DRAIN: u8 = 5;
    /// `mm_page_alloc_extfrag`; `order` and `mt` are the request's; `arg` is the fallback order, plus the
    /// fallback type shifted by 8, plus the change of ownership shifted by 16.
    pub const EXTFRAG: u8 = 6;
    /// The probe on isolation; `arg` is the return value as a signed number.
    pub const ISOLATE: u8 = 7;
    /// The probe on the bulk allocator; `arg` is the number of pages.
    pub const BULK: u8 = 8;
    /// A marker; `text` is its name.
    pub const MARKER: u8 = 9;
    /// Another event; `text` is its name, a blank, and its arguments.
    pub const OTHER: u8 = 10;
}

/// The indexes of the columns in a batch of [`crate::Columnar::batches`].
pub mod column {
    /// Time.
    pub const T: usize = 0;
    /// CPU.
    pub const CPU: usize = 1;
    /// Process id.
    pub const PID: usize = 2;
    /// Kind of event: [`super::op`].
    pub const OP: usize = 3;
    /// First frame.
    pub const PFN: usize = 4;
    /// Order.
    pub const ORDER: usize = 5;
    /// Migratetype.
    pub const MT: usize = 6;
    /// Further data of the event: [`super::op`].
    pub const ARG: usize = 7;
    /// Text of markers and other events.
    pub const TEXT: usize = 8;
}

/// The columns' names.
pub(crate) const NAMES: [&str; 9] = ["t", "cpu", "pid", "op", "pfn", "order", "mt", "arg", "text"];

/// The widths of the columns `t`, `cpu` and `pfn`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// `t` is the time since the previous row, 0 in the first row ([`crate::Columnar::first_t_us`]), in 32
    /// bits; `cpu` has 8 and `pfn` 32 bits.
    Narrow,
    /// `t` is absolute in 64 bits, `cpu` has 16 and `pfn` 64 bits: for streams whose times are out of order or
    /// too far apart, or whose numbers are large.
    Wide,
}

/// Rows that have not been written yet.
#[derive(Default)]
struct Rows {
    t: Vec<u64>,
    cpu: Vec<u16>,
    pid: Vec<u32>,
    op: Vec<u8>,
    pfn: Vec<u64>,
    order: Vec<u8>,
    mt: Vec<u8>,
    arg: Vec<u32>,
    text: Vec<Box<str>>,
}

impl Rows {
    fn is_empty(&self) -> bool {
        self.op.is_empty()
    }
}

/// Writes events as columns.
pub(crate) struct EventWriter {
    table: TableWriter,
    layout: Layout,
    rows: Rows,
    t_us: Option<u64>,
}

impl EventWriter {
    pub(crate) fn create(path: &Path, layout: Layout) -> Result<Self, Error> {
        use ColumnType::{Text, U8, U16, U32, U64};
        let (t, cpu, pfn) = match layout {
            Layout::Narrow => (U32, U8, U32),
            Layout::Wide => (U64, U16, U64),
        };
        let types = [t, cpu, U32, U8, pfn, U8, U8, U32, Text];
        let columns: Vec<_> = NAMES.into_iter().zip(types).collect();
        let table = TableWriter::create(path, &columns)?;
        Ok(Self { table, layout, rows: Rows::default(), t_us: None })
    }

    /// Appends an event; returns `false` if it does not fit the layout.
    pub(crate) fn push(&mut self, record: &Record) -> Result<bool, Error> {
        let Cells { op, pfn, order, mt, arg, text } = Cells::of(&record.what);
        let t = match self.layout {
            Layout::Narrow => {
                let delta = record.t_us.checked_sub(self.t_us.unwrap_or(record.t_us));
                let fits = |n| n <= u64::from(u32::MAX);
                match delta {
                    Some(delta) if fits(delta) && fits(pfn) && record.cpu < 256 => delta,
                    _ => return Ok(false),
                }
            }
            Layout::Wide => record.t_us,
        };
        self.t_us = Some(record.t_us);
        let rows = &mut self.rows;
        rows.t.push(t);
        rows.cpu.push(record.cpu);
        rows.pid.push(record.pid);
        rows.op.push(op);
        rows.pfn.push(pfn);
        rows.order.push(order);
        rows.mt.push(mt);
        rows.arg.push(arg);
        rows.text.push(text);
        if rows.op.len() == BATCH_ROWS {
            self.flush()?;
        }
        Ok(true)
    }

    /// Reports whether all appended events have been written.
    pub(crate) fn is_flushed(&self) -> bool {
        self.rows.is_empty()
    }

    fn flush(&mut self) -> Result<(), Error> {
        let rows = std::mem::take(&mut self.rows);
        let (t, cpu, pfn) = match self.layout {
            Layout::Narrow => (
                Column::U32(rows.t.into_iter().map(|v| v as u32).collect()),
                Column::U8(rows.cpu.into_iter().map(|v| v as u8).collect()),
                Column::U32(rows.pfn.into_iter().map(|v| v as u32).collect()),
            ),
            Layout::Wide => (Column::U64(rows.t), Column::U16(rows.cpu), Column::U64(rows.pfn)),
        };
        let (pid, op, order) = (Column::U32(rows.pid), Column::U8(rows.op), Column::U8(rows.order));
        let (mt, arg, text) = (Column::U8(rows.mt), Column::U32(rows.arg), Column::Text(rows.text));
        self.table.write(vec![t, cpu, pid, op, pfn, order, mt, arg, text])
    }

    pub(crate) fn finish(mut self, metadata: &BTreeMap<String, String>) -> Result<(), Error> {
        if !self.rows.is_empty() {
            self.flush()?;
        }
        self.table.finish(metadata)
    }
}

/// A row's values other than time, CPU and process.
#[derive(Default)]
struct Cells {
    op: u8,
    pfn: u64,
    order: u8,
    mt: u8,
    arg: u32,
    text: Box<str>,
}

impl Cells {
    fn of(what: &What) -> Self {
        match what {
            What::Alloc { pfn, order, mt, gfp } => Self {
                op: if pfn.is_some() { op::ALLOC } else { op::ALLOC_FAILED },
                pfn: pfn.map_or(0, |pfn| pfn.0),
                order: *order,
                mt: *mt as u8,
                arg: gfp.0,
                ..Self::default()
            },
            What::Free { pfn, order } => {
                Self { op: op::FREE, pfn: pfn.0, order: *order, ..Self::default() }
            }
            What::FreeBatched { pfn } => {
                Self { op: op::FREE_BATCHED, pfn: pfn.0, ..Self::default() }
            }
            What::ZoneLocked { pfn, order, mt, refill } => Self {
                op: op::ZONE_LOCKED,
                pfn: pfn.0,
                order: *order,
                mt: *mt as u8,
                arg: u32::from(*refill),
                ..Self::default()
            },
            What::Drain { pfn, order, mt } => {
                Self { op: op::DRAIN, pfn: pfn.0, order: *order, mt: *mt as u8, ..Self::default() }
            }
            What::Extfrag(x) => Self {
                op: op::EXTFRAG,
                pfn: x.pfn.0,
                order: x.alloc_order,
                mt: x.alloc_migratetype as u8,
                arg: u32::from(x.fallback_order)
                    | (x.fallback_migratetype as u32) << 8
                    | u32::from(x.change_ownership) << 16,
                ..Self::default()
            },
            What::Isolate { pfn, order, ret } => Self {
                op: op::ISOLATE,
                pfn: pfn.0,
                order: *order,
                arg: (*ret).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32 as u32,
                ..Self::default()
            },
            What::Bulk { pages } => Self { op: op::BULK, arg: *pages, ..Self::default() },
            What::Marker(name) => Self { op: op::MARKER, text: name.clone(), ..Self::default() },
            What::Other(other) => Self {
                op: op::OTHER,
                text: format!("{} {}", other.name, other.args).into(),
                ..Self::default()
            },
        }
    }
}

/// Decodes rows of a batch into records.
pub(crate) fn decode(
    batch: &Batch,
    rows: Range<usize>,
    layout: Layout,
    t_us: &mut u64,
    records: &mut Vec<Record>,
) -> Result<(), Error> {
    let pid = &batch.u32(column::PID)?[rows.clone()];
    let op = &batch.u8(column::OP)?[rows.clone()];
    let order = &batch.u8(column::ORDER)?[rows.clone()];
    let mt = &batch.u8(column::MT)?[rows.clone()];
    let arg = &batch.u32(column::ARG)?[rows.clone()];
    let first = rows.start;
    // Decodes the event of a row, counted from the first.
    let what = |row: usize, pfn: u64| {
        what_of(op[row], pfn, order[row], mt[row], arg[row], || {
            batch.text(column::TEXT, first + row)
        })
        .ok_or_else(|| batch.damaged(first + row))
    };
    match layout {
        Layout::Narrow => {
            let t = &batch.u32(column::T)?[rows.clone()];
            let cpu = &batch.u8(column::CPU)?[rows.clone()];
            let pfn = &batch.u32(column::PFN)?[rows];
            for row in 0..pid.len() {
                *t_us = t_us.wrapping_add(u64::from(t[row]));
                let what = what(row, u64::from(pfn[row]))?;
                records.push(Record { t_us: *t_us, cpu: u16::from(cpu[row]), pid: pid[row], what });
            }
        }
        Layout::Wide => {
            let t = &batch.u64(column::T)?[rows.clone()];
            let cpu = &batch.u16(column::CPU)?[rows.clone()];
            let pfn = &batch.u64(column::PFN)?[rows];
            for row in 0..pid.len() {
                let what = what(row, pfn[row])?;
                records.push(Record { t_us: t[row], cpu: cpu[row], pid: pid[row], what });
            }
        }
    }
    Ok(())
}

/// Decodes the event of a row; `None` if the values do not represent one.
#[inline]
fn what_of<'a>(
    op: u8,
    pfn: u64,
    order: u8,
    mt: u8,
    arg: u32,
    text: impl FnOnce() -> Result<&'a str, Error>,
) -> Option<What> {
    let mt = Migratetype::from_index(usize::from(mt))?;
    if order > ORDER_LIMIT || pfn >= crate::PFN_LIMIT {
        return None;
    }
    let pfn = Pfn(pfn);
    Some(match op {
        op::ALLOC => What::Alloc { pfn: Some(pfn), order, mt, gfp: Gfp(arg) },
        op::ALLOC_FAILED => What::Alloc { pfn: None, order, mt, gfp: Gfp(arg) },
        op::FREE => What::Free { pfn, order },
        op::FREE_BATCHED => What::FreeBatched { pfn },
        op::ZONE_LOCKED => What::ZoneLocked { pfn, order, mt, refill: arg != 0 },
        op::DRAIN => What::Drain { pfn, order, mt },
        op::EXTFRAG => What::Extfrag(Extfrag {
            pfn,
            alloc_order: order,
            fallback_order: Some(arg as u8).filter(|&order| order <= ORDER_LIMIT)?,
            alloc_migratetype: mt,
            fallback_migratetype: Migratetype::from_index((arg >> 8 & 0xff) as usize)?,
            change_ownership: arg >> 16 != 0,
        }),
        op::ISOLATE => What::Isolate { pfn, order, ret: i64::from(arg as i32) },
        op::BULK => What::Bulk { pages: arg },
        op::MARKER => What::Marker(text().ok()?.into()),
        op::OTHER => {
            let text = text().ok()?;
            let (name, args) = text.split_once(' ').unwrap_or((text, ""));
            What::Other(Box::new(Other { name: name.into(), args: args.into() }))
        }
        _ => return None,
    })
}
