//! `perf.data` of `perf record` and `perf kmem record`: samples of tracepoints, in a file or as perf writes them to a
//! pipe, compressed or not.

mod container;
mod rounds;
mod stream;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use linux_perf_event_reader::{EventRecord, RawData, RawEventRecord, RecordType};

use self::container::Container;
use self::rounds::Rounds;
use self::stream::{Head, Stream};
use super::capture::{Capture, Machine};
use crate::formats::trace_dat::decode::Decoder;
use crate::formats::trace_dat::header;
use crate::input::bytes::Input;
use crate::input::error::Error;
use crate::input::source::{Source, open_source};
use crate::record::decoding::Decoding;
use crate::record::event::Record;
use crate::record::kernel::KernelVersion;
use crate::record::losses::LostByCpu;

const COMM: u32 = 3;
const LOST: u32 = 2;
const SAMPLE: u32 = 9;
const LOST_SAMPLES: u32 = 13;
const ATTR: u32 = 64;
const FINISHED_ROUND: u32 = 68;
const FEATURE: u32 = 80;
/// Samples that a filter of perf dropped are not lost.
const MISC_DROPPED_BY_FILTER: u16 = 1 << 15;

/// Streams the events of a `perf.data` in the order of time. After an error the stream ends. Memory: two of perf's
/// rounds.
pub struct PerfData {
    container: Container,
    stream: Stream,
    decoding: Decoding,
    decoder: Option<Decoder>,
    rounds: Rounds<Item>,
    /// Command names by process id, as far as the file was read.
    pub comms: BTreeMap<u32, String>,
    lost: LostByCpu,
    /// The losses by the counters of events, which perf reads when it ends: those of the ring buffer's records are
    /// among them.
    counted: u64,
    done: bool,
}

/// A record in the order of time.
enum Item {
    Event(Record),
    Lost { cpu: Option<u16>, events: u64 },
}

impl PerfData {
    /// Opens a file, plain or compressed as a whole; a compressed file is first decompressed to a temporary one.
    ///
    /// # Errors
    /// If the file cannot be read, or its headers are not in the format.
    pub fn open(path: &Path, decoding: Decoding) -> Result<Self, Error> {
        Self::new(open_source(path)?, decoding)
    }

    fn new(mut source: Source, decoding: Decoding) -> Result<Self, Error> {
        let container = Container::read(&mut source)?;
        let stream = Stream::new(source, container.endian, container.records.clone());
        Ok(Self {
            container,
            stream,
            decoding,
            decoder: None,
            rounds: Rounds::default(),
            comms: BTreeMap::new(),
            lost: LostByCpu::new(),
            counted: 0,
            done: false,
        })
    }

    /// Returns the kernel that was recorded, if the file says; for a pipe after the first event.
    #[must_use]
    pub fn kernel(&self) -> Option<KernelVersion> {
        KernelVersion::parse(self.container.release.as_deref()?)
    }

    fn read(&mut self) -> Result<Option<Record>, Error> {
        loop {
            match self.rounds.next() {
                Some(Item::Event(record)) => return Ok(Some(record)),
                Some(Item::Lost { cpu, events }) => {
                    let lost = self.lost.entry(cpu).or_default();
                    *lost = lost.saturating_add(events);
                }
                None if self.done => return Ok(None),
                None => match self.stream.next()? {
                    Some(head) => self.take(head)?,
                    None => {
                        self.rounds.end();
                        self.done = true;
                    }
                },
            }
        }
    }

    /// Takes a record of the file.
    fn take(&mut self, head: Head) -> Result<(), Error> {
        let wrong = |found: String, expected: &str| {
            Error::unexpected(self.stream.source.place(head.at), found, expected)
        };
        match head.kind {
            FINISHED_ROUND => self.rounds.end_round(),
            ATTR if self.container.pipe => {
                let added = self.container.attr_record(self.stream.body());
                added.map_err(|(found, expected)| wrong(found, expected))?;
            }
            FEATURE if self.container.pipe => self.container.feature_record(self.stream.body()),
            COMM | LOST | LOST_SAMPLES | SAMPLE => {
                let item = self.kernel_record(head)?;
                if let Some((t_ns, item)) = item {
                    self.rounds.push(t_ns, item);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads a record that the kernel wrote; returns it with its time if it is one of the stream.
    fn kernel_record(&mut self, head: Head) -> Result<Option<(u64, Item)>, Error> {
        self.make_decoder(head)?;
        let body = self.stream.body();
        let place = || self.stream.source.place(head.at);
        let wrong = |found: &str, expected: &str| Error::unexpected(place(), found, expected);
        let cut = || {
            wrong("a record that ends early", "a record as long as its event's description says")
        };
        let Some(attr) = self.container.attr_of(body, head.kind == SAMPLE) else {
            return Err(wrong("a record", "the description of an event before it"));
        };
        let (data, info) = (RawData::Single(body), attr.info);
        let record = RawEventRecord::new(RecordType(head.kind), head.misc, data, info);
        let number =
            |at: usize| body.get(at..at + 8).map(|bytes| self.container.endian.number(bytes));
        match head.kind {
            LOST_SAMPLES => {
                if head.misc & MISC_DROPPED_BY_FILTER == 0 {
                    self.counted = self.counted.saturating_add(number(0).unwrap_or(0));
                }
                Ok(None)
            }
            LOST => {
                let Some(events) = number(8) else { return Ok(None) };
                let common = attr.sample_id_all.then(|| record.common_data()).transpose();
                let common = common.map_err(|_| cut())?.unwrap_or_default();
                let cpu = common.cpu.and_then(|cpu| u16::try_from(cpu).ok());
                Ok(Some((common.timestamp.unwrap_or(0), Item::Lost { cpu, events })))
            }
            COMM => {
                if let EventRecord::Comm(comm) = parse(&record).ok_or_else(cut)? {
                    let name = String::from_utf8_lossy(&comm.name.as_slice()).into_owned();
                    self.comms.insert(comm.tid as u32, name);
                }
                Ok(None)
            }
            _ => {
                let EventRecord::Sample(sample) = parse(&record).ok_or_else(cut)? else {
                    return Ok(None);
                };
                let (Some(raw), Some(decoder)) = (sample.raw, &mut self.decoder) else {
                    // Another event beside the tracepoints, such as cycles.
                    return Ok(None);
                };
                let (Some(t_ns), Some(cpu)) = (sample.timestamp, sample.cpu) else {
                    return Err(wrong(
                        "a sample without time or CPU",
                        "samples as of perf record -a",
                    ));
                };
                let cpu =
                    u16::try_from(cpu).map_err(|_| wrong("a large CPU", "CPUs up to 65535"))?;
                let (pid, what) = decoder.decode(&raw.as_slice());
                let record = Record { t_us: t_ns / 1000, cpu, pid, what };
                Ok(Some((t_ns, Item::Event(record))))
            }
        }
    }

    /// Reads the event formats before the first sample.
    fn make_decoder(&mut self, head: Head) -> Result<(), Error> {
        if self.decoder.is_some() || head.kind != SAMPLE {
            return Ok(());
        }
        let Some(at) = self.container.formats.or(self.stream.formats) else {
            let expected = "a recording of tracepoints, such as perf record -e 'kmem:mm_page*' -a";
            let found = "no event formats";
            return Err(Error::unexpected(self.stream.source.place(0), found, expected));
        };
        let header = header::read_formats(&mut self.stream.source, at)?;
        let endian = header.layout.endian;
        let decoder = Decoder::new(header.formats, endian, self.decoding).map_err(|expected| {
            Error::unexpected(self.stream.source.place(at), "event formats", expected)
        })?;
        for (pid, name) in header.comms {
            self.comms.entry(pid).or_insert(name);
        }
        self.decoder = Some(decoder);
        Ok(())
    }
}

impl Capture for PerfData {
    /// The mark tells the byte order.
    fn recognizes(start: &[u8]) -> bool {
        start.starts_with(b"PERFILE2") || start.starts_with(b"2ELIFREP")
    }

    fn start(path: &Path, _: Input, decoding: Decoding) -> Result<Self, Error> {
        Self::open(path, decoding)
    }

    fn machine(path: &Path, _: &[u8], decoding: Decoding) -> Result<Machine, Error> {
        let mut perf = Self::open(path, decoding)?;
        // What comes before the first event describes the machine; its errors are reported when it is read.
        drop(perf.next());
        Ok(Machine { kernel: perf.kernel(), comms: perf.comms })
    }

    fn bytes_read(&self) -> u64 {
        self.stream.at
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.stream.source.bytes)
    }

    fn comms(&self) -> Option<&BTreeMap<u32, String>> {
        Some(&self.comms)
    }

    fn lost(&self) -> u64 {
        self.lost.values().fold(0, |sum, &lost| sum.saturating_add(lost))
    }

    fn lost_by_cpu(&self) -> LostByCpu {
        self.lost.clone()
    }

    /// Returns the losses by the counters of events, beyond the ring buffer's records.
    fn lost_unplaced(&self) -> LostByCpu {
        let unplaced = self.counted.saturating_sub(self.lost());
        if unplaced > 0 { LostByCpu::from([(None, unplaced)]) } else { LostByCpu::new() }
    }
}

impl Iterator for PerfData {
    type Item = Result<Record, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.read().transpose();
        if matches!(record, Some(Err(_))) {
            self.rounds = Rounds::default();
            self.done = true;
        }
        record
    }
}

/// Parses a record; `None` for a damaged one, whose counts the parser multiplies without a check, so that it panics.
fn parse<'a>(record: &RawEventRecord<'a>) -> Option<EventRecord<'a>> {
    catch_unwind(AssertUnwindSafe(|| record.parse())).ok()?.ok()
}
