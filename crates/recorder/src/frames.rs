//! What frames are used for, from `/proc/kpageflags`: runs of equal state, and free blocks.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::error::Error;
use crate::stop::{Stop, Stoppable};

/// Bits of `/proc/kpageflags` (include/uapi/linux/kernel-page-flags.h).
mod bit {
    pub(super) const LRU: u64 = 1 << 5;
    pub(super) const SLAB: u64 = 1 << 7;
    pub(super) const BUDDY: u64 = 1 << 10;
    pub(super) const ANON: u64 = 1 << 12;
    pub(super) const SWAP_BACKED: u64 = 1 << 14;
    pub(super) const TAIL: u64 = 1 << 16;
    pub(super) const NO_PAGE: u64 = 1 << 20;
    pub(super) const OFFLINE: u64 = 1 << 23;
    pub(super) const PAGE_TABLE: u64 = 1 << 26;
    pub(super) const RESERVED: u64 = 1 << 32;
}

/// The order of the largest free block (`MAX_PAGE_ORDER`).
const MAX_ORDER: u32 = 10;
const CHUNK_FRAMES: usize = 1 << 16;

/// A zone's frames.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) node: u32,
    pub(crate) zone: String,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// Writes a line for each free block and each run of frames in use of the zones.
pub(crate) fn write_frames(
    flags: &Path,
    spans: &[Span],
    out: &mut impl Write,
    to: &Path,
    stop: Stop<'_>,
) -> Result<(), Error> {
    let mut file = File::open(flags).map_err(Error::io(flags))?;
    for span in spans {
        file.seek(SeekFrom::Start(span.start * 8)).map_err(Error::io(flags))?;
        let mut runs = Runs { span, run: None, last: "", out };
        let mut pfn = span.start;
        let mut bytes = Vec::new();
        while pfn < span.end {
            let frames = CHUNK_FRAMES.min((span.end - pfn) as usize);
            bytes.clear();
            Stoppable::new(&mut file, stop)
                .take(frames as u64 * 8)
                .read_to_end(&mut bytes)
                .map_err(Error::io(flags))?;
            for word in bytes.chunks_exact(8) {
                let flags = u64::from_le_bytes(word.try_into().unwrap_or_default());
                runs.push(pfn, flags).map_err(Error::io(to))?;
                pfn += 1;
            }
            if bytes.len() < frames * 8 {
                // The kernel has no more frames.
                break;
            }
        }
        runs.end(pfn).map_err(Error::io(to))?;
    }
    Ok(())
}

/// The run of frames under way.
struct Runs<'a, W> {
    span: &'a Span,
    run: Option<(&'static str, u64)>,
    /// The state of the last frame, which the tails of a compound page share.
    last: &'static str,
    out: &'a mut W,
}

const FREE: &str = "free";
const HOLE: &str = "";

fn state(flags: u64, head: &'static str) -> &'static str {
    let has = |bit: u64| flags & bit != 0;
    match () {
        () if has(bit::NO_PAGE) => HOLE,
        () if has(bit::BUDDY) => FREE,
        () if has(bit::RESERVED) => "reserved",
        () if has(bit::TAIL) && head != HOLE && head != FREE => head,
        () if has(bit::SLAB) => "slab",
        () if has(bit::PAGE_TABLE) => "pgtable",
        () if has(bit::ANON) => "anon",
        () if has(bit::LRU) && has(bit::SWAP_BACKED) => "shmem",
        () if has(bit::LRU) => "file",
        () if has(bit::OFFLINE) => "kernel",
        () => "kernel-or-pcp",
    }
}

impl<W: Write> Runs<'_, W> {
    fn push(&mut self, pfn: u64, flags: u64) -> std::io::Result<()> {
        let now = state(flags, self.last);
        self.last = now;
        match self.run {
            Some((state, _)) if state == now => Ok(()),
            _ => {
                self.end(pfn)?;
                self.run = Some((now, pfn));
                Ok(())
            }
        }
    }

    /// Writes the run that ends before a frame.
    fn end(&mut self, end: u64) -> std::io::Result<()> {
        let Some((state, mut start)) = self.run.take() else { return Ok(()) };
        debug_assert!(start < end, "a run of {state:?} ends at {end} before it begins at {start}");
        match state {
            HOLE => Ok(()),
            FREE => {
                let Span { node, zone, .. } = self.span;
                while start < end {
                    let fits = (end - start).ilog2();
                    let order = start.trailing_zeros().min(fits).min(MAX_ORDER);
                    debug_assert!(start + (1 << order) <= end, "a free block beyond its run");
                    writeln!(self.out, "free {node} {zone} {order} -1 {start}")?;
                    start += 1 << order;
                }
                Ok(())
            }
            state => writeln!(self.out, "used {state} {start} {}", end - start),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;

    #[test]
    fn runs_become_lines_and_free_runs_aligned_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kpageflags");
        let mut flags = vec![bit::RESERVED; 2];
        flags.extend([bit::BUDDY; 7]);
        flags.extend([bit::ANON | bit::LRU | bit::SWAP_BACKED, bit::TAIL, bit::TAIL]);
        flags.extend([bit::LRU, bit::NO_PAGE, bit::NO_PAGE, bit::SLAB, 0]);
        let bytes: Vec<u8> = flags.iter().flat_map(|word| word.to_le_bytes()).collect();
        std::fs::write(&path, bytes).unwrap();
        let span = Span { node: 0, zone: "DMA".into(), start: 1, end: 100 };
        let mut out = Vec::new();
        write_frames(&path, slice::from_ref(&span), &mut out, &path, &|| false).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "used reserved 1 1\nfree 0 DMA 1 -1 2\nfree 0 DMA 2 -1 4\nfree 0 DMA 0 -1 8\nused anon 9 3\n\
             used file 12 1\nused slab 15 1\nused kernel-or-pcp 16 1\n"
        );
        assert!(write_frames(&path, &[span], &mut Vec::new(), &path, &|| true).is_err());
    }
}
