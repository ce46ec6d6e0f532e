//! Passes a log of any length through the stages. Only lines that concern memory are parsed.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::LazyLock;

use memchr::memmem;

use pageblock_recording::decompressed;

use super::find::{Finder, Report, marks};
use super::literals::Literals;
use super::read::state::WORDS;
use super::unwrap::{REALTIME, Unwrapper, Utf8};

/// A longer line is read in pieces that end with a blank, as reports are found however they are wrapped.
const PIECE_BYTES: usize = 16 << 10;

/// Relevant lines contain one of these strings.
static SAYS: LazyLock<Literals> =
    LazyLock::new(|| Literals::new(WORDS.into_iter().chain(marks()).chain([REALTIME]).collect()));

/// The content of a log.
pub struct Logged {
    /// Its reports in order.
    pub reports: Vec<Report>,
    /// The number of its lines.
    pub lines: usize,
}

/// Reads a log.
///
/// # Errors
/// If reading fails, or there are more than `most` reports.
pub fn read(reader: impl Read + Send, most: usize) -> io::Result<Logged> {
    let mut reader = BufReader::with_capacity(256 << 10, Utf8::new(decompressed(reader)?)?);
    let (mut log, mut bytes) = (Log::new(), Vec::new());
    loop {
        let room = (PIECE_BYTES - bytes.len()) as u64;
        let read = (&mut reader).take(room).read_until(b'\n', &mut bytes)?;
        if bytes.is_empty() {
            return Ok(log.finish());
        }
        let ends = bytes.last() == Some(&b'\n');
        let last = read == 0 || (read as u64) < room;
        let blank = bytes.iter().rposition(u8::is_ascii_whitespace).map(|at| at + 1);
        let cut = if ends || last { None } else { blank }.unwrap_or(bytes.len());
        log.piece(&bytes[..cut], ends);
        if log.plain.finder.len().max(log.unquoted.finder.len()) > most {
            let why = format!("more than {most} reports; give a part of the log");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        }
        bytes.drain(..cut);
    }
}

/// A log that is read in two ways: as it is, and as a copy of the source of a mail, where `=` at a line's end joins
/// two lines. Which of them applies is known at its end.
struct Log {
    number: usize,
    plain: Reading,
    unquoted: Reading,
    /// A line that continues, and its number.
    joined: Option<(usize, Vec<u8>)>,
    has_code: bool,
    has_join: bool,
    is_within_line: bool,
}

impl Log {
    fn new() -> Self {
        Self {
            number: 1,
            plain: Reading::new(),
            unquoted: Reading::new(),
            joined: None,
            has_code: false,
            has_join: false,
            is_within_line: false,
        }
    }

    /// Reads a piece of a line. `ends`: it is the last piece.
    fn piece(&mut self, piece: &[u8], ends: bool) {
        let piece = piece.strip_suffix(b"\n").unwrap_or(piece);
        let piece = piece.strip_suffix(b"\r").unwrap_or(piece);
        let says = SAYS.is_in(piece);
        self.plain.push(self.number, piece, says);
        if self.joined.is_none() && !is_quoted(piece) {
            self.unquoted.push(self.number, piece, says);
        } else {
            self.unquote(piece, ends);
        }
        self.is_within_line = !ends;
        self.number += usize::from(ends);
    }

    fn unquote(&mut self, piece: &[u8], ends: bool) {
        self.has_code |= memmem::find(piece, b"=3D").is_some();
        let part = piece.strip_suffix(b"=").filter(|_| ends);
        self.has_join |= part.is_some();
        let text = decoded(part.unwrap_or(piece));
        let (number, mut line) = self.joined.take().unwrap_or((self.number, Vec::new()));
        line.extend(text);
        if part.is_some() && line.len() < PIECE_BYTES {
            self.joined = Some((number, line));
        } else {
            self.unquoted.push(number, &line, SAYS.is_in(&line));
        }
    }

    fn finish(mut self) -> Logged {
        if let Some((number, line)) = self.joined.take() {
            self.unquoted.push(number, &line, true);
        }
        let is_quoted = self.has_code && self.has_join;
        let reading = if is_quoted { self.unquoted } else { self.plain };
        Logged {
            reports: reading.finder.finish(),
            lines: self.number - usize::from(!self.is_within_line),
        }
    }
}

/// Returns whether a line has a code of quoted-printable mail, or a `=` that joins lines.
fn is_quoted(line: &[u8]) -> bool {
    memchr::memchr_iter(b'=', line).any(|at| at + 1 == line.len() || code(&line[at..]).is_some())
}

/// Returns the byte that a text begins with as quoted-printable mail writes it.
fn code(text: &[u8]) -> Option<u8> {
    let &[b'=', high, low, ..] = text else { return None };
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(&byte);
    let digits = [high, low];
    let digits = std::str::from_utf8(&digits).ok().filter(|_| is_digit(high) && is_digit(low))?;
    u8::from_str_radix(digits, 16).ok()
}

/// Returns a line without such codes, and without ends of lines that were coded.
fn decoded(mut line: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(line.len());
    while let Some(at) = memchr::memchr(b'=', line) {
        text.extend(&line[..at]);
        let byte = code(&line[at..]);
        text.extend(byte.or(Some(b'=')).filter(|byte| !matches!(byte, b'\n' | b'\r')));
        line = &line[at + if byte.is_some() { 3 } else { 1 }..];
    }
    text.extend(line);
    text
}

/// The first two stages.
struct Reading {
    unwrapper: Unwrapper,
    finder: Finder,
}

impl Reading {
    fn new() -> Self {
        Self { unwrapper: Unwrapper::default(), finder: Finder::new() }
    }

    /// Reads a line if it is relevant.
    fn push(&mut self, number: usize, line: &[u8], says: bool) {
        if says || self.finder.is_within() {
            let line = String::from_utf8_lossy(line);
            let lines = self.unwrapper.lines(number, &line);
            lines.iter().for_each(|line| self.finder.push(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Kind;

    #[test]
    fn codes_of_mail_are_read() {
        for (coded, plain) in
            [("a=3D=C2=A0b=20=0A", "a=\u{a0}b "), ("a=b=", "a=b="), ("=G1=", "=G1=")]
        {
            assert_eq!(decoded(coded.as_bytes()), plain.as_bytes(), "{coded}");
        }
    }

    const OOM: &str =
        "Jun  1 10:00:00 host kernel: a invoked oom-killer: gfp_mask=0x200da, order=0\nMem-Info:\n";

    fn reports(log: &str) -> Vec<Report> {
        read(log.as_bytes(), usize::MAX).unwrap().reports
    }

    #[test]
    fn lines_that_mail_wrapped_are_joined() {
        let mail =
            "> Node 0 DMA free:13428kB rese=\nrved_highatomic:0KB managed:15=\n908kB\n\n= =3D 5kB";
        let zone = &reports(mail)[0].memory.zones[0];
        let sizes = (zone.free, zone.reserved_highatomic, zone.managed);
        assert_eq!(sizes, (Some(13428), Some(0), Some(15908)));
        // Without the code of a `=` it is no mail.
        assert_eq!(
            reports(&mail.replace("=3D", "")).first().map(|r| r.memory.zones[0].managed),
            Some(None)
        );
        assert_eq!(read(&b"a#012 b\nc"[..], 1).unwrap().lines, 2);
    }

    /// Any number of other lines between the lines of a report is skipped without another effect.
    #[test]
    fn lines_that_say_nothing_change_nothing() {
        let zones =
            "Node 0 DMA free:13428kB min:64kB low:80kB high:96kB\nlowmem_reserve[]: 0 900\n";
        let lists = "Node 0 DMA: 1*4kB (U) 2*8kB (M)\n";
        let plain = reports(&[OOM, zones, lists].concat());
        assert_eq!((plain.len(), plain[0].kind), (1, Kind::Oom));
        let noise = "sshd[7]: session opened for root\n".repeat(1000);
        let mixed = reports(&[&noise, OOM, &noise, zones, &noise, lists, &noise].concat());
        assert_eq!(mixed.len(), 1);
        assert_eq!(mixed[0].memory.zones[0].lists, plain[0].memory.zones[0].lists);
        assert_eq!(mixed[0].memory.zones[0].lowmem_reserve, [0, 900]);
        // A list ends with the line after it.
        let cut = lists.replace(" 2*8kB (M)", "");
        let parted = [&noise, OOM, &noise, zones, &cut, "noise\n", &noise, "2*8kB (M)\n"].concat();
        assert_eq!(reports(&parted)[0].memory.zones[0].lists.len(), 1);
    }

    #[test]
    fn a_wrapped_line_is_of_the_caller_above_it() {
        let mail = "> [1.5] [ T7] a: page allocation failure: order:4,\n> mode:0xcc0(GFP_KERNEL)\n> [1.6] [ T7] CPU: 0\n";
        let found = reports(mail);
        assert_eq!((found.len(), found[0].flags.as_deref()), (1, Some("GFP_KERNEL")));
    }

    #[test]
    fn a_line_of_any_length_is_read_in_pieces() {
        let line =
            [OOM.trim_end(), &" noise".repeat(20_000), " Node 0 DMA free:8kB min:4kB"].concat();
        let one = line.replace('\n', " ");
        let found = reports(&one);
        assert_eq!((found.len(), found[0].memory.zones[0].free), (1, Some(8)));
        assert_eq!(read(one.as_bytes(), usize::MAX).unwrap().lines, 1);
    }

    /// Every search is a pass over the whole log.
    #[test]
    fn two_searches_find_all_strings() {
        assert_eq!(SAYS.searches(), 2);
    }

    #[test]
    fn too_many_reports_are_refused() {
        let error = read(OOM.repeat(4).as_bytes(), 2).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), "more than 2 reports; give a part of the log");
    }
}
