//! Encodes events as rows of columns and decodes them.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use pageblock::event::Extfrag;
use pageblock::frame::{ORDER_LIMIT, Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock::request::Gfp;
use pageblock_files::NewFile;

use crate::input::error::Error;
use crate::record::event::{Other, PFN_LIMIT, Record, What};
use crate::record::gfp::GfpTexts;
use crate::store::names::{EVENTS, NO_TYPE, TYPES};
use crate::store::table::{Batch, Column, ColumnType, TableWriter, TextColumn, Texts};

/// The rows of a batch, whose columns together fit in a level-2 cache.
const BATCH_ROWS: usize = 1 << 16;
/// The bytes of texts from which a batch is written early.
const BATCH_TEXT_BYTES: usize = 8 << 20;

/// The places of events in [`EVENTS`].
pub(crate) mod op {
    pub(crate) const ALLOC: u8 = 0;
    pub(crate) const FREE: u8 = 1;
    pub(crate) const FREE_BATCHED: u8 = 2;
    pub(crate) const ZONE_LOCKED: u8 = 3;
    pub(crate) const DRAIN: u8 = 4;
    pub(crate) const EXTFRAG: u8 = 5;
    pub(crate) const ISOLATE: u8 = 6;
    pub(crate) const BULK: u8 = 7;
    pub(crate) const MARKER: u8 = 8;
    pub(crate) const OTHER: u8 = 9;
    /// The first event that is kept as text.
    pub(crate) const NAMED: u8 = 10;
}

/// The columns of a table of events: their order is that of [`column`].
const COLUMNS: [(&str, ColumnType); 14] = [
    ("t_us", ColumnType::I64),
    ("cpu", ColumnType::U16),
    ("pid", ColumnType::U32),
    ("event", ColumnType::Names(EVENTS)),
    ("pfn", ColumnType::I64),
    ("order", ColumnType::I8),
    ("migratetype", ColumnType::Names(TYPES)),
    ("gfp", ColumnType::Text),
    ("fallback_order", ColumnType::I8),
    ("fallback_migratetype", ColumnType::Names(TYPES)),
    ("change_ownership", ColumnType::I8),
    ("percpu_refill", ColumnType::I8),
    ("value", ColumnType::I64),
    ("args", ColumnType::Text),
];

mod column {
    pub(super) const T: usize = 0;
    pub(super) const CPU: usize = 1;
    pub(super) const PID: usize = 2;
    pub(super) const EVENT: usize = 3;
    pub(super) const PFN: usize = 4;
    pub(super) const ORDER: usize = 5;
    pub(super) const MT: usize = 6;
    pub(super) const GFP: usize = 7;
    pub(super) const FALLBACK_ORDER: usize = 8;
    pub(super) const FALLBACK_MT: usize = 9;
    pub(super) const OWNERSHIP: usize = 10;
    pub(super) const REFILL: usize = 11;
    pub(super) const VALUE: usize = 12;
    pub(super) const ARGS: usize = 13;
}

/// Returns the columns' names.
pub(crate) fn names() -> [&'static str; COLUMNS.len()] {
    COLUMNS.map(|(name, _)| name)
}

/// What a column holds where it does not apply.
const NONE: i8 = -1;

/// Rows that have not been written yet.
#[derive(Default)]
struct Rows {
    t: Vec<i64>,
    cpu: Vec<u16>,
    pid: Vec<u32>,
    event: Vec<i8>,
    pfn: Vec<i64>,
    order: Vec<i8>,
    mt: Vec<i8>,
    gfp: Texts,
    fallback_order: Vec<i8>,
    fallback_mt: Vec<i8>,
    ownership: Vec<i8>,
    refill: Vec<i8>,
    value: Vec<i64>,
    args: Texts,
}

/// Writes events as columns.
pub(crate) struct EventWriter {
    table: TableWriter,
    rows: Rows,
    /// The texts of the flags that were written.
    gfp: HashMap<u32, Box<str>>,
    events: HashMap<&'static str, i8>,
}

impl EventWriter {
    /// Starts a table of events in a file that was begun; `head` are the texts at its start.
    pub(crate) fn create(
        path: &Path,
        begun: (File, NewFile),
        head: HashMap<String, String>,
    ) -> Result<Self, Error> {
        let table = TableWriter::create_with(path, begun, &COLUMNS, head)?;
        let named = (0..).zip(EVENTS).skip(usize::from(op::NAMED));
        let events = named.map(|(at, &name)| (name, at)).collect();
        Ok(Self { table, rows: Rows::default(), gfp: HashMap::new(), events })
    }

    /// Appends an event.
    pub(crate) fn push(&mut self, record: &Record) -> Result<(), Error> {
        let Self { rows, gfp, events, .. } = self;
        let cells = Cells::of(&record.what, events);
        rows.t.push(record.t_us as i64);
        rows.cpu.push(record.cpu);
        rows.pid.push(record.pid);
        rows.event.push(cells.event);
        rows.pfn.push(cells.pfn);
        rows.order.push(cells.order);
        rows.mt.push(cells.mt);
        rows.fallback_order.push(cells.fallback_order);
        rows.fallback_mt.push(cells.fallback_mt);
        rows.ownership.push(cells.ownership);
        rows.refill.push(cells.refill);
        rows.value.push(cells.value);
        match &record.what {
            What::Alloc { gfp: flags, .. } => {
                rows.gfp.push(gfp.entry(flags.0).or_insert_with(|| flags.to_string().into()));
            }
            _ => rows.gfp.push(""),
        }
        match &record.what {
            What::Marker(name) => rows.args.push(name),
            What::Other(other) if cells.event == op::OTHER as i8 => {
                rows.args.push(&format!("{} {}", other.name, other.args));
            }
            What::Other(other) => rows.args.push(&other.args),
            _ => rows.args.push(""),
        }
        if rows.event.len() == BATCH_ROWS || rows.args.bytes() > BATCH_TEXT_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Reports whether all appended events have been written.
    pub(crate) fn is_flushed(&self) -> bool {
        self.rows.event.is_empty()
    }

    fn flush(&mut self) -> Result<(), Error> {
        let rows = std::mem::take(&mut self.rows);
        self.table.write(vec![
            Column::I64(rows.t),
            Column::U16(rows.cpu),
            Column::U32(rows.pid),
            Column::Names(rows.event),
            Column::I64(rows.pfn),
            Column::I8(rows.order),
            Column::Names(rows.mt),
            Column::Text(rows.gfp),
            Column::I8(rows.fallback_order),
            Column::Names(rows.fallback_mt),
            Column::I8(rows.ownership),
            Column::I8(rows.refill),
            Column::I64(rows.value),
            Column::Text(rows.args),
        ])
    }

    pub(crate) fn finish(mut self, metadata: &BTreeMap<String, String>) -> Result<(), Error> {
        if !self.is_flushed() {
            self.flush()?;
        }
        self.table.finish(metadata)
    }
}

/// The numbers of a row other than time, CPU and process.
struct Cells {
    event: i8,
    pfn: i64,
    order: i8,
    mt: i8,
    fallback_order: i8,
    fallback_mt: i8,
    ownership: i8,
    refill: i8,
    value: i64,
}

impl Cells {
    fn of(what: &What, events: &HashMap<&'static str, i8>) -> Self {
        let row = |event: u8| Self {
            event: event as i8,
            pfn: NONE.into(),
            order: NONE,
            mt: NO_TYPE,
            fallback_order: NONE,
            fallback_mt: NO_TYPE,
            ownership: NONE,
            refill: NONE,
            value: 0,
        };
        let block = |event, pfn: &Pfn, order: Order| Self {
            pfn: pfn.0 as i64,
            order: order as i8,
            ..row(event)
        };
        match what {
            What::Alloc { pfn, order, mt, .. } => Self {
                pfn: pfn.map_or(NONE.into(), |pfn| pfn.0 as i64),
                order: *order as i8,
                mt: *mt as i8,
                ..row(op::ALLOC)
            },
            What::Free { pfn, order } => block(op::FREE, pfn, *order),
            What::FreeBatched { pfn } => block(op::FREE_BATCHED, pfn, 0),
            What::ZoneLocked { pfn, order, mt, refill } => Self {
                mt: *mt as i8,
                refill: i8::from(*refill),
                ..block(op::ZONE_LOCKED, pfn, *order)
            },
            What::Drain { pfn, order, mt } => {
                Self { mt: *mt as i8, ..block(op::DRAIN, pfn, *order) }
            }
            What::Extfrag(x) => Self {
                mt: x.alloc_migratetype as i8,
                fallback_order: x.fallback_order as i8,
                fallback_mt: x.fallback_migratetype as i8,
                ownership: i8::from(x.change_ownership),
                ..block(op::EXTFRAG, &x.pfn, x.alloc_order)
            },
            What::Isolate { pfn, order, ret } => {
                Self { value: *ret, ..block(op::ISOLATE, pfn, *order) }
            }
            What::Bulk { pages } => Self { value: i64::from(*pages), ..row(op::BULK) },
            What::Marker(_) => row(op::MARKER),
            What::Other(other) => {
                let event = events.get(&*other.name).copied();
                row(event.map_or(op::OTHER, |event| event as u8))
            }
        }
    }
}

/// What the names of a batch stand for.
#[derive(Default)]
pub(crate) struct Codes {
    events: Vec<u8>,
    types: Vec<Option<Migratetype>>,
    fallback_types: Vec<Option<Migratetype>>,
}

impl Codes {
    /// Finds the names of a batch; an unknown one makes an error of the rows that have it.
    pub(crate) fn of(batch: &Batch) -> Result<Self, Error> {
        let (_, events) = batch.names(column::EVENT)?;
        let (_, types) = batch.names(column::MT)?;
        let (_, fallback_types) = batch.names(column::FALLBACK_MT)?;
        let place = |names: &[&str], name: &str| names.iter().position(|known| *known == name);
        let types_of = |types: TextColumn<'_>| {
            let of = |row| Migratetype::from_index(place(TYPES, types.get(row))?);
            (0..types.len()).map(of).collect()
        };
        let event = |row| place(EVENTS, events.get(row)).map_or(u8::MAX, |at| at as u8);
        Ok(Self {
            events: (0..events.len()).map(event).collect(),
            types: types_of(types),
            fallback_types: types_of(fallback_types),
        })
    }
}

/// Decodes rows of a batch into records.
pub(crate) fn decode(
    batch: &Batch,
    rows: Range<usize>,
    codes: &Codes,
    gfp: &mut GfpTexts,
    records: &mut Vec<Record>,
) -> Result<(), Error> {
    let t = &batch.i64(column::T)?[rows.clone()];
    let cpu = &batch.u16(column::CPU)?[rows.clone()];
    let pid = &batch.u32(column::PID)?[rows.clone()];
    let event = &batch.names(column::EVENT)?.0[rows.clone()];
    let mut decoder = Decoder {
        codes,
        gfp,
        pfn: batch.i64(column::PFN)?,
        order: batch.i8(column::ORDER)?,
        mt: batch.names(column::MT)?.0,
        gfp_texts: batch.texts(column::GFP)?,
        fallback_order: batch.i8(column::FALLBACK_ORDER)?,
        fallback_mt: batch.names(column::FALLBACK_MT)?.0,
        ownership: batch.i8(column::OWNERSHIP)?,
        refill: batch.i8(column::REFILL)?,
        value: batch.i64(column::VALUE)?,
        args: batch.texts(column::ARGS)?,
    };
    let first = rows.start;
    for row in 0..event.len() {
        let op = codes.events.get(event[row] as usize).copied().unwrap_or(u8::MAX);
        let what = decoder.what(op, first + row);
        let what = what.unwrap_or_else(|| decoder.not_understood(op, first + row));
        records.push(Record { t_us: t[row] as u64, cpu: cpu[row], pid: pid[row], what });
    }
    Ok(())
}

/// The columns of a batch by which events differ.
struct Decoder<'a> {
    codes: &'a Codes,
    gfp: &'a mut GfpTexts,
    pfn: &'a [i64],
    order: &'a [i8],
    mt: &'a [i8],
    gfp_texts: TextColumn<'a>,
    fallback_order: &'a [i8],
    fallback_mt: &'a [i8],
    ownership: &'a [i8],
    refill: &'a [i8],
    value: &'a [i64],
    args: TextColumn<'a>,
}

impl Decoder<'_> {
    /// Decodes the event of a row; `None` if the values do not represent one.
    #[inline]
    fn what(&mut self, op: u8, row: usize) -> Option<What> {
        Some(match op {
            op::ALLOC => What::Alloc {
                pfn: if self.pfn[row] == i64::from(NONE) { None } else { Some(self.pfn(row)?) },
                order: order(self.order[row])?,
                mt: self.mt(row)?,
                gfp: self.flags(row)?,
            },
            op::FREE => What::Free { pfn: self.pfn(row)?, order: order(self.order[row])? },
            op::FREE_BATCHED => What::FreeBatched { pfn: self.pfn(row)? },
            op::ZONE_LOCKED => What::ZoneLocked {
                pfn: self.pfn(row)?,
                order: order(self.order[row])?,
                mt: self.mt(row)?,
                refill: self.refill[row] == 1,
            },
            op::DRAIN => What::Drain {
                pfn: self.pfn(row)?,
                order: order(self.order[row])?,
                mt: self.mt(row)?,
            },
            op::EXTFRAG => What::Extfrag(Extfrag {
                pfn: self.pfn(row)?,
                alloc_order: order(self.order[row])?,
                fallback_order: order(self.fallback_order[row])?,
                alloc_migratetype: self.mt(row)?,
                fallback_migratetype: {
                    let types = &self.codes.fallback_types;
                    types.get(self.fallback_mt[row] as usize).copied().flatten()?
                },
                change_ownership: self.ownership[row] == 1,
            }),
            op::ISOLATE => What::Isolate {
                pfn: self.pfn(row)?,
                order: order(self.order[row])?,
                ret: self.value[row],
            },
            op::BULK => What::Bulk { pages: u32::try_from(self.value[row]).ok()? },
            op::MARKER => What::Marker(self.args.get(row).into()),
            op::OTHER => {
                let text = self.args.get(row);
                let (name, args) = text.split_once(' ').unwrap_or((text, ""));
                What::Other(Box::new(Other { name: name.into(), args: args.into() }))
            }
            named => What::Other(Box::new(Other {
                name: (*EVENTS.get(usize::from(named))?).into(),
                args: self.args.get(row).into(),
            })),
        })
    }

    /// Keeps a row whose values represent no event of the model: other programs write such files too.
    #[cold]
    fn not_understood(&self, op: u8, row: usize) -> What {
        let name = EVENTS.get(usize::from(op)).copied().unwrap_or("event");
        let args = format!(
            "pfn={} order={} value={} gfp_flags={} {}",
            self.pfn[row],
            self.order[row],
            self.value[row],
            self.gfp_texts.get(row),
            self.args.get(row)
        );
        What::not_understood(name, args.trim_end())
    }

    #[inline]
    fn pfn(&self, row: usize) -> Option<Pfn> {
        Some(Pfn(u64::try_from(self.pfn[row]).ok().filter(|&pfn| pfn < PFN_LIMIT)?))
    }

    #[inline]
    fn mt(&self, row: usize) -> Option<Migratetype> {
        self.codes.types.get(self.mt[row] as usize).copied().flatten()
    }

    #[inline]
    fn flags(&mut self, row: usize) -> Option<Gfp> {
        self.gfp.get(self.gfp_texts.get(row).as_bytes())
    }
}

#[inline]
fn order(value: i8) -> Option<Order> {
    Order::try_from(value).ok().filter(|&order| order <= ORDER_LIMIT)
}
