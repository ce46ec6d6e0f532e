//! Writes results, errors and notes: the only place where text from a user's arguments and files reaches a
//! terminal. A closed pipe is an error here, which `main` treats as a normal end.

use std::borrow::Cow;
use std::io::{self, Write};

/// Writes whole lines to standard output.
pub(crate) fn print(text: &str) -> io::Result<()> {
    write(printable(text).as_bytes())
}

/// Writes this program's own bytes to standard output.
pub(crate) fn write(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Writes whole lines to standard error. Failures are ignored, as there is no other place to report them.
pub(crate) fn note(text: &str) {
    let _ = io::stderr().lock().write_all(printable(text).as_bytes());
}

/// Returns the text with every character escaped that a terminal would interpret instead of displaying it:
/// control characters except line feeds and tabs, and characters that change the writing direction. The escape
/// `\u001b` is also valid in JSON and TOML.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if obeyed(c) {
            escaped += &format!("\\u{:04x}", u32::from(c));
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Does the same as [`printable`] for text that must stay in one line: the name of a file or from a file.
pub(crate) fn in_line(text: &str) -> String {
    printable(text).replace('\n', "\\n").replace('\t', "\\t")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_as_json_does() {
        let name = "red \u{1b}[31m, C1 \u{9b}, bell \u{7}\r, \u{202e}\n\tend";
        let shown = printable(name);
        assert_eq!(shown, "red \\u001b[31m, C1 \\u009b, bell \\u0007\\u000d, \\u202e\n\tend");
        assert!(matches!(printable("plain é 字\n"), Cow::Borrowed(_)));
        assert_eq!(in_line("a\nb\u{1b}"), "a\\nb\\u001b");
        // Characters that serde leaves unescaped in a JSON string.
        let json = serde_json::to_string("\u{7f}\u{9b}").unwrap();
        let read: String = serde_json::from_str(&printable(&json)).unwrap();
        assert_eq!(read, "\u{7f}\u{9b}");
    }
}
