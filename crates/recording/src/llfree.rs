//! Traces of LLFree, another page allocator: what its program `replay` reads, so that both can be compared on one
//! input.
//!
//! A file is of pages of 4096 bytes, numbers with the low byte first. The first page has three words of 32 bits: the
//! number of the other pages, that of CPUs, the highest frame. Each other page has the number of a CPU and, from byte
//! 16, 255 entries of 128 bits, from the lowest: 38 bits of time in microseconds, 24 of the frame, one for an
//! allocation, 4 of the order, 29 of GFP flags, 32 of the process id. The rest of a CPU's last page is zero.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use pageblock::frame::{ORDER_LIMIT, Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock::request::Gfp;
use pageblock_files::{Access, NewFile};

use crate::error::Error;
use crate::record::{Record, What};
use crate::recording::Recording;
use crate::trace_dat::source::Source;

const PAGE_BYTES: usize = 4096;
const ENTRY_BYTES: usize = 16;
const ENTRIES: usize = PAGE_BYTES / ENTRY_BYTES - 1;
const CPUS_LIMIT: u32 = 1 << 12;
const TIME_BITS: u32 = 38;
const PFN_BITS: u32 = 24;
/// The flags that Linux and this library number alike; above them LLFree marks the page cache.
const FLAGS: u32 = (1 << 24) - 1;

/// Reports whether a file starts like a trace.
pub(crate) fn is_trace(start: &[u8]) -> bool {
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
struct Entry {
    t_us: u64,
    pfn: u64,
    alloc: bool,
    order: Order,
    flags: u32,
    pid: u32,
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

    fn bits(self) -> u128 {
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
        let mut source = crate::trace_dat::open_source(path)?;
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

    /// Returns how many bytes of the trace were read.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.read
    }

    /// Returns the size of the trace in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.source.bytes
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

/// What was written of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Allocations and frees.
    pub entries: u64,
    /// Pages of the file after the first.
    pub pages: u32,
}

/// Writes the allocations and frees of a recording as a trace for LLFree. The file appears when it is complete.
/// `progress` is called now and then with the events done.
///
/// # Errors
/// If the events cannot be read, the file not be written, or a frame or the time does not fit the format.
pub fn write(
    recording: &Recording,
    out: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<Written, Error> {
    crate::pbrec::must_be_new(out)?;
    let (file, new) = NewFile::create_new(out, Access::Private).map_err(|e| Error::io(out, e))?;
    let written = Writer::new(&file, out)?.write(recording, progress)?;
    new.finish(&file).map_err(|e| Error::io(out, e))?;
    Ok(written)
}

struct Writer<'f> {
    file: BufWriter<&'f File>,
    out: &'f Path,
    /// By CPU: its page that is not full.
    pages: BTreeMap<u16, (Vec<u8>, usize)>,
    first_t_us: Option<u64>,
    max_pfn: u64,
    written: Written,
}

impl<'f> Writer<'f> {
    fn new(file: &'f File, out: &'f Path) -> Result<Self, Error> {
        let mut file = BufWriter::new(file);
        file.write_all(&[0; PAGE_BYTES]).map_err(|e| Error::io(out, e))?;
        let (pages, written) = (BTreeMap::new(), Written::default());
        Ok(Self { file, out, pages, first_t_us: None, max_pfn: 0, written })
    }

    fn write(
        mut self,
        recording: &Recording,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Written, Error> {
        let place = |what: String, expected: &str| Error::Convert {
            file: recording.events_file.clone(),
            why: format!("{what}; allowed in a trace of LLFree: {expected}"),
        };
        for (event, record) in recording.events()?.enumerate() {
            let record = record?;
            if event % (1 << 16) == 0 {
                progress(event as u64);
            }
            let (pfn, order, alloc, flags) = match record.what {
                What::Alloc { pfn: Some(pfn), order, gfp, .. } => (pfn, order, true, gfp.0 & FLAGS),
                What::Free { pfn, order } => (pfn, order, false, 0),
                _ => continue,
            };
            let t_us = record.t_us.saturating_sub(*self.first_t_us.get_or_insert(record.t_us));
            let last = pfn.0 + (1 << order) - 1;
            if last >> PFN_BITS != 0 {
                return Err(place(format!("frame {last}"), "frames below 16777216, 64 GiB"));
            }
            if t_us >> TIME_BITS != 0 {
                return Err(place(format!("{t_us} microseconds"), "at most 76 hours"));
            }
            if u32::from(record.cpu) >= CPUS_LIMIT {
                return Err(place(format!("CPU {}", record.cpu), "CPUs below 4096"));
            }
            self.max_pfn = self.max_pfn.max(last);
            self.push(
                record.cpu,
                Entry { t_us, pfn: pfn.0, alloc, order, flags, pid: record.pid },
            )?;
        }
        self.finish()
    }

    fn push(&mut self, cpu: u16, entry: Entry) -> Result<(), Error> {
        let empty = || (vec![0; PAGE_BYTES], 0);
        let (page, entries) = self.pages.entry(cpu).or_insert_with(empty);
        let at = (*entries + 1) * ENTRY_BYTES;
        page[at..at + ENTRY_BYTES].copy_from_slice(&entry.bits().to_le_bytes());
        *entries += 1;
        self.written.entries += 1;
        if *entries == ENTRIES {
            self.flush(cpu)?;
        }
        Ok(())
    }

    fn flush(&mut self, cpu: u16) -> Result<(), Error> {
        let Some((page, entries)) = self.pages.get_mut(&cpu).filter(|(_, entries)| *entries > 0)
        else {
            return Ok(());
        };
        page[..4].copy_from_slice(&u32::from(cpu).to_le_bytes());
        self.file.write_all(page).map_err(|e| Error::io(self.out, e))?;
        page.fill(0);
        *entries = 0;
        self.written.pages += 1;
        Ok(())
    }

    fn finish(mut self) -> Result<Written, Error> {
        let cpus: Vec<u16> = self.pages.keys().copied().collect();
        for &cpu in &cpus {
            self.flush(cpu)?;
        }
        let cores = cpus.last().map_or(0, |&cpu| u32::from(cpu) + 1);
        let header =
            [self.written.pages, cores, self.max_pfn as u32].map(u32::to_le_bytes).concat();
        let file = self.file.into_inner().map_err(|e| Error::io(self.out, e.into_error()))?;
        let mut at_start = file;
        at_start.seek(SeekFrom::Start(0)).map_err(|e| Error::io(self.out, e))?;
        at_start.write_all(&header).map_err(|e| Error::io(self.out, e))?;
        Ok(self.written)
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
