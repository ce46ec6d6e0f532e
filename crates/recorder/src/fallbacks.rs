//! The fallbacks of this machine as they happen: `mm_page_alloc_extfrag` alone, read as text.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use pageblock::frame::Pfn;
use pageblock::mobility::{Migratetype, Numbering};
use rustix::fs::OFlags;

use crate::error::Error;
use crate::tracefs::Tracefs;

const EVENT: &str = "kmem/mm_page_alloc_extfrag";
/// The size of each CPU's buffer: that of some hundred events between two readings; others are counted only.
const BUFFER_KIB: u64 = 64;
/// The most bytes of text that one reading takes.
const TEXT_BYTES: usize = 256 << 10;

/// A fallback.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenFallback {
    /// The first frame of the block that was taken.
    pub pfn: Pfn,
    /// The type of the request.
    pub requested: Migratetype,
    /// Whether the pageblock changed its type.
    pub claimed: bool,
    /// The command that asked for memory.
    pub command: String,
}

/// What happened between two readings.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SeenFallbacks {
    /// Those that were read.
    pub fallbacks: Vec<SeenFallback>,
    /// Those that were overwritten before they were read.
    pub lost: u64,
}

/// Sees the fallbacks of this machine until it is dropped.
#[derive(Debug)]
pub struct FallbackEvents {
    /// Dropped first: an instance that is read cannot be removed.
    pipe: File,
    path: PathBuf,
    numbering: Numbering,
    /// The beginning of a line that was not read to its end.
    rest: String,
    buffer: Vec<u8>,
    _tracefs: Tracefs,
}

impl FallbackEvents {
    /// Switches the event on, in an instance of tracefs of its own.
    ///
    /// # Errors
    /// If there is no tracefs, it may not be written, or the kernel has no such event.
    pub fn start(numbering: Numbering) -> Result<Self, Error> {
        Tracefs::clean()?;
        let tracefs = Tracefs::create()?;
        let path = tracefs.dir.join("trace_pipe");
        tracefs.buffer(BUFFER_KIB)?;
        tracefs.enable(&[EVENT.to_owned()])?;
        let mut options = File::options();
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let pipe = options.read(true).custom_flags(flags).open(&path).map_err(Error::io(&path))?;
        tracefs.trace(true)?;
        let buffer = vec![0; 16 << 10];
        Ok(Self { pipe, path, numbering, rest: String::new(), buffer, _tracefs: tracefs })
    }

    /// Returns what happened since it was called before.
    ///
    /// # Errors
    /// If the pipe cannot be read.
    pub fn read(&mut self) -> Result<SeenFallbacks, Error> {
        let mut seen = SeenFallbacks::default();
        let mut bytes = 0;
        while bytes < TEXT_BYTES {
            match self.pipe.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(read) => {
                    bytes += read;
                    self.rest += &String::from_utf8_lossy(&self.buffer[..read]);
                    self.take_lines(&mut seen);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(Error::io(&self.path)(error)),
            }
        }
        Ok(seen)
    }

    fn take_lines(&mut self, seen: &mut SeenFallbacks) {
        let Some(end) = self.rest.rfind('\n') else { return };
        let lines: String = self.rest.drain(..=end).collect();
        for line in lines.lines() {
            match lost(line) {
                Some(events) => seen.lost += events,
                None => seen.fallbacks.extend(fallback(line, self.numbering)),
            }
        }
    }
}

/// Returns the events that a line says were lost: `CPU:1 [LOST 23 EVENTS]`.
fn lost(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("[LOST ")?;
    rest.split_once(' ')?.0.parse().ok()
}

/// Returns the fallback of a line: `  cc1-1234 [000] d..2. 12.345678: mm_page_alloc_extfrag: page=... pfn=0x1a2 ...`.
fn fallback(line: &str, numbering: Numbering) -> Option<SeenFallback> {
    let (head, fields) = line.split_once("mm_page_alloc_extfrag: ")?;
    let field =
        |name: &str| fields.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let pfn = field("pfn")?;
    let pfn = match pfn.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => pfn.parse().ok()?,
    };
    let number = field("alloc_migratetype")?.parse().ok()?;
    let (task, _) = head.rsplit_once(" [")?;
    let (command, _) = task.rsplit_once('-')?;
    Some(SeenFallback {
        pfn: Pfn(pfn),
        requested: numbering.migratetype(number, false)?,
        claimed: field("change_ownership") == Some("1"),
        command: command.trim().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_pipe_are_read() {
        let line = "     kworker/u8:3-1234    [001] d..2.  1234.567890: mm_page_alloc_extfrag: page=00000000a1 pfn=0x1a2b00 \
                    alloc_order=0 fallback_order=9 pageblock_order=9 alloc_migratetype=0 fallback_migratetype=1 fragmenting=0 \
                    change_ownership=1";
        let seen = fallback(line, Numbering::Modern).unwrap();
        assert_eq!((seen.pfn, seen.requested), (Pfn(0x1a_2b00), Migratetype::Unmovable));
        assert!(seen.claimed);
        assert_eq!(seen.command, "kworker/u8:3");
        // Kernels before 5.14 print frames in decimal.
        let old = line
            .replace("0x1a2b00", "1715968")
            .replace("alloc_migratetype=0", "alloc_migratetype=1");
        let seen = fallback(&old, Numbering::Legacy).unwrap();
        assert_eq!((seen.pfn, seen.requested), (Pfn(1_715_968), Migratetype::Reclaimable));
        assert_eq!(fallback("# tracer: nop", Numbering::Modern), None);
        assert_eq!(lost("CPU:1 [LOST 23 EVENTS]"), Some(23));
        assert_eq!(lost(line), None);
    }
}
