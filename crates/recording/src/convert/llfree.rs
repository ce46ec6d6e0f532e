//! Writes a trace of LLFree.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use pageblock_files::{Access, NewFile};

pub use crate::formats::llfree::LlfreeReader;
use crate::formats::llfree::{
    CPUS_LIMIT, ENTRIES, ENTRY_BYTES, Entry, FLAGS, PAGE_BYTES, PFN_BITS, TIME_BITS,
};
use crate::input::error::Error;
use crate::record::event::What;
use crate::state::recording::Recording;
use crate::store::pbrec::must_be_new;

/// What was written of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Allocations and frees.
    pub entries: u64,
    /// Pages of the file after the first.
    pub pages: u32,
}

/// Writes the allocations and frees of a recording as a trace for LLFree. The file appears when it is complete.
/// `progress` is called now and then with the events done.
///
/// # Errors
/// If the events cannot be read, the file not be written, or a frame or the time does not fit the format.
pub fn write(
    recording: &Recording,
    out: &Path,
    progress: &mut dyn FnMut(u64),
) -> Result<Written, Error> {
    must_be_new(out)?;
    let (file, new) = NewFile::create_new(out, Access::Private).map_err(|e| Error::io(out, e))?;
    let written = Writer::new(&file, out)?.write(recording, progress)?;
    new.finish(&file).map_err(|e| Error::io(out, e))?;
    Ok(written)
}

struct Writer<'f> {
    file: BufWriter<&'f File>,
    out: &'f Path,
    /// By CPU: its page that is not full.
    pages: BTreeMap<u16, (Vec<u8>, usize)>,
    first_t_us: Option<u64>,
    max_pfn: u64,
    written: Written,
}

impl<'f> Writer<'f> {
    fn new(file: &'f File, out: &'f Path) -> Result<Self, Error> {
        let mut file = BufWriter::new(file);
        file.write_all(&[0; PAGE_BYTES]).map_err(|e| Error::io(out, e))?;
        let (pages, written) = (BTreeMap::new(), Written::default());
        Ok(Self { file, out, pages, first_t_us: None, max_pfn: 0, written })
    }

    fn write(
        mut self,
        recording: &Recording,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Written, Error> {
        let place = |what: String, expected: &str| Error::Convert {
            file: recording.events_file.clone(),
            why: format!("{what}; allowed in a trace of LLFree: {expected}"),
        };
        for (event, record) in recording.events()?.enumerate() {
            let record = record?;
            if event % (1 << 16) == 0 {
                progress(event as u64);
            }
            let (pfn, order, alloc, flags) = match record.what {
                What::Alloc { pfn: Some(pfn), order, gfp, .. } => (pfn, order, true, gfp.0 & FLAGS),
                What::Free { pfn, order } => (pfn, order, false, 0),
                _ => continue,
            };
            let t_us = record.t_us.saturating_sub(*self.first_t_us.get_or_insert(record.t_us));
            let last = pfn.0 + (1 << order) - 1;
            if last >> PFN_BITS != 0 {
                return Err(place(format!("frame {last}"), "frames below 16777216, 64 GiB"));
            }
            if t_us >> TIME_BITS != 0 {
                return Err(place(format!("{t_us} microseconds"), "at most 76 hours"));
            }
            if u32::from(record.cpu) >= CPUS_LIMIT {
                return Err(place(format!("CPU {}", record.cpu), "CPUs below 4096"));
            }
            self.max_pfn = self.max_pfn.max(last);
            self.push(
                record.cpu,
                Entry { t_us, pfn: pfn.0, alloc, order, flags, pid: record.pid },
            )?;
        }
        self.finish()
    }

    fn push(&mut self, cpu: u16, entry: Entry) -> Result<(), Error> {
        let empty = || (vec![0; PAGE_BYTES], 0);
        let (page, entries) = self.pages.entry(cpu).or_insert_with(empty);
        let at = (*entries + 1) * ENTRY_BYTES;
        page[at..at + ENTRY_BYTES].copy_from_slice(&entry.bits().to_le_bytes());
        *entries += 1;
        self.written.entries += 1;
        if *entries == ENTRIES {
            self.flush(cpu)?;
        }
        Ok(())
    }

    fn flush(&mut self, cpu: u16) -> Result<(), Error> {
        let Some((page, entries)) = self.pages.get_mut(&cpu).filter(|(_, entries)| *entries > 0)
        else {
            return Ok(());
        };
        page[..4].copy_from_slice(&u32::from(cpu).to_le_bytes());
        self.file.write_all(page).map_err(|e| Error::io(self.out, e))?;
        page.fill(0);
        *entries = 0;
        self.written.pages += 1;
        Ok(())
    }

    fn finish(mut self) -> Result<Written, Error> {
        let cpus: Vec<u16> = self.pages.keys().copied().collect();
        for &cpu in &cpus {
            self.flush(cpu)?;
        }
        let cores = cpus.last().map_or(0, |&cpu| u32::from(cpu) + 1);
        let header =
            [self.written.pages, cores, self.max_pfn as u32].map(u32::to_le_bytes).concat();
        let file = self.file.into_inner().map_err(|e| Error::io(self.out, e.into_error()))?;
        let mut at_start = file;
        at_start.seek(SeekFrom::Start(0)).map_err(|e| Error::io(self.out, e))?;
        at_start.write_all(&header).map_err(|e| Error::io(self.out, e))?;
        Ok(self.written)
    }
}
