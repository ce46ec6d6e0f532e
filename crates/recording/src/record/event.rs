//! One event of a recording.

use std::fmt;

use pageblock::event::{Event, Extfrag};
use pageblock::frame::{Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock::request::Gfp;

/// The limit of frame numbers in a recording: physical addresses of x86-64 and arm64 have at most 52 bits.
pub const PFN_LIMIT: u64 = 1 << 40;

/// The name of the events that have a stack: functions, the innermost first, with [`CALLED_BY`] between them.
pub const STACK: &str = "kernel_stack";
/// What stands between two functions of a stack.
pub const CALLED_BY: &str = " <- ";

/// The name of the events that happened, but have a value that the allocator's model does not have, such as the free of a
/// 1 GiB page (order 18): their arguments are the event's name and fields as recorded. They are kept and counted, and no
/// replay uses them.
pub const NOT_UNDERSTOOD: &str = "not_understood";

/// An event with its time, CPU and task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The recorder's clock in microseconds.
    pub t_us: u64,
    /// The CPU on which it happened.
    pub cpu: u16,
    /// The task that was running.
    pub pid: u32,
    /// The event.
    pub what: What,
}

/// The content of a recorded event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    /// `mm_page_alloc`.
    Alloc {
        /// The block's first frame; `None` if the request failed.
        pfn: Option<Pfn>,
        /// The requested order.
        order: Order,
        /// The requested type.
        mt: Migratetype,
        /// The request's flags.
        gfp: Gfp,
    },
    /// `mm_page_free`.
    Free {
        /// The block's first frame.
        pfn: Pfn,
        /// The block's order.
        order: Order,
    },
    /// `mm_page_free_batched`: the page of a [`What::Free`] reaches its per-CPU list, in this order.
    FreeBatched {
        /// The frame.
        pfn: Pfn,
    },
    /// `mm_page_alloc_zone_locked`: a block leaves the buddy lists.
    ZoneLocked {
        /// The block's first frame.
        pfn: Pfn,
        /// The block's order.
        order: Order,
        /// The requested type.
        mt: Migratetype,
        /// Whether it goes to a per-CPU list.
        refill: bool,
    },
    /// `mm_page_pcpu_drain`: a block goes from a per-CPU list to the buddy lists.
    Drain {
        /// The block's first frame.
        pfn: Pfn,
        /// The block's order.
        order: Order,
        /// The type of the list that it is freed to.
        mt: Migratetype,
    },
    /// `mm_page_alloc_extfrag`.
    Extfrag(Extfrag),
    /// A probe on `__isolate_free_page`: the compaction free scanner tries to isolate a free block.
    Isolate {
        /// The block's first frame.
        pfn: Pfn,
        /// The block's order.
        order: Order,
        /// The function's return value; above 0 if it took the block.
        ret: i64,
    },
    /// A probe on the bulk allocator: it took order-0 pages from this CPU's list without other events.
    Bulk {
        /// The number of pages.
        pages: u32,
    },
    /// A marker that the recorder wrote: `S0` to `S2` at the start, `E0` to `E2` at the end.
    Marker(Box<str>),
    /// Another event, as text.
    Other(Box<Other>),
}

/// An event that is kept as text: compaction, vmscan, migrate, huge_memory, ...
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Other {
    /// The tracepoint's name.
    pub name: Box<str>,
    /// Its fields as printed, usually `key=value` separated by blanks.
    pub args: Box<str>,
}

impl Other {
    /// Returns the value of `key=value` among the arguments, without a trailing comma.
    #[must_use]
    pub fn arg(&self, key: &str) -> Option<&str> {
        self.args.split_ascii_whitespace().find_map(|word| {
            let value = word.strip_prefix(key)?.strip_prefix('=')?;
            Some(value.trim_end_matches(','))
        })
    }

    /// Returns [`Other::arg`] as a number, decimal or `0x` hexadecimal.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<i64> {
        let value = self.arg(key)?;
        match value.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16).ok(),
            None => value.parse().ok(),
        }
    }
}

impl What {
    /// Keeps an event that cannot be used, by its name and fields as recorded ([`NOT_UNDERSTOOD`]).
    pub(crate) fn not_understood(event: &str, args: &str) -> Self {
        // A line of text is what every format can keep.
        let args = format!("{event} {args}").replace(['\n', '\r', '\0'], " ");
        Self::Other(Box::new(Other { name: NOT_UNDERSTOOD.into(), args: args.into() }))
    }

    /// Reports whether this is an event that cannot be used ([`NOT_UNDERSTOOD`]).
    #[must_use]
    pub fn is_not_understood(&self) -> bool {
        matches!(self, Self::Other(other) if &*other.name == NOT_UNDERSTOOD)
    }

    /// Returns the event as the allocator's own type; `None` if the allocator has no such event.
    #[must_use]
    pub fn event(&self) -> Option<Event> {
        Some(match *self {
            Self::Alloc { pfn, order, mt, gfp } => {
                Event::PageAlloc { pfn, order, migratetype: mt, gfp }
            }
            Self::Free { pfn, order } => Event::PageFree { pfn, order },
            Self::FreeBatched { pfn } => Event::PageFreeBatched { pfn },
            Self::ZoneLocked { pfn, order, mt, refill } => {
                Event::ZoneLocked { pfn, order, migratetype: mt, percpu_refill: refill }
            }
            Self::Drain { pfn, order, mt } => Event::PcpuDrain { pfn, order, migratetype: mt },
            Self::Extfrag(extfrag) => Event::Extfrag(extfrag),
            Self::Isolate { .. } | Self::Bulk { .. } | Self::Marker(_) | Self::Other(_) => {
                return None;
            }
        })
    }

    /// Returns the name of the event, as the kernel has it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Alloc { .. } => "mm_page_alloc",
            Self::Free { .. } => "mm_page_free",
            Self::FreeBatched { .. } => "mm_page_free_batched",
            Self::ZoneLocked { .. } => "mm_page_alloc_zone_locked",
            Self::Drain { .. } => "mm_page_pcpu_drain",
            Self::Extfrag(_) => "mm_page_alloc_extfrag",
            Self::Isolate { .. } => "isolate_free_page",
            Self::Bulk { .. } => "alloc_pages_bulk",
            Self::Marker(_) => "marker",
            Self::Other(other) => &other.name,
        }
    }

    /// Returns the marker's name, if this is a marker.
    #[must_use]
    pub fn marker(&self) -> Option<&str> {
        match self {
            Self::Marker(name) => Some(name),
            _ => None,
        }
    }
}

/// Prints the arguments in the words of the tracepoint.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alloc { pfn, order, mt, gfp } => {
                match pfn {
                    Some(pfn) => write!(f, "pfn={pfn}")?,
                    None => write!(f, "pfn=none")?,
                }
                write!(f, " order={order} migratetype={} gfp_flags={gfp}", mt.name())
            }
            Self::Free { pfn, order } => write!(f, "pfn={pfn} order={order}"),
            Self::FreeBatched { pfn } => write!(f, "pfn={pfn}"),
            Self::ZoneLocked { pfn, order, mt, refill } => {
                let (mt, refill) = (mt.name(), u8::from(*refill));
                write!(f, "pfn={pfn} order={order} migratetype={mt} percpu_refill={refill}")
            }
            Self::Drain { pfn, order, mt } => {
                write!(f, "pfn={pfn} order={order} migratetype={}", mt.name())
            }
            Self::Extfrag(x) => write!(
                f,
                "pfn={} alloc_order={} fallback_order={} alloc_migratetype={} \
                 fallback_migratetype={} change_ownership={}",
                x.pfn,
                x.alloc_order,
                x.fallback_order,
                x.alloc_migratetype.name(),
                x.fallback_migratetype.name(),
                u8::from(x.change_ownership)
            ),
            Self::Isolate { pfn, order, ret } => write!(f, "pfn={pfn} order={order} ret={ret}"),
            Self::Bulk { pages } => write!(f, "pages={pages}"),
            Self::Marker(text) => f.write_str(text),
            Self::Other(other) => f.write_str(&other.args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_found_by_key() {
        let other = Other {
            name: "mm_compaction_begin".into(),
            args: "zone_start=0x1 free_pfn=0xe00 zone_end=0x1000, mode=sync nid=3".into(),
        };
        assert_eq!(other.arg("mode"), Some("sync"));
        assert_eq!(other.number("zone_end"), Some(0x1000));
        assert_eq!(other.number("nid"), Some(3));
        assert_eq!(other.arg("start"), None);
    }

    #[test]
    fn what_is_not_understood_stays_a_line() {
        let what = What::not_understood("mm_page_free", "pfn=0x200000\norder=18");
        assert!(what.is_not_understood() && what.event().is_none());
        assert_eq!(what.to_string(), "mm_page_free pfn=0x200000 order=18");
    }
}
