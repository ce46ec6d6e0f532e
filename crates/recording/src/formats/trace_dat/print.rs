//! Formats events as the kernel prints them: the format's text with its arguments filled in.

use super::expr::{Expr, Parser, Value};
use super::format::Format;
use crate::input::source::Endian;

/// A parsed print format.
#[derive(Debug)]
pub(crate) struct Print {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Text(String),
    Argument { spec: Spec, value: Expr },
}

/// One `%...` conversion of a format.
#[derive(Clone, Copy, Debug)]
struct Spec {
    left: bool,
    zeros: bool,
    alternate: bool,
    width: usize,
    kind: char,
}

impl Print {
    /// Parses an event's print format; `None` if it contains anything unknown.
    pub(crate) fn parse(format: &Format) -> Option<Self> {
        let mut parser = Parser::new(&format.print, format);
        let text = parser.text()?;
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c != '%' {
                literal.push(c);
                continue;
            }
            if chars.next_if_eq(&'%').is_some() {
                literal.push('%');
                continue;
            }
            let mut spec =
                Spec { left: false, zeros: false, alternate: false, width: 0, kind: 'd' };
            loop {
                let c = chars.next()?;
                match c {
                    '-' => spec.left = true,
                    '#' => spec.alternate = true,
                    '0' if spec.width == 0 => spec.zeros = true,
                    '0'..='9' => {
                        spec.width = (spec.width * 10 + c as usize - '0' as usize).min(256);
                    }
                    'l' | 'h' | 'z' | 'L' | 'q' | 't' | '.' => {}
                    'd' | 'i' | 'u' | 'x' | 'X' | 'p' | 's' | 'c' => {
                        spec.kind = c;
                        break;
                    }
                    _ => return None,
                }
            }
            // `%pS` and the like print a symbol; the address is printed instead.
            if spec.kind == 'p' {
                while chars.next_if(char::is_ascii_alphanumeric).is_some() {}
            }
            if !parser.eat(",") {
                return None;
            }
            parts.push(Part::Text(std::mem::take(&mut literal)));
            parts.push(Part::Argument { spec, value: parser.expr()? });
        }
        parts.push(Part::Text(literal));
        parser.is_at_end().then_some(Self { parts })
    }

    /// Returns the text of a record.
    pub(crate) fn text(&self, format: &Format, record: &[u8], endian: Endian) -> Option<String> {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Argument { spec, value } => {
                    let value = spec.text(value.eval(format, record, endian)?);
                    let fill = spec.width.saturating_sub(value.chars().count());
                    let pad = if spec.zeros && !spec.left { "0" } else { " " };
                    let before = if spec.left { 0 } else { fill };
                    out.push_str(&pad.repeat(before));
                    out.push_str(&value);
                    out.push_str(&" ".repeat(fill - before));
                }
            }
        }
        Some(out)
    }

    /// Returns the flag table of the first argument that has one.
    pub(crate) fn flag_table(&self) -> Option<&[(u64, String)]> {
        self.parts.iter().find_map(|part| match part {
            Part::Argument { value, .. } => value.flag_table(),
            Part::Text(_) => None,
        })
    }
}

impl Spec {
    fn text(self, value: Value) -> String {
        let number = match value {
            Value::Text(text) => return text,
            Value::Number(number) => number,
        };
        match self.kind {
            'x' if self.alternate => format!("{number:#x}"),
            'x' => format!("{number:x}"),
            'X' => format!("{number:X}"),
            'p' => format!("{number:#x}"),
            'd' | 'i' => (number as i64).to_string(),
            'c' => char::from(number as u8).to_string(),
            _ => number.to_string(),
        }
    }
}

/// Formats the fields of a record as `name=value`, for print formats that cannot be parsed.
pub(crate) fn plain(format: &Format, record: &[u8], endian: Endian) -> String {
    let fields = format.fields.iter().filter(|field| !field.name.starts_with("common_"));
    let texts = fields.filter_map(|field| {
        let name = &field.name;
        if field.array || field.data_loc {
            let text = String::from_utf8_lossy(field.text(record, endian)?);
            return Some(format!("{name}={}", text.trim_end()));
        }
        let number = field.read(record, endian)?;
        Some(if field.signed {
            format!("{name}={}", number as i64)
        } else {
            format!("{name}={number}")
        })
    });
    texts.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_printed_as_by_the_kernel() {
        let format = Format::parse(
            "compaction",
            "name: mm_compaction_end\nID: 1\n\
             \tfield:unsigned long pfn;\toffset:0;\tsize:8;\tsigned:0;\n\
             \tfield:int zone;\toffset:8;\tsize:4;\tsigned:1;\n\
             \tfield:int nid;\toffset:12;\tsize:4;\tsigned:1;\n\
             print fmt: \"pfn=0x%lx zone=%-8s, nid=%d 100%%\", REC->pfn, \
             __print_symbolic(REC->zone, {0, \"DMA\"}, {2, \"Normal\"}), REC->nid\n",
        )
        .unwrap();
        let print = Print::parse(&format).unwrap();
        let record = [0x34, 0x12, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
        let text = print.text(&format, &record, Endian::Little);
        assert_eq!(text.as_deref(), Some("pfn=0x1234 zone=Normal  , nid=-1 100%"));
        assert_eq!(plain(&format, &record, Endian::Little), "pfn=4660 zone=2 nid=-1");
        assert_eq!(print.text(&format, &record[..9], Endian::Little), None);
    }
}
