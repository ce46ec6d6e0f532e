//! `events.tsv`: one event per line, `t_us cpu pid op args`, separated by blanks.

use std::fmt::Write as _;
use std::path::Path;

use pageblock::event::Extfrag;
use pageblock::frame::{ORDER_LIMIT, Order, Pfn};
use pageblock::mobility::Migratetype;

use super::capture::Capture;
use crate::input::bytes::Input;
use crate::input::error::{Error, Expected};
use crate::record::decoding::Decoding;
use crate::record::event::{Other, PFN_LIMIT, Record, What};
use crate::record::gfp::GfpTexts;

const ORDER: &str = "an order from 0 to 15";

/// Parses single lines.
#[derive(Debug)]
pub struct LineParser {
    decoding: Decoding,
    gfp: GfpTexts,
}

impl LineParser {
    /// Makes a parser for the events of a kernel.
    #[must_use]
    pub fn new(decoding: Decoding) -> Self {
        Self { decoding, gfp: GfpTexts::default() }
    }

    /// Parses one line without its line end; `None` for a comment or an empty line.
    ///
    /// # Errors
    /// What is allowed, if the line is not an event.
    #[inline]
    pub fn parse(&mut self, line: &[u8]) -> Result<Option<Record>, Expected> {
        if line.first().is_none_or(|&b| b == b'#') {
            return Ok(None);
        }
        let mut fields = Fields(line);
        let t_us = fields.number("a time in microseconds")?;
        let cpu = fields.number("a CPU number up to 65535")?;
        let pid = fields.number("a process id up to 4294967295")?;
        let cpu = u16::try_from(cpu).map_err(|_| Expected("a CPU number up to 65535"))?;
        let pid = u32::try_from(pid).map_err(|_| Expected("a process id up to 4294967295"))?;
        let what = self.what(&mut fields)?;
        Ok(Some(Record { t_us, cpu, pid, what }))
    }

    #[inline]
    fn what(&mut self, fields: &mut Fields<'_>) -> Result<What, Expected> {
        let op = fields.word();
        let &[op] = op else { return Err(Expected("an operation: A F B Z D X I K M E")) };
        let what = match op {
            b'A' => {
                let pfn = if fields.0.starts_with(b"- ") {
                    fields.0 = &fields.0[2..];
                    None
                } else {
                    Some(fields.pfn()?)
                };
                let order = fields.order()?;
                let mt = self.mt(fields)?;
                let text = fields.word();
                let gfp =
                    self.gfp.get(text).ok_or(Expected("allocation flags such as GFP_KERNEL"))?;
                What::Alloc { pfn, order, mt, gfp }
            }
            b'F' => {
                let (pfn, order) = (fields.pfn()?, fields.number(ORDER)?);
                match Order::try_from(order) {
                    Ok(order) if order <= ORDER_LIMIT => What::Free { pfn, order },
                    // The kernel frees a huge page of 1 GiB or more as one block.
                    Ok(order) if order < u64::BITS as Order => {
                        What::not_understood("mm_page_free", &format!("pfn={pfn} order={order}"))
                    }
                    _ => return Err(Expected(ORDER)),
                }
            }
            b'B' => What::FreeBatched { pfn: fields.pfn()? },
            b'Z' => What::ZoneLocked {
                pfn: fields.pfn()?,
                order: fields.order()?,
                mt: self.mt(fields)?,
                refill: fields.flag()?,
            },
            b'D' => {
                What::Drain { pfn: fields.pfn()?, order: fields.order()?, mt: self.mt(fields)? }
            }
            b'X' => What::Extfrag(Extfrag {
                pfn: fields.pfn()?,
                alloc_order: fields.order()?,
                fallback_order: fields.order()?,
                alloc_migratetype: self.mt(fields)?,
                fallback_migratetype: self.mt(fields)?,
                change_ownership: fields.flag()?,
            }),
            b'I' => What::Isolate {
                pfn: fields.pfn()?,
                order: fields.order()?,
                ret: fields.signed("the return value of the probe")?,
            },
            b'K' => {
                let pages = fields.number("a number of pages")?;
                What::Bulk {
                    pages: u32::try_from(pages).map_err(|_| Expected("up to 2^32 pages"))?,
                }
            }
            b'M' => return Ok(What::Marker(text(fields.0)?.into())),
            b'E' => {
                let name = text(fields.word())?.into();
                return Ok(What::Other(Box::new(Other { name, args: text(fields.0)?.into() })));
            }
            _ => return Err(Expected("an operation: A F B Z D X I K M E")),
        };
        if fields.0.is_empty() { Ok(what) } else { Err(Expected("no further field")) }
    }

    #[inline]
    fn mt(&self, fields: &mut Fields<'_>) -> Result<Migratetype, Expected> {
        const NUMBER: &str = "a migratetype number of this kernel";
        let number = fields.number(NUMBER)?;
        self.decoding.migratetype(number).ok_or(Expected(NUMBER))
    }
}

fn text(bytes: &[u8]) -> Result<&str, Expected> {
    std::str::from_utf8(bytes).map_err(|_| Expected("text in UTF-8"))
}

/// The rest of a line.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    #[inline]
    fn word(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|&b| b == b' ').unwrap_or(self.0.len());
        let word = &self.0[..end];
        self.0 = self.0.get(end + 1..).unwrap_or_default();
        word
    }

    #[inline]
    fn number(&mut self, expected: &'static str) -> Result<u64, Expected> {
        let mut value = 0u64;
        let mut len = 0;
        for &b in self.0 {
            let digit = b.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            len += 1;
        }
        // 19 digits fit into 64 bits.
        if len == 0 || len > 19 {
            return Err(Expected(expected));
        }
        match self.0.get(len) {
            None => self.0 = &[],
            Some(b' ') => self.0 = &self.0[len + 1..],
            Some(_) => return Err(Expected(expected)),
        }
        Ok(value)
    }

    fn signed(&mut self, expected: &'static str) -> Result<i64, Expected> {
        let negative = self.0.first() == Some(&b'-');
        if negative {
            self.0 = &self.0[1..];
        }
        let value = i64::try_from(self.number(expected)?).map_err(|_| Expected(expected))?;
        Ok(if negative { -value } else { value })
    }

    #[inline]
    fn pfn(&mut self) -> Result<Pfn, Expected> {
        let pfn = self.number("a page-frame number")?;
        if pfn < PFN_LIMIT { Ok(Pfn(pfn)) } else { Err(Expected("a frame below 2^40")) }
    }

    #[inline]
    fn order(&mut self) -> Result<Order, Expected> {
        let order = self.number(ORDER)?;
        if order <= u64::from(ORDER_LIMIT) { Ok(order as Order) } else { Err(Expected(ORDER)) }
    }

    #[inline]
    fn flag(&mut self) -> Result<bool, Expected> {
        match self.number("0 or 1")? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Expected("0 or 1")),
        }
    }
}

/// Streams the events of a file. After an error the stream ends.
pub struct TsvReader {
    input: Input,
    parser: LineParser,
    done: bool,
}

impl TsvReader {
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
        Self { input, parser: LineParser::new(decoding), done: false }
    }

    #[inline]
    fn read(&mut self) -> Result<Option<Record>, Error> {
        while let Some(line) = self.input.next_line()? {
            let parsed = self.parser.parse(line.bytes);
            if let (Ok(record), true) = (parsed.as_ref().map_err(|_| ()), line.complete) {
                match record {
                    None => continue,
                    Some(_) => return Ok(parsed.unwrap_or_default()),
                }
            }
            let expected = match parsed {
                Err(expected) => expected.0,
                Ok(_) => "a line end: the file is truncated",
            };
            let (found, number, offset) = (line.bytes.to_vec(), line.number, line.offset);
            return Err(Error::malformed(self.input.place_of(number, offset), &found, expected));
        }
        Ok(None)
    }
}

impl Capture for TsvReader {
    /// A file without a heading starts with an event, or is empty.
    fn recognizes(start: &[u8]) -> bool {
        let line = start.split(|&b| b == b'\n').next().unwrap_or_default();
        let mut words = line.split(|&b| b == b' ');
        let number = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_digit);
        start.is_empty()
            || start.starts_with(b"# pb-events")
            || (0..3).all(|_| words.next().is_some_and(number))
    }

    fn start(_: &Path, input: Input, decoding: Decoding) -> Result<Self, Error> {
        Ok(Self::new(input, decoding))
    }

    fn bytes_read(&self) -> u64 {
        self.input.file_bytes_read()
    }

    fn bytes(&self) -> Option<u64> {
        self.input.file_bytes()
    }

    fn is_selected(&self) -> bool {
        true
    }
}

impl Iterator for TsvReader {
    type Item = Result<Record, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        match self.read() {
            Ok(Some(record)) => Some(Ok(record)),
            Ok(None) => {
                self.done = true;
                None
            }
            Err(error) => {
                self.done = true;
                Some(Err(error))
            }
        }
    }
}

/// The first line of a file.
pub(crate) const HEADER: &str = "# pb-events v1: t_us cpu pid op args | A pfn order mt gfp (pfn - = failed) | \
                      F pfn order | B pfn | Z pfn order mt refill | D pfn order mt | X pfn \
                      alloc_order fallback_order alloc_mt fallback_mt change_ownership | I pfn order \
                      ret | K npages | M marker | E name args\n";

/// Appends an event as a line of `events.tsv`, with its line end.
pub fn write_line(out: &mut String, record: &Record, decoding: Decoding) {
    let Record { t_us, cpu, pid, what } = record;
    let number = |mt| decoding.number(mt);
    // Writing to a string cannot fail.
    let _ = write!(out, "{t_us} {cpu} {pid} ");
    let _ = match what {
        What::Alloc { pfn: Some(pfn), order, mt, gfp } => {
            writeln!(out, "A {pfn} {order} {} {gfp}", number(*mt))
        }
        What::Alloc { pfn: None, order, mt, gfp } => {
            writeln!(out, "A - {order} {} {gfp}", number(*mt))
        }
        What::Free { pfn, order } => writeln!(out, "F {pfn} {order}"),
        What::FreeBatched { pfn } => writeln!(out, "B {pfn}"),
        What::ZoneLocked { pfn, order, mt, refill } => {
            writeln!(out, "Z {pfn} {order} {} {}", number(*mt), u8::from(*refill))
        }
        What::Drain { pfn, order, mt } => writeln!(out, "D {pfn} {order} {}", number(*mt)),
        What::Extfrag(x) => writeln!(
            out,
            "X {} {} {} {} {} {}",
            x.pfn,
            x.alloc_order,
            x.fallback_order,
            number(x.alloc_migratetype),
            number(x.fallback_migratetype),
            u8::from(x.change_ownership)
        ),
        What::Isolate { pfn, order, ret } => writeln!(out, "I {pfn} {order} {ret}"),
        What::Bulk { pages } => writeln!(out, "K {pages}"),
        What::Marker(name) => writeln!(out, "M {name}"),
        What::Other(other) => writeln!(out, "E {} {}", other.name, other.args),
    };
}
