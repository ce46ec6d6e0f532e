//! Text of users and their files, in lines that are shown.

use std::borrow::Cow;
use std::path::Path;

use crate::error::{Result, bail};

/// Reads a user's text file; rejects files above the limit, endless ones too.
///
/// # Errors
/// If the file cannot be read, is too long, or is no text.
pub fn read_text(path: &Path, kind: &'static str, limit: u64) -> Result<String> {
    let bytes = pageblock_measure::file::read(path, kind, limit)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(_) => bail!("{}: {kind} is a text in UTF-8", path.display()),
    }
}

/// Removes the error number that the standard library appends to the system's message.
#[must_use]
pub fn without_os_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.parse::<u32>().is_ok() => kept += rest,
            _ => kept += &[" (os error ", part].concat(),
        }
    }
    kept
}

/// Returns the text with every character escaped that a terminal would interpret instead of displaying it:
/// control characters except line feeds and tabs, and characters that change the writing direction. The escape
/// `\u001b` is also valid in JSON and TOML.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
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
#[must_use]
pub fn in_line(text: &str) -> String {
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
