//! Splits texts of `/proc` into a fixed part and the numbers that change.

use std::fmt::Write;

/// A text without its numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Template {
    fields: Vec<Field>,
    /// The text after the last number.
    end: String,
}

/// A number in a text, and the text before it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Field {
    before: String,
    /// The width to which it is padded with blanks on the left; 0 without padding.
    width: usize,
    /// Whether it has two decimals, as in `/proc/uptime`: its value is then in hundredths.
    decimals: bool,
}

/// A number at the beginning of a text, with blanks before it.
struct Found {
    blanks: usize,
    bytes: usize,
    value: u64,
    decimals: bool,
}

/// The largest number of digits that fits with two decimals.
const DIGITS: usize = 17;
/// The largest padding, far above real ones. The standard library pads to at most 65,535 characters.
const BLANKS: usize = 1000;

impl Template {
    /// Splits a text. With `columns`, blanks before a number are padding; otherwise they belong to the text before
    /// it.
    pub(super) fn of(text: &str, columns: bool) -> (Self, Vec<u64>) {
        let mut template = Self::default();
        let mut numbers = Vec::new();
        let mut before = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let blanks = rest.bytes().take_while(|&byte| byte == b' ').count();
            // One blank separates; more fill a column.
            let fills = blanks == 0 || (columns && (2..=BLANKS).contains(&blanks));
            let found = if fills { Found::at(rest, true) } else { None };
            if let Some(found) = found {
                let width = if found.blanks > 0 { found.blanks + found.bytes } else { 0 };
                let before = std::mem::take(&mut before);
                template.fields.push(Field { before, width, decimals: found.decimals });
                numbers.push(found.value);
                rest = &rest[found.blanks + found.bytes..];
                continue;
            }
            // A number that does not have this form stays text as a whole.
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let bytes = blanks.max(digits).max(first.len_utf8());
            before.push_str(&rest[..bytes]);
            rest = &rest[bytes..];
        }
        template.end = before;
        (template, numbers)
    }

    /// Returns the numbers of a text that differs from this one only in its numbers.
    pub(super) fn numbers(&self, text: &str) -> Option<Vec<u64>> {
        let mut rest = text;
        let mut numbers = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            rest = rest.strip_prefix(&field.before)?;
            let found = Found::at(rest, field.decimals)?;
            let filled = field.width.saturating_sub(found.bytes);
            if found.blanks != filled || found.decimals != field.decimals {
                return None;
            }
            numbers.push(found.value);
            rest = &rest[found.blanks + found.bytes..];
        }
        (rest == self.end).then_some(numbers)
    }

    /// Returns the text with numbers.
    pub(super) fn text(&self, numbers: &[u64]) -> String {
        let mut text = String::new();
        let mut number = String::new();
        for (field, &value) in self.fields.iter().zip(numbers) {
            number.clear();
            // Writing to a string cannot fail.
            let _ = match field.decimals {
                true => write!(number, "{}.{:02}", value / 100, value % 100),
                false => write!(number, "{value}"),
            };
            let width = field.width;
            let _ = write!(text, "{}{number:>width$}", field.before);
        }
        text + &self.end
    }
}

impl Found {
    /// Finds a number that is printed as this program would print it: no zero before it, and not too large.
    fn at(text: &str, decimals: bool) -> Option<Self> {
        let blanks = text.bytes().take_while(|&byte| byte == b' ').count();
        let text = &text[blanks..];
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 || digits > DIGITS || (digits > 1 && text.starts_with('0')) {
            return None;
        }
        let value: u64 = text[..digits].parse().ok()?;
        let after = text[digits..].strip_prefix('.').filter(|_| decimals);
        let of_fraction =
            after.map_or(0, |after| after.bytes().take_while(u8::is_ascii_digit).count());
        let fraction = after.filter(|after| of_fraction == 2 && !after[2..].starts_with('.'));
        Some(match fraction.and_then(|after| after[..2].parse::<u64>().ok()) {
            Some(hundredths) => {
                Self { blanks, bytes: digits + 3, value: value * 100 + hundredths, decimals: true }
            }
            None => Self { blanks, bytes: digits, value, decimals: false },
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn halves(text: &str) -> (Template, Vec<u64>) {
        for columns in [false, true] {
            let (template, numbers) = Template::of(text, columns);
            assert_eq!(template.text(&numbers), text);
            assert_eq!(template.numbers(text), Some(numbers.clone()), "{text:?} {template:?}");
        }
        Template::of(text, true)
    }

    #[test]
    fn columns_and_decimals_keep_their_form() {
        let (template, numbers) = halves("Node 0, zone   Normal      1     22 123456 \n");
        assert_eq!(numbers, [0, 1, 22, 123_456]);
        let later = "Node 0, zone   Normal    901      0      6 \n";
        assert_eq!(template.numbers(later), None, "the last column had no blanks to spare");
        let (template, _) = halves(later);
        let wider = "Node 0, zone   Normal 123456    345      7 \n";
        assert_eq!(template.numbers(wider), Some(vec![0, 123_456, 345, 7]));
        let (template, numbers) = halves("some avg10=0.05 avg60=12.00 total=1234\n");
        assert_eq!(numbers, [10, 5, 60, 1200, 1234]);
        assert!(template.numbers("some avg10=9.95 avg60=0.01 total=99999\n").is_some());
        let (template, _) = Template::of("   count:    990\n", false);
        assert_eq!(template.numbers("   count:    1002\n"), Some(vec![1002]));
        halves(&format!("a{}5 b{}7", " ".repeat(70_000), " ".repeat(BLANKS)));
        halves("nr_free_pages 12345\nnr_x -5\nboot 007 v6.18.44 1.2.3 99999999999999999999\n");
    }

    proptest! {
        #[test]
        fn any_text_comes_back(text in "[ 0-9a.\\n-]{0,40}|\\PC{0,20}") {
            halves(&text);
        }
    }
}
