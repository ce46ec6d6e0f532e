//! Removes what wraps a log: objects of loggers, colours, HTML, Markdown, UTF-16.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::LazyLock;

use regex_lite::{Captures, Regex};
use serde_json::Value;

/// The keys under which loggers store a message: Docker and Kubernetes, the journal, and others.
const KEYS: [&str; 4] = ["log", "MESSAGE", "message", "msg"];

/// Colours and other terminal sequences.
static COMMAND: LazyLock<Regex> = LazyLock::new(|| pattern(r"\x1b\[[0-9;?]*[A-Za-z]"));
static HTML: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?i)<br\s*/?>|</?(?:p|pre|code|span)\b[^<>]*>|&(?:lt|gt|amp|quot|nbsp|#39);")
});
/// A character that Markdown gives a meaning to, and a list of free blocks whose stars it turned into underscores.
static MARKDOWN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\\([_*\[\]()|<>#.+-])|\b(\d+)_(\d+)kB"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

/// Returns a line as the kernel printed it; breaks of HTML and of loggers become newlines.
pub(super) fn unwrap(line: &str) -> Cow<'_, str> {
    let line = message(line).map_or(Cow::Borrowed(line), Cow::Owned);
    let line = replaced(line, '\x1b', &COMMAND, |_| String::new());
    let line = match line.contains('&') {
        true => replaced(line, '&', &HTML, html),
        false => replaced(line, '<', &HTML, html),
    };
    let mark = if line.contains('\\') { '\\' } else { '_' };
    replaced(line, mark, &MARKDOWN, markdown)
}

/// Returns the message in the object that a logger made of a line.
fn message(line: &str) -> Option<String> {
    let line = line.trim();
    if !(line.starts_with('{') && line.ends_with('}')) {
        return None;
    }
    let object: Value = serde_json::from_str(line).ok()?;
    KEYS.iter().find_map(|key| match object.get(key)? {
        Value::String(text) => Some(text.clone()),
        // The journal prints what is not UTF-8, or has colours, as bytes.
        Value::Array(bytes) => {
            let byte = |value: &Value| value.as_u64().and_then(|byte| u8::try_from(byte).ok());
            let bytes: Option<Vec<u8>> = bytes.iter().map(byte).collect();
            Some(String::from_utf8_lossy(&bytes?).into_owned())
        }
        _ => None,
    })
}

fn replaced<'a>(
    line: Cow<'a, str>,
    mark: char,
    pattern: &Regex,
    by: impl Fn(&Captures<'_>) -> String,
) -> Cow<'a, str> {
    // A search for a character costs a hundredth of a pattern.
    if !line.contains(mark) {
        return line;
    }
    match pattern.replace_all(&line, by) {
        Cow::Borrowed(_) => line,
        Cow::Owned(replaced) => Cow::Owned(replaced),
    }
}

fn html(found: &Captures<'_>) -> String {
    let found = found[0].to_ascii_lowercase();
    let text = match found.as_str() {
        "&lt;" => "<",
        "&gt;" => ">",
        "&amp;" => "&",
        "&quot;" => "\"",
        "&#39;" => "'",
        "&nbsp;" => " ",
        tag if tag.starts_with("<br") => "\n",
        _ => "",
    };
    text.to_owned()
}

fn markdown(found: &Captures<'_>) -> String {
    match (found.get(1), found.get(2), found.get(3)) {
        (Some(character), ..) => character.as_str().to_owned(),
        (_, Some(blocks), Some(kb)) => format!("{}*{}kB", blocks.as_str(), kb.as_str()),
        _ => found[0].to_owned(),
    }
}

/// A reader of UTF-8, of what may be UTF-16 with a mark of its byte order.
pub(super) struct Utf8<R> {
    source: BufReader<R>,
    /// How two bytes make a number; `None` if the text is not UTF-16.
    wide: Option<fn([u8; 2]) -> u16>,
    ready: Vec<u8>,
}

impl<R: Read> Utf8<R> {
    /// # Errors
    /// If reading fails.
    pub(super) fn new(source: R) -> io::Result<Self> {
        let mut source = BufReader::with_capacity(256 << 10, source);
        let mut wide: Option<fn([u8; 2]) -> u16> = None;
        match source.fill_buf()? {
            [0xff, 0xfe, ..] => wide = Some(u16::from_le_bytes),
            [0xfe, 0xff, ..] => wide = Some(u16::from_be_bytes),
            _ => {}
        }
        if wide.is_some() {
            source.consume(2);
        }
        Ok(Self { source, wide, ready: Vec::new() })
    }
}

impl<R: Read> Read for Utf8<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(wide) = self.wide else { return self.source.read(buffer) };
        if self.ready.is_empty() {
            let mut bytes = Vec::new();
            // A number of whole characters, but for one that is made of two numbers.
            (&mut self.source).take(4096).read_to_end(&mut bytes)?;
            let mut units: Vec<u16> =
                bytes.chunks_exact(2).map(|two| wide([two[0], two[1]])).collect();
            if units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) {
                let mut rest = Vec::new();
                (&mut self.source).take(2).read_to_end(&mut rest)?;
                units.extend(rest.chunks_exact(2).map(|two| wide([two[0], two[1]])));
            }
            self.ready = String::from_utf16_lossy(&units).into_bytes();
        }
        let read = self.ready.len().min(buffer.len());
        buffer[..read].copy_from_slice(&self.ready[..read]);
        self.ready.drain(..read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_the_kernel_printed_them() {
        for (wrapped, plain) in [
            ("Node 0 DMA: 1*4kB (U)", "Node 0 DMA: 1*4kB (U)"),
            (r#"{"log": "Mem-Info:\n", "stream": "stdout"}"#, "Mem-Info:\n"),
            (r#"{"MESSAGE": " Mem-Info:", "_TRANSPORT": "kernel"}"#, " Mem-Info:"),
            (r#"{"MESSAGE": [77, 101, 109]}"#, "Mem"),
            (r#"{"other": 1}"#, r#"{"other": 1}"#),
            ("\x1b[32m[ 1.0] \x1b[0m\x1b[33m active_file:\x1b[0m779", "[ 1.0]  active_file:779"),
            ("Free swap  = 8kB<br>Total swap = 9kB<br/>", "Free swap  = 8kB\nTotal swap = 9kB\n"),
            ("&lt;4&gt;a &amp; b", "<4>a & b"),
            (r"gfp\_mask=0x1(GFP\_A|\_\_GFP\_B)", "gfp_mask=0x1(GFP_A|__GFP_B)"),
            (r"3051\*4kB (UME) 800\*8kB", "3051*4kB (UME) 800*8kB"),
            ("844_4kB 68_8kB active_file:85128kB", "844*4kB 68*8kB active_file:85128kB"),
        ] {
            assert_eq!(unwrap(wrapped), plain);
        }
    }

    #[test]
    fn utf_16_of_either_order_is_read() {
        let text = "Mem-Info: \u{1f600}\n".repeat(1000);
        for (mark, bytes) in [
            ([0xff, 0xfe], text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>()),
            ([0xfe, 0xff], text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
        ] {
            let bytes = [&mark[..], &bytes].concat();
            assert_eq!(io::read_to_string(Utf8::new(&bytes[..]).unwrap()).unwrap(), text);
        }
        assert_eq!(io::read_to_string(Utf8::new(&b"plain"[..]).unwrap()).unwrap(), "plain");
    }
}
