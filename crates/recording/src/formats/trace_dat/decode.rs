//! Decodes ring-buffer records into events, by the fields that the event's format names.

use std::collections::BTreeMap;

use pageblock::event::Extfrag;
use pageblock::frame::{ORDER_LIMIT, Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock::request::Gfp;

use super::expr::flags_text;
use super::format::{Field, Format};
use super::print::{Print, plain};
use super::symbols::Symbols;
use crate::input::source::Endian;
use crate::record::decoding::Decoding;
use crate::record::event::{CALLED_BY, Other, PFN_LIMIT, STACK, What};

/// The prefix that some recorders write before the name of a marker.
const MARKER_PREFIX: &[u8] = b"PB ";
/// The marks around snapshots, which need no prefix.
const MARKS: [&[u8]; 6] = [b"S0", b"S1", b"S2", b"E0", b"E1", b"E2"];

/// The size of the kernel's `struct page` on 64-bit machines, but with some options for debugging.
const PAGE_STRUCT: u64 = 64;

/// Decodes the records of one trace.
pub(crate) struct Decoder {
    endian: Endian,
    decoding: Decoding,
    id: Field,
    pid: Field,
    /// By the event's id.
    events: Vec<Option<EventDecoder>>,
    flags: FlagTable,
    /// The blocks that tasks are about to isolate.
    isolating: BTreeMap<u32, (Pfn, Order)>,
    /// The functions in stacks; none unless they are set.
    pub(crate) symbols: Symbols,
}

struct EventDecoder {
    format: Format,
    kind: Kind,
    print: Option<Print>,
}

enum Kind {
    Alloc {
        pfn: Field,
        order: Field,
        mt: Field,
        gfp: Field,
    },
    Free {
        pfn: Field,
        order: Field,
    },
    FreeBatched {
        pfn: Field,
    },
    ZoneLocked {
        pfn: Field,
        order: Field,
        mt: Field,
        refill: Option<Field>,
    },
    Drain {
        pfn: Field,
        order: Field,
        mt: Field,
    },
    Extfrag {
        pfn: Field,
        orders: [Field; 2],
        types: [Field; 2],
        change: Option<Field>,
    },
    Bulk {
        ret: Field,
    },
    /// A probe at the begin of `__isolate_free_page`; it is not known yet whether it takes the block.
    IsolateBegin {
        page: Field,
        order: Field,
        base: Field,
    },
    /// A probe at its end.
    IsolateEnd {
        ret: Field,
    },
    Print {
        buf: Field,
    },
    Stack {
        callers: Field,
    },
    Other,
}

impl Decoder {
    /// Makes a decoder for these formats; `Err` says what they lack.
    pub(crate) fn new(
        formats: Vec<Format>,
        endian: Endian,
        decoding: Decoding,
    ) -> Result<Self, &'static str> {
        const COMMON: &str = "event formats with the fields common_type and common_pid";
        let first = formats.first().ok_or(COMMON)?;
        let id = first.field("common_type").ok_or(COMMON)?.clone();
        let pid = first.field("common_pid").ok_or(COMMON)?.clone();
        let mut events = Vec::new();
        let mut flags = Vec::new();
        for format in formats {
            let index = usize::try_from(format.id).unwrap_or(usize::MAX);
            if index > usize::from(u16::MAX) {
                return Err("event ids up to 65535");
            }
            if events.len() <= index {
                events.resize_with(index + 1, || None);
            }
            let print = Print::parse(&format);
            if format.name == "mm_page_alloc"
                && let Some(table) = print.as_ref().and_then(Print::flag_table)
            {
                flags = table.to_vec();
            }
            let kind = Kind::of(&format).unwrap_or(Kind::Other);
            if matches!(kind, Kind::Alloc { .. }) && flags.is_empty() {
                return Err("a table of flags in the print format of mm_page_alloc");
            }
            events[index] = Some(EventDecoder { format, kind, print });
        }
        Ok(Self {
            endian,
            decoding,
            id,
            pid,
            events,
            flags: FlagTable::new(flags),
            isolating: BTreeMap::new(),
            symbols: Symbols::default(),
        })
    }

    /// Decodes one record to a process id and an event. One that cannot be decoded, or has a value that the allocator's model
    /// does not have, is not understood: no single event costs a recording.
    #[inline]
    pub(crate) fn decode(&mut self, record: &[u8]) -> (u32, What) {
        match self.understand(record) {
            Ok(event) => event,
            Err(allowed) => self.not_understood(record, allowed),
        }
    }

    /// Keeps a record that has something else than what is allowed.
    #[cold]
    fn not_understood(&self, record: &[u8], allowed: &str) -> (u32, What) {
        let id = self.id.read(record, self.endian);
        let pid = self.pid.read(record, self.endian).unwrap_or(0) as u32;
        let event = id.and_then(|id| self.events.get(usize::try_from(id).ok()?)?.as_ref());
        let what = match (event, id) {
            (Some(event), _) => {
                let other = event.other(record, self.endian);
                What::not_understood(&other.name, &other.args)
            }
            (None, Some(id)) => What::not_understood(&format!("event {id}"), allowed),
            (None, None) => What::not_understood("event", allowed),
        };
        (pid, what)
    }

    /// Decodes one record; `Err` says what is allowed.
    #[inline]
    fn understand(&mut self, record: &[u8]) -> Result<(u32, What), &'static str> {
        const SHORT: &str = "a record as long as its event's format says";
        let Self { endian, decoding, id, pid, events, flags, isolating, symbols } = self;
        let (endian, decoding) = (*endian, *decoding);
        let id = id.read(record, endian).ok_or(SHORT)?;
        let pid = pid.read(record, endian).ok_or(SHORT)? as u32;
        let event = usize::try_from(id).ok().and_then(|id| events.get(id)?.as_ref());
        let event = event.ok_or("the id of an event whose format the file has")?;
        let number = |field: &Field| field.read(record, endian).ok_or(SHORT);
        let frame = |field: &Field| match number(field)? {
            pfn if pfn < PFN_LIMIT => Ok(Pfn(pfn)),
            _ => Err("a frame below 2^40"),
        };
        let order = |field: &Field| match number(field)? {
            order if order <= u64::from(ORDER_LIMIT) => Ok(order as Order),
            _ => Err("an order from 0 to 15"),
        };
        let mt = |field: &Field| -> Result<Migratetype, _> {
            decoding.migratetype(number(field)?).ok_or("a migratetype number of this kernel")
        };
        let what = match &event.kind {
            Kind::Alloc { pfn, order: o, mt: m, gfp } => {
                let failed = u64::MAX >> (64 - 8 * pfn.size as u32);
                let served = number(pfn)? & failed != failed;
                let gfp = flags.get(number(gfp)?).ok_or("flags that the format file names")?;
                let pfn = if served { Some(frame(pfn)?) } else { None };
                What::Alloc { pfn, order: order(o)?, mt: mt(m)?, gfp }
            }
            Kind::Free { pfn, order: o } => What::Free { pfn: frame(pfn)?, order: order(o)? },
            Kind::FreeBatched { pfn } => What::FreeBatched { pfn: frame(pfn)? },
            Kind::ZoneLocked { pfn, order: o, mt: m, refill } => {
                let order = order(o)?;
                let refill = refill.as_ref().map(number).transpose()?;
                let refill = refill.map_or(order == 0, |refill| refill != 0);
                What::ZoneLocked { pfn: frame(pfn)?, order, mt: mt(m)?, refill }
            }
            Kind::Drain { pfn, order: o, mt: m } => {
                What::Drain { pfn: frame(pfn)?, order: order(o)?, mt: mt(m)? }
            }
            Kind::Extfrag { pfn, orders, types, change } => {
                let (alloc, fallback) = (mt(&types[0])?, mt(&types[1])?);
                let change = change.as_ref().map(number).transpose()?;
                What::Extfrag(Extfrag {
                    pfn: frame(pfn)?,
                    alloc_order: order(&orders[0])?,
                    fallback_order: order(&orders[1])?,
                    alloc_migratetype: alloc,
                    fallback_migratetype: fallback,
                    change_ownership: change.map_or(alloc == fallback, |change| change != 0),
                })
            }
            Kind::Bulk { ret } => What::Bulk { pages: number(ret)? as u32 },
            Kind::IsolateBegin { page, order: o, base } => {
                let (page, base) = (number(page)?, number(base)?);
                if let Some(bytes) = page.checked_sub(base).filter(|bytes| bytes % PAGE_STRUCT == 0)
                {
                    isolating.insert(pid, (Pfn(bytes / PAGE_STRUCT), order(o)?));
                }
                What::Other(Box::new(event.other(record, endian)))
            }
            Kind::IsolateEnd { ret } => match isolating.remove(&pid) {
                Some((pfn, order)) => What::Isolate { pfn, order, ret: number(ret)? as i64 },
                None => What::Other(Box::new(event.other(record, endian))),
            },
            Kind::Print { buf } => printed(buf.text(record, endian).ok_or(SHORT)?.trim_ascii_end()),
            Kind::Stack { callers } => {
                let args = stack(callers, record, endian, symbols).into();
                What::Other(Box::new(Other { name: STACK.into(), args }))
            }
            Kind::Other => What::Other(Box::new(event.other(record, endian))),
        };
        Ok((pid, what))
    }
}

/// Returns what a text in the trace is: a mark, or something else.
fn printed(text: &[u8]) -> What {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into();
    let name = text.strip_prefix(MARKER_PREFIX);
    match name.or_else(|| MARKS.contains(&text).then_some(text)) {
        Some(name) => What::Marker(lossy(name)),
        None => What::Other(Box::new(Other { name: "print".into(), args: lossy(text) })),
    }
}

/// Returns the functions of a stack, which extends to the record's end whatever its field's size is.
fn stack(callers: &Field, record: &[u8], endian: Endian, symbols: &mut Symbols) -> String {
    let words = record.get(callers.offset..).unwrap_or_default().chunks_exact(8);
    let addresses = words.map(|word| endian.number(word));
    // Where a stack is shorter than its record, all ones or zero end it.
    let addresses = addresses.take_while(|&address| address != 0 && address != u64::MAX);
    let names: Vec<String> = addresses.map(|address| symbols.name(address)).collect();
    names.join(CALLED_BY)
}

impl EventDecoder {
    fn other(&self, record: &[u8], endian: Endian) -> Other {
        let print = self.print.as_ref();
        let text = print.and_then(|print| print.text(&self.format, record, endian));
        let args = text.unwrap_or_else(|| plain(&self.format, record, endian));
        Other { name: self.format.name.as_str().into(), args: args.into() }
    }
}

impl Kind {
    /// Returns the kind of an event; `None` for any other event, or if a field is missing (kernels before 4.1
    /// record addresses instead of frame numbers).
    fn of(format: &Format) -> Option<Self> {
        let fixed = |field: &&Field| matches!(field.size, 1..=8) && !field.array;
        let field = |name: &str| format.field(name).filter(fixed).cloned();
        Some(match (format.system.as_str(), format.name.as_str()) {
            ("kmem", "mm_page_alloc") => Self::Alloc {
                pfn: field("pfn")?,
                order: field("order")?,
                mt: field("migratetype")?,
                gfp: field("gfp_flags")?,
            },
            ("kmem", "mm_page_free") => Self::Free { pfn: field("pfn")?, order: field("order")? },
            ("kmem", "mm_page_free_batched") => Self::FreeBatched { pfn: field("pfn")? },
            ("kmem", "mm_page_alloc_zone_locked") => Self::ZoneLocked {
                pfn: field("pfn")?,
                order: field("order")?,
                mt: field("migratetype")?,
                refill: field("percpu_refill"),
            },
            ("kmem", "mm_page_pcpu_drain") => Self::Drain {
                pfn: field("pfn")?,
                order: field("order")?,
                mt: field("migratetype")?,
            },
            ("kmem", "mm_page_alloc_extfrag") => Self::Extfrag {
                pfn: field("pfn")?,
                orders: [field("alloc_order")?, field("fallback_order")?],
                types: [field("alloc_migratetype")?, field("fallback_migratetype")?],
                change: field("change_ownership"),
            },
            ("pageblock", "isolate_free_page") => Self::IsolateBegin {
                page: field("page")?,
                order: field("order")?,
                base: field("base")?,
            },
            ("pageblock", "isolate_free_page_ret") => Self::IsolateEnd { ret: field("ret")? },
            ("pb", "pb_bulk_ret") | ("pageblock", "alloc_pages_bulk_ret") => {
                Self::Bulk { ret: field("ret")? }
            }
            ("ftrace", STACK) => Self::Stack { callers: format.field("caller")?.clone() },
            ("ftrace", "print") => Self::Print { buf: format.field("buf")?.clone() },
            _ => return None,
        })
    }
}

/// Maps flag bits of the traced kernel to flags through their names; caches the results.
struct FlagTable {
    names: Vec<(u64, String)>,
    seen: Vec<Option<(u64, Gfp)>>,
}

impl FlagTable {
    const SLOTS: usize = 256;

    fn new(names: Vec<(u64, String)>) -> Self {
        Self { names, seen: vec![None; Self::SLOTS] }
    }

    #[inline]
    fn get(&mut self, bits: u64) -> Option<Gfp> {
        let slot = (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % Self::SLOTS;
        match self.seen[slot] {
            Some((seen, gfp)) if seen == bits => Some(gfp),
            _ => {
                let text = flags_text(bits, "|", &self.names);
                let gfp = if text.is_empty() { Gfp::NONE } else { Gfp::parse(&text).ok()? };
                self.seen[slot] = Some((bits, gfp));
                Some(gfp)
            }
        }
    }
}
