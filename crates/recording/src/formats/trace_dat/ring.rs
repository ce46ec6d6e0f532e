//! Pages of the kernel's ring buffer: records with their time stamps.

use crate::input::source::Endian;

/// The layout of a page according to the kernel's `header_page` file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageLayout {
    pub(crate) endian: Endian,
    /// The bytes of a page.
    pub(crate) page_bytes: usize,
    /// The offset and size of the commit word.
    pub(crate) commit: (usize, usize),
    /// The offset of the records.
    pub(crate) data: usize,
}

/// The bits of the commit word that hold the number of bytes of records.
const COMMIT_MASK: u64 = (1 << 27) - 1;
/// Set if events were lost before this page.
const MISSED_EVENTS: u64 = 1 << 31;
/// Set if the number of lost events is stored after the records.
const MISSED_STORED: u64 = 1 << 30;
/// The bits of a time stamp record.
const STAMP_BITS: u32 = 59;

const TYPE_PADDING: u64 = 29;
const TYPE_TIME_EXTEND: u64 = 30;
const TYPE_TIME_STAMP: u64 = 31;

/// A position in a page between records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cursor {
    at: usize,
    end: usize,
    t_ns: u64,
    /// The number of events lost before this page; at least 1 if the kernel does not say.
    pub(crate) lost: u64,
}

/// A record of a page: its time and the position of its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub(crate) t_ns: u64,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// An error in a page: the offset in it and what is allowed there.
pub(crate) type PageError = (usize, &'static str);

impl PageLayout {
    /// Reads a page's header.
    pub(crate) fn start(&self, page: &[u8]) -> Result<Cursor, PageError> {
        let word = |at: usize, size: usize| Some(self.endian.number(page.get(at..at + size)?));
        let (Some(t_ns), Some(commit)) = (word(0, 8), word(self.commit.0, self.commit.1)) else {
            return Err((0, "a ring-buffer page"));
        };
        let end = self.data + (commit & COMMIT_MASK) as usize;
        if end > page.len() {
            return Err((self.commit.0, "a number of bytes within the page"));
        }
        let lost = if commit & MISSED_EVENTS == 0 {
            0
        } else if commit & MISSED_STORED == 0 {
            1
        } else {
            word(end, self.commit.1).unwrap_or(1).max(1)
        };
        Ok(Cursor { at: self.data, end, t_ns, lost })
    }

    /// Reads the next record; `None` at the end of the page.
    #[inline]
    pub(crate) fn next(&self, page: &[u8], cursor: &mut Cursor) -> Result<Option<Slot>, PageError> {
        let page = &page[..cursor.end.min(page.len())];
        loop {
            let at = cursor.at;
            let Some(header) = self.word(page, at) else { return Ok(None) };
            let (kind, delta) = match self.endian {
                Endian::Little => (header & 31, header >> 5),
                Endian::Big => (header >> 27, header & 0x07ff_ffff),
            };
            let first = || self.word(page, at + 4).ok_or((at, "a word after the record's header"));
            let (start, len) = match kind {
                TYPE_TIME_EXTEND => {
                    cursor.t_ns = cursor.t_ns.wrapping_add((first()? << 27) + delta);
                    cursor.at = at + 8;
                    continue;
                }
                TYPE_TIME_STAMP => {
                    let stamp = (first()? << 27) + delta;
                    let top = cursor.t_ns >> STAMP_BITS << STAMP_BITS;
                    cursor.t_ns = top | stamp & ((1 << STAMP_BITS) - 1);
                    cursor.at = at + 8;
                    continue;
                }
                TYPE_PADDING if delta == 0 => {
                    cursor.at = page.len();
                    return Ok(None);
                }
                TYPE_PADDING => {
                    cursor.t_ns = cursor.t_ns.wrapping_add(delta);
                    cursor.at = at + 4 + (first()? as usize).next_multiple_of(4);
                    continue;
                }
                0 => {
                    let len = first()? as usize;
                    if len < 4 {
                        return Err((at + 4, "a length of at least 4"));
                    }
                    (at + 8, len.next_multiple_of(4) - 4)
                }
                words => (at + 4, words as usize * 4),
            };
            let end = start + len;
            if end > page.len() {
                return Err((at, "a record that ends within the page"));
            }
            cursor.at = end;
            cursor.t_ns = cursor.t_ns.wrapping_add(delta);
            return Ok(Some(Slot { t_ns: cursor.t_ns, start, end }));
        }
    }

    #[inline]
    fn word(&self, page: &[u8], at: usize) -> Option<u64> {
        let bytes: [u8; 4] = page.get(at..at + 4)?.try_into().ok()?;
        Some(u64::from(match self.endian {
            Endian::Little => u32::from_le_bytes(bytes),
            Endian::Big => u32::from_be_bytes(bytes),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: PageLayout =
        PageLayout { endian: Endian::Little, page_bytes: 64, commit: (8, 8), data: 16 };

    fn page(t_ns: u64, flags: u64, words: &[u32]) -> Vec<u8> {
        let mut page = t_ns.to_le_bytes().to_vec();
        page.extend(((words.len() as u64 * 4) | flags).to_le_bytes());
        words.iter().for_each(|word| page.extend(word.to_le_bytes()));
        page
    }

    fn records(page: &[u8]) -> Vec<(u64, usize)> {
        let mut cursor = LAYOUT.start(page).unwrap();
        let next = || LAYOUT.next(page, &mut cursor).unwrap().map(|s| (s.t_ns, s.end - s.start));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn time_deltas_of_records_accumulate() {
        let words = [
            5 << 5 | 1,
            0xaaaa, // 4 bytes, 5 ns later
            7 << 5 | 30,
            1, // 2^27 + 7 ns later
            1 << 5,
            9,
            0xbb,
            0xcc, // 5 bytes, rounded to 8
            2 << 5 | 29,
            4, // a discarded record
            2,
            1,
            2, // 8 bytes at once
            29,
            0, // the end
        ];
        let t = 1005 + (1 << 27) + 7 + 1;
        assert_eq!(records(&page(1000, 0, &words)), [(1005, 4), (t, 8), (t + 2, 8)]);
    }

    #[test]
    fn lost_events_are_counted() {
        let lost = |flags: u64, words: &[u32], commit: u64| {
            let mut page = page(0, 0, words);
            page[8..16].copy_from_slice(&(commit | flags).to_le_bytes());
            LAYOUT.start(&page).unwrap().lost
        };
        assert_eq!(lost(0, &[1, 2], 8), 0);
        assert_eq!(lost(MISSED_EVENTS, &[1, 2], 8), 1);
        assert_eq!(lost(MISSED_EVENTS | MISSED_STORED, &[1, 2, 77, 0], 8), 77);
    }

    #[test]
    fn a_page_that_overruns_is_an_error() {
        let mut long = page(0, 0, &[1, 2]);
        long[8] = 200;
        assert_eq!(LAYOUT.start(&long), Err((8, "a number of bytes within the page")));
        let record = page(0, 0, &[28, 2]);
        let mut cursor = LAYOUT.start(&record).unwrap();
        assert!(LAYOUT.next(&record, &mut cursor).is_err());
    }
}
