//! Text of users and their files, as it may be shown: on a terminal, on a page, in a picture, in a table.

use std::borrow::Cow;

/// The most characters of a cell in a table: the formatting of the standard library takes widths up to 65,535, and
/// every row is as wide as its widest cell.
const CELL_CHARS: usize = 1000;

/// Tells whether a terminal would obey a character instead of displaying it, or XML forbids it: control characters
/// except line feeds and tabs, characters that change the writing direction or part lines, and noncharacters.
#[must_use]
pub fn is_obeyed(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
                | '\u{fffe}' | '\u{ffff}'
        )
}

/// Returns the text with every character escaped that [`is_obeyed`]. The escape `\u001b` is also valid in JSON and
/// TOML.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_obeyed(c) {
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

/// Returns a cell of a table, cut where it is longer than any name that this program or a kernel gives.
pub(crate) fn cell(text: &str) -> Cow<'_, str> {
    const CUT: &str = "...";
    if text.chars().nth(CELL_CHARS).is_none() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().take(CELL_CHARS - CUT.len()).collect::<String>() + CUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_as_json_does() {
        let name = "red \u{1b}[31m, C1 \u{9b}, bell \u{7}\r, \u{202e}\n\tend";
        let shown = printable(name);
        assert_eq!(shown, "red \\u001b[31m, C1 \\u009b, bell \\u0007\\u000d, \\u202e\n\tend");
        assert!(matches!(printable("plain \u{e9} \u{5b57}\n"), Cow::Borrowed(_)));
        assert_eq!(in_line("a\nb\u{1b}\u{2028}\u{ffff}"), "a\\nb\\u001b\\u2028\\uffff");
        // Characters that serde leaves unescaped in a JSON string.
        let json = serde_json::to_string("\u{7f}\u{9b}").unwrap();
        let read: String = serde_json::from_str(&printable(&json)).unwrap();
        assert_eq!(read, "\u{7f}\u{9b}");
    }

    #[test]
    fn a_cell_is_cut_by_characters() {
        let longest = "\u{5b57}".repeat(CELL_CHARS);
        assert_eq!(cell(&longest), longest);
        let cut = cell(&(longest + "x")).into_owned();
        assert_eq!((cut.chars().count(), cut.ends_with("\u{5b57}...")), (CELL_CHARS, true));
    }
}
