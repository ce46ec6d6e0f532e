//! `trace.dat` of trace-cmd, versions 6 and 7: the kernel's own ring-buffer pages per CPU, merged by time.

pub(crate) mod decode;
mod expr;
pub(crate) mod format;
pub(crate) mod header;
mod print;
mod ring;
mod symbols;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{Read, Seek};
use std::path::Path;

use decode::Decoder;
use header::{Clock, CpuPart, Header};
use ring::{Cursor, PageLayout, Slot};
use symbols::Symbols;

use super::capture::{Capture, Machine};
use crate::input::bytes::{Input, refuse_others};
use crate::input::error::Error;
use crate::input::source::{Codec, Source, open_source};
use crate::record::decoding::Decoding;
use crate::record::event::Record;
use crate::record::kernel::KernelVersion;
use crate::record::losses::LostByCpu;

/// The bytes of pages that are read at a time for each CPU.
const READ_BYTES: usize = 128 << 10;

/// Streams the events of a `trace.dat`. After an error the stream ends. Memory: some pages per CPU.
pub struct TraceDat {
    source: Source,
    layout: PageLayout,
    codec: Codec,
    clock: Clock,
    decoder: Decoder,
    cpus: Vec<CpuStream>,
    /// For each CPU with a pending record: the record's time and the index in `cpus`.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// Command names by process id.
    pub comms: BTreeMap<u32, String>,
    /// The traced kernel, if the file says.
    pub kernel: Option<KernelVersion>,
    lost: u64,
    /// The losses according to the ring buffer's own counters.
    counted: BTreeMap<u32, header::Counted>,
    bytes_read: u64,
    done: bool,
}

/// Returns the kernel on which a trace was recorded, from the file's headers.
pub(crate) fn kernel_of(path: &Path) -> Result<Option<KernelVersion>, Error> {
    refuse_others(&mut Input::open(path)?)?;
    let mut source = open_source(path)?;
    Ok(kernel_in(&header::read(&mut source)?))
}

fn kernel_in(header: &Header) -> Option<KernelVersion> {
    KernelVersion::from_uname(header.uname.as_ref()?)
}

impl TraceDat {
    /// Opens a file, plain or compressed as a whole; a compressed file is first decompressed to a temporary
    /// one.
    ///
    /// # Errors
    /// If the file cannot be read, or its headers are not in the format.
    pub fn open(path: &Path, decoding: Decoding) -> Result<Self, Error> {
        Self::new(open_source(path)?, decoding)
    }

    /// Reads from any seekable source; messages name it by `name`.
    ///
    /// # Errors
    /// If it cannot be read, or its headers are not in the format.
    pub fn from_reader(
        reader: impl Read + Seek + Send + 'static,
        name: &Path,
        decoding: Decoding,
    ) -> Result<Self, Error> {
        Self::new(Source::new(Box::new(reader), name)?, decoding)
    }

    fn new(mut source: Source, decoding: Decoding) -> Result<Self, Error> {
        let header = header::read(&mut source)?;
        let kernel = kernel_in(&header);
        let Header { layout, codec, formats, cpus, comms, clock, counted, symbols, .. } = header;
        let symbols = match symbols {
            Some((at, bytes)) => source.read_vec(at, bytes, "symbols of the kernel")?,
            None => Vec::new(),
        };
        let mut decoder = Decoder::new(formats, layout.endian, decoding)
            .map_err(|expected| Error::unexpected(source.place(0), "event formats", expected))?;
        decoder.symbols = Symbols::new(symbols);
        let mut trace = Self {
            source,
            layout,
            codec,
            clock,
            decoder,
            cpus: Vec::new(),
            next: BinaryHeap::new(),
            comms,
            kernel,
            lost: 0,
            counted,
            bytes_read: 0,
            done: false,
        };
        for part in cpus {
            trace.cpus.push(CpuStream::new(part, &mut trace.source, layout)?);
            trace.advance(trace.cpus.len() - 1)?;
        }
        Ok(trace)
    }

    /// Advances a CPU to its next record.
    #[inline]
    fn advance(&mut self, index: usize) -> Result<(), Error> {
        if let Some(slot) = self.step(index)? {
            self.next.push(Reverse((self.clock.nanos(slot.t_ns), index)));
        }
        Ok(())
    }

    #[inline]
    fn step(&mut self, index: usize) -> Result<Option<Slot>, Error> {
        let cpu = &mut self.cpus[index];
        loop {
            if let Some(cursor) = &mut cpu.cursor {
                let page = &cpu.buffer[cpu.page..cpu.page + self.layout.page_bytes];
                match self.layout.next(page, cursor) {
                    Ok(Some(slot)) => {
                        cpu.slot = slot;
                        return Ok(Some(slot));
                    }
                    Ok(None) => {
                        cpu.cursor = None;
                        cpu.page += self.layout.page_bytes;
                    }
                    Err((at, expected)) => return Err(cpu.error(&self.source, at, expected)),
                }
            }
            if !cpu.load_page(&mut self.source, self.layout, self.codec, &mut self.bytes_read)? {
                return Ok(None);
            }
            let page = &cpu.buffer[cpu.page..cpu.page + self.layout.page_bytes];
            let cursor = self.layout.start(page);
            let cursor = cursor.map_err(|(at, expected)| cpu.error(&self.source, at, expected))?;
            self.lost = self.lost.saturating_add(cursor.lost);
            cpu.lost = cpu.lost.saturating_add(cursor.lost);
            cpu.cursor = Some(cursor);
        }
    }

    #[inline]
    fn read(&mut self) -> Result<Option<Record>, Error> {
        let Some(&Reverse((t_ns, index))) = self.next.peek() else { return Ok(None) };
        let cpu = &self.cpus[index];
        let record = &cpu.buffer[cpu.page..][cpu.slot.start..cpu.slot.end];
        let (pid, what) = self.decoder.decode(record);
        let record = Record { t_us: t_ns / 1000, cpu: cpu.part.cpu as u16, pid, what };
        match self.step(index)? {
            Some(slot) => {
                if let Some(mut top) = self.next.peek_mut() {
                    *top = Reverse((self.clock.nanos(slot.t_ns), index));
                }
            }
            None => drop(self.next.pop()),
        }
        Ok(Some(record))
    }
}

impl Capture for TraceDat {
    fn recognizes(start: &[u8]) -> bool {
        start.starts_with(header::MAGIC)
    }

    fn start(path: &Path, _: Input, decoding: Decoding) -> Result<Self, Error> {
        Self::open(path, decoding)
    }

    fn machine(path: &Path, _: &[u8], decoding: Decoding) -> Result<Machine, Error> {
        let Self { kernel, comms, .. } = Self::open(path, decoding)?;
        Ok(Machine { kernel, comms })
    }

    /// Returns the bytes of ring-buffer data, as stored.
    fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.source.bytes)
    }

    fn lost(&self) -> u64 {
        self.lost
    }

    fn lost_by_cpu(&self) -> LostByCpu {
        let lossy = self.cpus.iter().filter(|cpu| cpu.lost > 0);
        lossy.map(|cpu| (u16::try_from(cpu.part.cpu).ok(), cpu.lost)).collect()
    }

    /// Returns the losses according to the ring buffer's own counters, beyond the gaps.
    fn lost_unplaced(&self) -> LostByCpu {
        let mut unplaced = LostByCpu::new();
        for (&cpu, counted) in &self.counted {
            let placed = self.cpus.iter().find(|c| c.part.cpu == cpu).map_or(0, |cpu| cpu.lost);
            let lost = counted.overwritten.saturating_sub(placed).saturating_add(counted.dropped);
            if lost > 0 {
                unplaced.insert(u16::try_from(cpu).ok(), lost);
            }
        }
        unplaced
    }
}

impl Iterator for TraceDat {
    type Item = Result<Record, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let record = self.read().transpose();
        self.done = !matches!(record, Some(Ok(_)));
        record
    }
}

/// One CPU's pages.
struct CpuStream {
    part: CpuPart,
    /// The number of its events that the ring buffer lost, as far as the file was read.
    lost: u64,
    /// Decompressed pages; `page` is the offset of the current one.
    buffer: Vec<u8>,
    page: usize,
    /// The position of the buffer in the file; for compressed pages that of the compressed chunk.
    buffer_at: u64,
    cursor: Option<Cursor>,
    slot: Slot,
    /// The position in the file after what was read.
    at: u64,
    /// Compressed chunks, or bytes of plain pages, that are still to be read.
    left: u64,
}

impl CpuStream {
    fn new(part: CpuPart, source: &mut Source, layout: PageLayout) -> Result<Self, Error> {
        if part.cpu > u32::from(u16::MAX) {
            let found = format!("CPU {}", part.cpu);
            return Err(Error::unexpected(source.place(part.offset), found, "CPUs up to 65535"));
        }
        let end = part.offset.checked_add(part.bytes);
        if part.bytes > 0 && end.is_none_or(|end| end > source.bytes) {
            return Err(Error::unexpected(
                source.place(source.bytes),
                "the end of the file",
                format!(
                    "the data of CPU {}: {} bytes at byte {}",
                    part.cpu, part.bytes, part.offset
                ),
            ));
        }
        let mut stream = Self {
            part,
            lost: 0,
            buffer: Vec::new(),
            page: 0,
            buffer_at: part.offset,
            cursor: None,
            slot: Slot { t_ns: 0, start: 0, end: 0 },
            at: part.offset,
            left: part.bytes,
        };
        if part.packed {
            stream.left = 0;
            if part.bytes >= 4 {
                let mut count = [0; 4];
                source.read_at(part.offset, &mut count, "a number of chunks")?;
                stream.left = layout.endian.number(&count);
                stream.at += 4;
            }
        }
        Ok(stream)
    }

    /// Makes `page` a whole page of the buffer; returns `false` at the end of the data.
    fn load_page(
        &mut self,
        source: &mut Source,
        layout: PageLayout,
        codec: Codec,
        bytes_read: &mut u64,
    ) -> Result<bool, Error> {
        let page_bytes = layout.page_bytes;
        if self.page + page_bytes <= self.buffer.len() {
            return Ok(true);
        }
        if self.left == 0 {
            return Ok(false);
        }
        self.page = 0;
        self.buffer_at = self.at;
        if self.part.packed {
            let mut sizes = [0; 8];
            source.read_at(self.at, &mut sizes, "the sizes of a chunk")?;
            let packed_bytes = layout.endian.number(&sizes[..4]);
            let bytes = layout.endian.number(&sizes[4..]) as usize;
            let packed = source.read_vec(self.at + 8, packed_bytes, "a chunk of pages")?;
            self.buffer = codec.unpack(source, self.at, &packed, bytes)?;
            self.at += 8 + packed_bytes;
            self.left -= 1;
            *bytes_read += 8 + packed_bytes;
        } else {
            let most = (READ_BYTES.max(page_bytes) / page_bytes * page_bytes) as u64;
            let bytes = self.left.min(most);
            self.buffer.resize(bytes as usize, 0);
            source.read_at(self.at, &mut self.buffer, "ring-buffer pages")?;
            self.at += bytes;
            self.left -= bytes;
            *bytes_read += bytes;
        }
        if self.buffer.len() >= page_bytes {
            return Ok(true);
        }
        let found = format!("{} bytes of a page", self.buffer.len());
        Err(Error::unexpected(source.place(self.at), found, format!("pages of {page_bytes} bytes")))
    }

    fn error(&self, source: &Source, at: usize, expected: &'static str) -> Error {
        let cpu = self.part.cpu;
        let (inside, offset) = ((self.page + at) as u64, self.buffer_at);
        if self.part.packed {
            let found =
                format!("something else at byte {inside} of an unpacked chunk of CPU {cpu}");
            return Error::unexpected(source.place(offset), found, expected);
        }
        let found = format!("something else in the data of CPU {cpu}");
        Error::unexpected(source.place(offset + inside), found, expected)
    }
}
