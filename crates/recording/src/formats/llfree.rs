//! Traces of LLFree, another page allocator: what its program `replay` reads, so that both can be compared on one
//! input.
//!
//! A file is of pages of 4096 bytes, numbers with the low byte first. The first page has three words of 32 bits: the
//! number of the other pages, that of CPUs, the highest frame. Each other page has the number of a CPU and, from byte
//! 16, 255 entries of 128 bits, from the lowest: 38 bits of time in microseconds, 24 of the frame, one for an
//! allocation, 4 of the order, 29 of GFP flags, 32 of the process id. The rest of a CPU's last page is zero.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;

use pageblock::frame::{ORDER_LIMIT, Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock::request::Gfp;

use super::capture::Capture;
use crate::input::bytes::Input;
use crate::input::error::Error;
use crate::input::source::{Source, open_source};
use crate::record::decoding::Decoding;
use crate::record::event::{Record, What};

pub(crate) const PAGE_BYTES: usize = 4096;
pub(crate) const ENTRY_BYTES: usize = 16;
pub(crate) const ENTRIES: usize = PAGE_BYTES / ENTRY_BYTES - 1;
pub(crate) const CPUS_LIMIT: u32 = 1 << 12;
pub(crate) const TIME_BITS: u32 = 38;
pub(crate) const PFN_BITS: u32 = 24;
/// The flags that Linux and this library number alike; above them LLFree marks the page cache.
pub(crate) const FLAGS: u32 = (1 << 24) - 1;

/// Reports whether a file starts like a trace.
fn is_trace(start: &[u8]) -> bool {
    let word = |at: usize| {
        start.get(at..at + 4).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    };
    start.len() >= PAGE_BYTES
        && word(0) > 0
        && (1..=CPUS_LIMIT).contains(&word(4))
        && (1..1 << PFN_BITS).contains(&word(8))
        && start[12..PAGE_BYTES].iter().all(|&byte| byte == 0)
}

/// One entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) t_us: u64,
    pub(crate) pfn: u64,
    pub(crate) alloc: bool,
    pub(crate) order: Order,
    pub(crate) flags: u32,
    pub(crate) pid: u32,
}

impl Entry {
    fn of(bits: u128) -> Self {
        let part = |at: u32, len: u32| (bits >> at) as u64 & ((1 << len) - 1);
        Self {
            t_us: part(0, TIME_BITS),
            pfn: part(38, PFN_BITS),
            alloc: part(62, 1) == 1,
            order: part(63, 4) as Order,
            flags: part(67, 29) as u32,
            pid: part(96, 32) as u32,
        }
    }

    /// Returns the entry as it is stored.
    pub(crate) fn bits(self) -> u128 {
        u128::from(self.t_us)
            | u128::from(self.pfn) << 38
            | u128::from(self.alloc) << 62
            | u128::from(self.order) << 63
            | u128::from(self.flags) << 67
            | u128::from(self.pid) << 96
    }
}

/// Streams the events of a trace, those of all CPUs in the order of time. After an error the stream ends. Memory: a
/// page a CPU, and the position of every page.
pub struct LlfreeReader {
    source: Source,
    cpus: Vec<Cpu>,
    /// The time of each CPU's next entry; allocations first, as LLFree does.
    next: BinaryHeap<Reverse<(u64, bool, usize)>>,
    /// Bytes of the pages that were read.
    read: u64,
    done: bool,
}

/// The pages of a CPU.
struct Cpu {
    cpu: u16,
    pages: std::vec::IntoIter<u32>,
    page: Vec<u8>,
    /// The position of the page, and the next entry's number in it.
    at: u64,
    entry: usize,
}

impl LlfreeReader {
    /// Opens a file, plain or compressed.
    ///
    /// # Errors
    /// If it cannot be read, or is not a trace.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let mut source = open_source(path)?;
        let bytes = source.bytes;
        let header = source.read_vec(0, PAGE_BYTES as u64, "the first page of a trace")?;
        if !is_trace(&header) || bytes % PAGE_BYTES as u64 != 0 {
            let found = format!("another header, in a file of {bytes} bytes");
            let expected = "a trace of LLFree: pages of 4096 bytes, the first with the numbers of pages and CPUs \
                            and the highest frame";
            return Err(Error::unexpected(source.place(0), found, expected));
        }
        let mut pages: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for page in 1..bytes / PAGE_BYTES as u64 {
            let at = page * PAGE_BYTES as u64;
            let mut cpu = [0; 4];
            source.read_at(at, &mut cpu, "the CPU of a page")?;
            let cpu = u32::from_le_bytes(cpu);
            if cpu >= CPUS_LIMIT {
                let found = format!("CPU {cpu}");
                return Err(Error::unexpected(source.place(at), found, "CPUs below 4096"));
            }
            pages.entry(cpu).or_default().push(page as u32);
        }
        let cpu = |(cpu, pages): (u32, Vec<u32>)| Cpu {
            cpu: cpu as u16,
            pages: pages.into_iter(),
            page: Vec::new(),
            at: 0,
            entry: ENTRIES,
        };
        let cpus: Vec<Cpu> = pages.into_iter().map(cpu).collect();
        let (read, done) = (0, false);
        let mut reader = Self { source, cpus, next: BinaryHeap::new(), read, done };
        for at in 0..reader.cpus.len() {
            reader.advance(at)?;
        }
        Ok(reader)
    }

    /// Goes to the next entry of a CPU.
    fn advance(&mut self, at: usize) -> Result<(), Error> {
        let cpu = &mut self.cpus[at];
        loop {
            if cpu.entry == ENTRIES {
                let Some(page) = cpu.pages.next() else { return Ok(()) };
                cpu.at = u64::from(page) * PAGE_BYTES as u64;
                cpu.page = self.source.read_vec(cpu.at, PAGE_BYTES as u64, "a page")?;
                cpu.entry = 0;
                self.read += PAGE_BYTES as u64;
            }
            if let Some(entry) = cpu.peek() {
                self.next.push(Reverse((entry.t_us, !entry.alloc, at)));
                return Ok(());
            }
            cpu.entry += 1;
        }
    }

    fn read(&mut self) -> Result<Option<Record>, Error> {
        let Some(Reverse((.., at))) = self.next.pop() else { return Ok(None) };
        let cpu = &mut self.cpus[at];
        let Some(entry) = cpu.peek() else { return Ok(None) };
        if entry.order > ORDER_LIMIT {
            let place = self.source.place(cpu.at + ((cpu.entry + 1) * ENTRY_BYTES) as u64);
            return Err(Error::unexpected(
                place,
                format!("order {}", entry.order),
                "an order from 0 to 15",
            ));
        }
        let (pfn, order) = (Pfn(entry.pfn), entry.order);
        let gfp = Gfp(entry.flags & FLAGS);
        let mt = gfp.migratetype().unwrap_or(Migratetype::Unmovable);
        let what = match entry.alloc {
            true => What::Alloc { pfn: Some(pfn), order, mt, gfp },
            false => What::Free { pfn, order },
        };
        let record = Record { t_us: entry.t_us, cpu: cpu.cpu, pid: entry.pid, what };
        cpu.entry += 1;
        self.advance(at)?;
        Ok(Some(record))
    }
}

impl Cpu {
    /// Returns the next entry of the page; `None` if it is empty.
    fn peek(&self) -> Option<Entry> {
        let at = (self.entry + 1) * ENTRY_BYTES;
        let bits = u128::from_le_bytes(*self.page.get(at..)?.first_chunk()?);
        (bits != 0).then(|| Entry::of(bits))
    }
}

impl Capture for LlfreeReader {
    fn recognizes(start: &[u8]) -> bool {
        is_trace(start)
    }

    fn start(path: &Path, _: Input, _: Decoding) -> Result<Self, Error> {
        Self::open(path)
    }

    fn bytes_read(&self) -> u64 {
        self.read
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.source.bytes)
    }
}

impl Iterator for LlfreeReader {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let record = self.read().transpose();
        self.done = !matches!(record, Some(Ok(_)));
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_its_fields_at_the_documented_bits() {
        let entry = Entry { t_us: 5, pfn: 0x12_3456, alloc: true, order: 9, flags: 0x8, pid: 77 };
        let bits = 5 | 0x12_3456 << 38 | 1 << 62 | 9 << 63 | 8 << 67 | 77 << 96;
        assert_eq!(entry.bits(), bits);
        assert_eq!(Entry::of(bits), entry);
    }
}
