//! Events as printed by tools: the `trace` file of tracefs, `perf script`, `trace-cmd report`.
//!
//! A line has the task and process id, `[cpu]`, optional flags, the time in seconds, the event, and its fields
//! as `key=value`. The formats differ in the form of the task (`name-12`, `name-12 ( 12)`, `name 12`, `name
//! 12/13`), in the digits of the time, and in the event's name (prefix `kmem:`).

use std::collections::BTreeMap;
use std::path::Path;

use pageblock::event::Extfrag;
use pageblock::frame::{ORDER_LIMIT, Order, Pfn};
use pageblock::mobility::Migratetype;
use pageblock::request::Gfp;

use super::capture::{Capture, Machine};
use crate::input::bytes::Input;
use crate::input::error::{Error, Expected};
use crate::record::decoding::Decoding;
use crate::record::event::{Other, PFN_LIMIT, Record, What};
use crate::record::gfp::GfpTexts;
use crate::record::kernel::KernelVersion;
use crate::record::losses::LostByCpu;

/// What is allowed where the kernel prints a number: anything else is damage, and no event.
const NO_NUMBER: Expected = Expected("a number after pfn=, order= and the like");

/// The content of a line of a printed trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TextLine {
    /// An event.
    Event(Record),
    /// The ring buffer lost events.
    Lost {
        /// The CPU; `None` if the line does not say.
        cpu: Option<u16>,
        /// The number of events; 1 if it is not printed.
        events: u64,
    },
    /// The header line in which ftrace describes its buffer.
    Buffer {
        /// The number of events in the buffer.
        kept: u64,
        /// The number of all events written, including those overwritten since.
        written: u64,
    },
    /// A heading, a comment, or a line of a stack trace.
    Nothing,
}

/// Parses single lines of a printed trace.
#[derive(Debug)]
pub struct TextParser {
    decoding: Decoding,
    gfp: GfpTexts,
    comms: BTreeMap<u32, String>,
}

impl TextParser {
    /// Makes a parser for the events of a kernel.
    #[must_use]
    pub fn new(decoding: Decoding) -> Self {
        Self { decoding, gfp: GfpTexts::default(), comms: BTreeMap::new() }
    }

    /// Parses one line without its line end.
    ///
    /// # Errors
    /// What is allowed, if the line is neither an event nor one that may occur beside events.
    pub fn parse(&mut self, line: &[u8]) -> Result<TextLine, Expected> {
        let line = line.trim_ascii_end();
        if line.is_empty() || line[0] == b'#' {
            return Ok(buffer(line).unwrap_or(TextLine::Nothing));
        }
        let Ok(text) = std::str::from_utf8(line) else {
            return Err(Expected("text in UTF-8"));
        };
        match Head::parse(text) {
            Some(head) => {
                let Head { t_us, cpu, task, event, args } = head;
                let Task { pid, comm } = task;
                let what = match self.what(event, args) {
                    Err(NO_NUMBER) => return Err(NO_NUMBER),
                    // What the kernel printed happened, whatever its values are.
                    what => what.unwrap_or_else(|_| What::not_understood(event, args)),
                };
                self.name(pid, comm);
                Ok(TextLine::Event(Record { t_us, cpu, pid, what }))
            }
            None => beside(text).ok_or(Expected(
                "an event as ftrace, perf script or trace-cmd report print it: \
                 task-pid [cpu] seconds: event: key=value ...",
            )),
        }
    }

    /// Keeps the last name of a process.
    fn name(&mut self, pid: u32, comm: &str) {
        // ftrace prints <...> where it does not know the name.
        if !matches!(comm, "" | "<...>") && self.comms.get(&pid).is_none_or(|known| known != comm) {
            self.comms.insert(pid, comm.to_owned());
        }
    }

    fn what(&mut self, event: &str, args: &str) -> Result<What, Expected> {
        let fields = Fields { args, decoding: self.decoding };
        Ok(match event {
            "mm_page_alloc" => {
                let text = fields.get("gfp_flags").unwrap_or_default();
                let gfp = self.gfp.get(text.as_bytes());
                let gfp: Gfp = gfp.ok_or(Expected("gfp_flags= with names of flags"))?;
                // The kernel prints a failed allocation with frame 0, which is never allocated, or -1.
                let pfn = match fields.number("pfn")? {
                    0 | u64::MAX => None,
                    _ => Some(fields.pfn()?),
                };
                let mt = fields.mt("migratetype")?;
                What::Alloc { pfn, order: fields.order("order")?, mt, gfp }
            }
            "mm_page_free" => What::Free { pfn: fields.pfn()?, order: fields.order("order")? },
            "mm_page_free_batched" => What::FreeBatched { pfn: fields.pfn()? },
            "mm_page_alloc_zone_locked" => {
                let order = fields.order("order")?;
                let refill = fields.flag("percpu_refill")?.unwrap_or(order == 0);
                let mt = fields.mt("migratetype")?;
                What::ZoneLocked { pfn: fields.pfn()?, order, mt, refill }
            }
            "mm_page_pcpu_drain" => What::Drain {
                pfn: fields.pfn()?,
                order: fields.order("order")?,
                mt: fields.mt("migratetype")?,
            },
            "mm_page_alloc_extfrag" => {
                let alloc_migratetype = fields.mt("alloc_migratetype")?;
                let fallback_migratetype = fields.mt("fallback_migratetype")?;
                let change = fields.flag("change_ownership")?;
                What::Extfrag(Extfrag {
                    pfn: fields.pfn()?,
                    alloc_order: fields.order("alloc_order")?,
                    fallback_order: fields.order("fallback_order")?,
                    alloc_migratetype,
                    fallback_migratetype,
                    change_ownership: change.unwrap_or(alloc_migratetype == fallback_migratetype),
                })
            }
            "tracing_mark_write" | "print" if args.starts_with("PB ") || args.contains(": PB ") => {
                let (_, name) = args.rsplit_once("PB ").unwrap_or_default();
                What::Marker(name.trim().into())
            }
            "tracing_mark_write" | "print" if is_mark(args) => What::Marker(mark(args).into()),
            _ => What::Other(Box::new(Other { name: event.into(), args: args.into() })),
        })
    }
}

/// Returns the last word of a printed text, which follows the address or function that printed it.
fn mark(args: &str) -> &str {
    args.rsplit([' ', ':']).next().unwrap_or_default()
}

/// Tells whether a text is one of the marks around snapshots.
fn is_mark(args: &str) -> bool {
    matches!(mark(args), "S0" | "S1" | "S2" | "E0" | "E1" | "E2") && args.split(' ').count() <= 2
}

/// The part of a line before the fields.
struct Head<'a> {
    t_us: u64,
    cpu: u16,
    task: Task<'a>,
    event: &'a str,
    args: &'a str,
}

/// A process as a line names it.
#[derive(Clone, Copy)]
struct Task<'a> {
    pid: u32,
    comm: &'a str,
}

impl<'a> Head<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        // A task's name can contain a bracket: the first position that parses is used.
        text.match_indices(" [").find_map(|(at, _)| Self::around(text, at))
    }

    /// Parses the line with its CPU at `at`.
    fn around(text: &'a str, at: usize) -> Option<Self> {
        let (cpu, rest) = text[at + 2..].split_once(']')?;
        let cpu = cpu.parse().ok()?;
        let task = Task::parse(&text[..at])?;
        let mut rest = rest.trim_start();
        // ftrace and trace-cmd print flags between CPU and time.
        for _ in 0..2 {
            let (word, after) = rest.split_once(' ')?;
            let after = after.trim_start();
            if let Some(t_us) = word.strip_suffix(':').and_then(time_us) {
                let (event, args) = event(after)?;
                return Some(Self { t_us, cpu, task, event, args });
            }
            rest = after;
        }
        None
    }
}

impl<'a> Task<'a> {
    /// Parses the name and the process id at its end.
    fn parse(text: &'a str) -> Option<Self> {
        let mut text = text.trim();
        // ftrace's option record-tgid adds the thread group.
        if let Some((before, _)) = text.strip_suffix(')').and_then(|text| text.rsplit_once('(')) {
            text = before.trim_end();
        }
        let digits = |text: &str| text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
        let start = digits(text);
        let pid = text[start..].parse().ok()?;
        let mut comm = &text[..start];
        // perf prints 12/13 for a thread of a process.
        if let Some(process) = comm.strip_suffix('/') {
            comm = &process[..digits(process)];
        }
        let comm = comm.strip_suffix('-').unwrap_or(comm).trim_end();
        Some(Self { pid, comm })
    }
}

/// Parses `seconds.fraction` as microseconds, rounded down.
fn time_us(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.')?;
    if fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let micros = format!("{fraction:0<6.6}").parse::<u64>().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(micros)
}

/// Parses `name: args` or `system:name: args`.
fn event(text: &str) -> Option<(&str, &str)> {
    let (name, args) = text.split_once(": ").or_else(|| Some((text.strip_suffix(':')?, "")))?;
    let name = name.rsplit(':').next().unwrap_or(name);
    let valid = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    valid.then_some((name, args.trim_start()))
}

/// Parses `# entries-in-buffer/entries-written: 205/310   #P:2`.
fn buffer(line: &[u8]) -> Option<TextLine> {
    let line = std::str::from_utf8(line.strip_prefix(b"# entries-in-buffer/entries-written:")?);
    let (kept, written) = line.ok()?.split_ascii_whitespace().next()?.split_once('/')?;
    Some(TextLine::Buffer { kept: kept.parse().ok()?, written: written.parse().ok()? })
}

/// Parses a line that is not an event but may occur among events.
fn beside(text: &str) -> Option<TextLine> {
    let first = |text: &str| text.split(' ').next().and_then(|word| word.parse().ok());
    if let Some((head, rest)) = text.split_once('[').filter(|_| text.starts_with("CPU")) {
        let cpu = head.trim_start_matches("CPU").trim_start_matches(':').trim().parse().ok();
        if let Some(rest) = rest.strip_prefix("LOST ") {
            return Some(TextLine::Lost { cpu, events: first(rest)? });
        }
        if rest.ends_with("EVENTS DROPPED]") {
            return Some(TextLine::Lost { cpu, events: first(rest).unwrap_or(1) });
        }
    }
    if let Some((head, lost)) = text.split_once(": PERF_RECORD_LOST lost ") {
        let cpu = head.split_once('[').and_then(|(_, rest)| rest.split_once(']')?.0.parse().ok());
        return Some(TextLine::Lost { cpu, events: first(lost)? });
    }
    let word = text.split_ascii_whitespace().next()?;
    let is_address = word.len() >= 8 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let heading = ["cpus=", "version", "=>", "<stack"].iter().any(|start| word.starts_with(start));
    (heading || text.starts_with([' ', '\t']) && is_address).then_some(TextLine::Nothing)
}

/// The `key=value` words of an event.
#[derive(Clone, Copy)]
struct Fields<'a> {
    args: &'a str,
    decoding: Decoding,
}

impl<'a> Fields<'a> {
    fn get(self, key: &str) -> Option<&'a str> {
        self.args.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn opt(self, key: &str) -> Result<Option<u64>, Expected> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let number = match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => value.parse(),
        };
        number.map(Some).map_err(|_| NO_NUMBER)
    }

    fn number(self, key: &str) -> Result<u64, Expected> {
        self.opt(key)?.ok_or(Expected("the fields that the kernel prints for this event"))
    }

    fn pfn(self) -> Result<Pfn, Expected> {
        let pfn = self.number("pfn")?;
        if pfn < PFN_LIMIT { Ok(Pfn(pfn)) } else { Err(Expected("a frame below 2^40")) }
    }

    fn order(self, key: &str) -> Result<Order, Expected> {
        match self.number(key)? {
            order if order <= u64::from(ORDER_LIMIT) => Ok(order as Order),
            _ => Err(Expected("an order from 0 to 15")),
        }
    }

    fn mt(self, key: &str) -> Result<Migratetype, Expected> {
        let mt = self.decoding.migratetype(self.number(key)?);
        mt.ok_or(Expected("a migratetype number of this kernel"))
    }

    fn flag(self, key: &str) -> Result<Option<bool>, Expected> {
        Ok(self.opt(key)?.map(|value| value != 0))
    }
}

/// Streams the events of a printed trace. After an error it ends.
pub struct TextReader {
    input: Input,
    parser: TextParser,
    lost: LostByCpu,
    /// The overwritten events according to the heading.
    overwritten: u64,
    done: bool,
}

impl TextReader {
    /// Opens a file, plain or compressed.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(path: &Path, decoding: Decoding) -> Result<Self, Error> {
        Ok(Self::new(Input::open(path)?, decoding))
    }

    /// Makes a reader of a stream.
    #[must_use]
    pub fn new(input: Input, decoding: Decoding) -> Self {
        Self {
            input,
            parser: TextParser::new(decoding),
            lost: LostByCpu::new(),
            overwritten: 0,
            done: false,
        }
    }

    fn read(&mut self) -> Result<Option<Record>, Error> {
        while let Some(line) = self.input.next_line()? {
            match self.parser.parse(line.bytes) {
                Ok(TextLine::Event(record)) => return Ok(Some(record)),
                Ok(TextLine::Lost { cpu, events }) => {
                    let lost = self.lost.entry(cpu).or_default();
                    *lost = lost.saturating_add(events);
                }
                Ok(TextLine::Buffer { kept, written }) => {
                    self.overwritten = written.saturating_sub(kept);
                }
                Ok(TextLine::Nothing) => {}
                Err(expected) => {
                    let (found, number, offset) = (line.bytes.to_vec(), line.number, line.offset);
                    let place = self.input.place_of(number, offset);
                    return Err(Error::malformed(place, &found, expected.0));
                }
            }
        }
        Ok(None)
    }
}

/// Reports whether a file looks as `perf script` prints events: with their group. It prints lost events only if it is told to
/// (`--show-lost-events`).
///
/// # Errors
/// If the file cannot be read.
pub fn is_perf_script(path: &Path) -> Result<bool, Error> {
    let mut input = Input::open(path)?;
    for _ in 0..HEADING {
        let Some(line) = input.next_line()? else { return Ok(false) };
        let has = |text: &[u8]| line.bytes.windows(text.len()).any(|own| own == text);
        if has(b" kmem:mm_page_") && has(b": page=") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The lines in which an event of `perf script` must stand: its heading has fewer.
const HEADING: usize = 200;

impl Capture for TextReader {
    /// Takes every file: a line that is no event says so.
    fn recognizes(_: &[u8]) -> bool {
        true
    }

    fn start(_: &Path, input: Input, decoding: Decoding) -> Result<Self, Error> {
        Ok(Self::new(input, decoding))
    }

    /// `perf script --header` prints the machine first.
    fn machine(_: &Path, start: &[u8], _: Decoding) -> Result<Machine, Error> {
        let text = String::from_utf8_lossy(start);
        let release = text.lines().find_map(|line| line.strip_prefix("# os release :"));
        let kernel = release.and_then(KernelVersion::parse);
        Ok(Machine { kernel, ..Machine::default() })
    }

    fn bytes_read(&self) -> u64 {
        self.input.file_bytes_read()
    }

    fn bytes(&self) -> Option<u64> {
        self.input.file_bytes()
    }

    fn comms(&self) -> Option<&BTreeMap<u32, String>> {
        Some(&self.parser.comms)
    }

    fn lost(&self) -> u64 {
        self.lost.values().fold(0, |sum, &lost| sum.saturating_add(lost))
    }

    fn lost_by_cpu(&self) -> LostByCpu {
        self.lost.clone()
    }

    /// Returns the overwritten events according to the heading, beyond those of the lines.
    fn lost_unplaced(&self) -> LostByCpu {
        let lost = self.overwritten.saturating_sub(self.lost());
        if lost > 0 { LostByCpu::from([(None, lost)]) } else { LostByCpu::new() }
    }
}

impl Iterator for TextReader {
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
mod tests;
