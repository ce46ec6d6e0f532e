//! Colours, HTML, Markdown and escapes.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Colours and other terminal sequences.
static COMMAND: LazyLock<Regex> = LazyLock::new(|| pattern(r"\x1b\[[0-9;?]*[A-Za-z]"));
static HTML: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?i)<br\s*/?>|</?(?:p|pre|code|span|div|td|tr|tt|font|b|i)\b[^<>]*>|&(?:[a-z]{2,5}|#\d{1,5}|#x[0-9a-f]{1,5});",
    )
});
/// A character with a meaning in Markdown or JSON, and a list of free blocks whose stars became underscores.
static ESCAPED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"\\([_*\[\]()|<>#.+"~-])|\\([nrt])|\b(\d+)_(\d+)kB"#));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

/// Removes markup from a line. Breaks of HTML and escaped ones become newlines.
pub(super) fn plain(line: Cow<'_, str>) -> Cow<'_, str> {
    let line = replaced(line, '\x1b', &COMMAND, |_| String::new());
    let line = match line.contains('&') {
        true => replaced(line, '&', &HTML, html),
        false => replaced(line, '<', &HTML, html),
    };
    let mark = if line.contains('\\') { '\\' } else { '_' };
    replaced(line, mark, &ESCAPED, escaped)
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
    let numbered = |digits: &str, radix| {
        let code = u32::from_str_radix(digits.trim_end_matches(';'), radix).ok()?;
        char::from_u32(code).map(|character| if character == '\u{a0}' { ' ' } else { character })
    };
    match found.as_str() {
        "&lt;" => "<".to_owned(),
        "&gt;" => ">".to_owned(),
        "&amp;" => "&".to_owned(),
        "&quot;" => "\"".to_owned(),
        "&apos;" => "'".to_owned(),
        "&nbsp;" | "&ensp;" | "&emsp;" => " ".to_owned(),
        hex if hex.starts_with("&#x") => {
            numbered(&hex[3..], 16).map_or(hex.to_owned(), String::from)
        }
        decimal if decimal.starts_with("&#") => {
            numbered(&decimal[2..], 10).map_or(decimal.to_owned(), String::from)
        }
        other if other.starts_with('&') => other.to_owned(),
        tag if tag.starts_with("<br") => "\n".to_owned(),
        _ => String::new(),
    }
}

fn escaped(found: &Captures<'_>) -> String {
    match (found.get(1), found.get(2), found.get(3), found.get(4)) {
        (Some(character), ..) => character.as_str().to_owned(),
        (_, Some(blank), ..) if blank.as_str() == "n" => "\n".to_owned(),
        (_, Some(_), ..) => " ".to_owned(),
        (_, _, Some(blocks), Some(kb)) => format!("{}*{}kB", blocks.as_str(), kb.as_str()),
        _ => found[0].to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_escapes_are_undone() {
        for (wrapped, text) in [
            ("Node 0 DMA: 1*4kB (U)", "Node 0 DMA: 1*4kB (U)"),
            ("\x1b[32m[ 1.0] \x1b[0m\x1b[33m active_file:\x1b[0m779", "[ 1.0]  active_file:779"),
            ("Free swap  = 8kB<br>Total swap = 9kB<br/>", "Free swap  = 8kB\nTotal swap = 9kB\n"),
            ("&lt;4&gt;a &amp; b&#32;c&#x3a;", "<4>a & b c:"),
            ("&unknown; &#55296;", "&unknown; &#55296;"),
            (r"gfp\_mask=0x1(GFP\_A|\_\_GFP\_B)", "gfp_mask=0x1(GFP_A|__GFP_B)"),
            (r"3051\*4kB (UME) 800\*8kB", "3051*4kB (UME) 800*8kB"),
            ("844_4kB 68_8kB active_file:85128kB", "844*4kB 68*8kB active_file:85128kB"),
            (r#"a\nb\t\"c\""#, "a\nb \"c\""),
            ("<IRQ> <TASK>", "<IRQ> <TASK>"),
        ] {
            assert_eq!(plain(Cow::Borrowed(wrapped)), text);
        }
    }
}
