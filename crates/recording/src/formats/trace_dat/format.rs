//! The event format files in a trace: the position of each field in a record.

use crate::input::source::Endian;

/// A field of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) offset: usize,
    /// The size in bytes; 0 for an array that extends to the record's end.
    pub(crate) size: usize,
    pub(crate) signed: bool,
    /// Whether the value is the location of the data in the record.
    pub(crate) data_loc: bool,
    pub(crate) array: bool,
}

/// An event's format.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Format {
    pub(crate) system: String,
    pub(crate) name: String,
    pub(crate) id: u32,
    pub(crate) fields: Vec<Field>,
    /// The text after `print fmt: `.
    pub(crate) print: String,
}

impl Format {
    /// Parses a format file; `Err` says what it lacks.
    pub(crate) fn parse(system: &str, text: &str) -> Result<Self, &'static str> {
        let mut format = Self {
            system: system.to_owned(),
            name: String::new(),
            id: u32::MAX,
            fields: Vec::new(),
            print: String::new(),
        };
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("name:") {
                format.name = name.trim().to_owned();
            } else if let Some(id) = line.strip_prefix("ID:") {
                format.id = id.trim().parse().map_err(|_| "a number after ID:")?;
            } else if let Some(print) = line.strip_prefix("print fmt:") {
                format.print = print.trim().to_owned();
            } else if let Some(field) = parse_field(line) {
                format.fields.push(field?);
            }
        }
        if format.name.is_empty() || format.id == u32::MAX {
            return Err("an event format with the lines name: and ID:");
        }
        Ok(format)
    }

    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

/// Parses the fields of a header file, which has only field lines.
pub(crate) fn parse_fields(text: &str) -> Result<Vec<Field>, &'static str> {
    text.lines().filter_map(parse_field).collect()
}

/// Parses `field:TYPE NAME; offset:N; size:N; signed:N;`; `None` for another line.
fn parse_field(line: &str) -> Option<Result<Field, &'static str>> {
    const FORM: &str = "field:TYPE NAME; offset:N; size:N; signed:N;";
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let declaration = parts.next().unwrap_or_default();
    let mut number = |key: &str| -> Option<usize> {
        parts.next()?.strip_prefix(key)?.parse().ok().filter(|&n| n < 1 << 16)
    };
    let (Some(offset), Some(size)) = (number("offset:"), number("size:")) else {
        return Some(Err(FORM));
    };
    let signed = number("signed:").unwrap_or(0) != 0;
    let array = declaration.contains('[');
    let plain = declaration.split('[').next().unwrap_or_default().trim_end();
    let name = plain.rsplit([' ', '*']).next().unwrap_or_default().to_owned();
    let data_loc = declaration.contains("__data_loc");
    Some(Ok(Field { name, offset, size, signed, data_loc, array }))
}

impl Field {
    /// Returns the value in a record, sign-extended; `None` if the record is too short.
    #[inline]
    pub(crate) fn read(&self, record: &[u8], endian: Endian) -> Option<u64> {
        let size = self.size;
        let bytes = record.get(self.offset..self.offset + size)?;
        let value = match (size, endian) {
            (8, Endian::Little) => u64::from_le_bytes(bytes.try_into().ok()?),
            (4, Endian::Little) => u64::from(u32::from_le_bytes(bytes.try_into().ok()?)),
            (1..=8, _) => endian.number(bytes),
            _ => return None,
        };
        if self.signed && size < 8 {
            let shift = 64 - size as u32 * 8;
            return Some(((value << shift) as i64 >> shift) as u64);
        }
        Some(value)
    }

    /// Returns the text in a record, up to the first NUL.
    pub(crate) fn text<'a>(&self, record: &'a [u8], endian: Endian) -> Option<&'a [u8]> {
        let range = if self.data_loc {
            let place = self.read(record, endian)?;
            let (offset, len) = ((place & 0xffff) as usize, (place >> 16 & 0xffff) as usize);
            offset..offset + len
        } else if self.size == 0 {
            self.offset..record.len()
        } else {
            self.offset..self.offset + self.size
        };
        let bytes = record.get(range)?;
        Some(&bytes[..bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_names_offsets_and_values() {
        let format = Format::parse(
            "kmem",
            "name: mm_page_free\nID: 620\nformat:\n\
             \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
             \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
             \tfield:struct page * page;\toffset:8;\tsize:8;\tsigned:0;\n\
             \tfield:char buf[];\toffset:16;\tsize:0;\tsigned:0;\n\n\
             print fmt: \"page=%p\", REC->page\n",
        )
        .unwrap();
        assert_eq!((format.name.as_str(), format.id), ("mm_page_free", 620));
        assert_eq!(format.print, "\"page=%p\", REC->page");
        let record = *b"\x01\x02\0\0\xff\xff\xff\xffabcdefghPB S1\0xx";
        let names: Vec<_> = format.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["common_type", "common_pid", "page", "buf"]);
        let read = |name: &str| format.field(name).unwrap().read(&record, Endian::Little);
        assert_eq!(read("common_type"), Some(0x201));
        assert_eq!(read("common_pid"), Some(u64::MAX));
        let buf = format.field("buf").unwrap();
        assert_eq!(buf.text(&record, Endian::Little), Some(&b"PB S1"[..]));
        assert_eq!(buf.text(&record[..3], Endian::Little), None);
    }
}
