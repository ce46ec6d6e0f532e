//! Watches the kernel's log for failures, and keeps the lines around them.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use super::frame::{Event, EventKind};
use crate::checkup::line_of_record;
use crate::log::{Kind, begins};

/// The lines that are kept before a failure.
const BEFORE: usize = 20;
/// The most bytes that are kept of one failure, far above a report of 8 nodes.
const KEPT_BYTES: usize = 128 << 10;
/// The largest number of failures reported in one sample. The lines of all failures are kept.
const EVENTS: usize = 8;
/// The largest record of the device.
const RECORD: usize = 8192;
/// The most records that are read for one sample.
const RECORDS: usize = 1 << 14;

/// The part of the log that is kept.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Noted {
    pub(super) log: String,
    pub(super) events: Vec<Event>,
}

/// Looks for failures in lines of the log.
#[derive(Default)]
pub(super) struct Watcher {
    before: VecDeque<String>,
    /// The bytes kept of the failure under way.
    kept: Option<usize>,
}

impl Watcher {
    /// Examines the lines since the last call.
    pub(super) fn look(&mut self, lines: &[String]) -> Noted {
        let mut noted = Noted::default();
        for line in lines {
            if let Some(kind) = kind_of(line) {
                if noted.events.len() < EVENTS {
                    noted.events.push(Event { kind, text: message(line).trim().to_owned() });
                }
                for before in self.before.drain(..) {
                    noted.log += &before;
                    noted.log.push('\n');
                }
                self.kept = Some(self.kept.unwrap_or(0));
            }
            match &mut self.kept {
                Some(kept) if *kept <= KEPT_BYTES => {
                    *kept += line.len() + 1;
                    noted.log += line;
                    noted.log.push('\n');
                }
                Some(_) => {}
                None => {
                    if self.before.len() == BEFORE {
                        self.before.pop_front();
                    }
                    self.before.push_back(line.clone());
                }
            }
        }
        // A second without a line ends a report.
        if lines.is_empty() {
            self.kept = None;
        }
        noted
    }
}

/// Returns the text of a line after its time.
fn message(line: &str) -> &str {
    line.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map_or(line, |(_, text)| text)
}

/// Returns the kind of failure that a line begins.
fn kind_of(line: &str) -> Option<EventKind> {
    match begins(message(line)) {
        Some(Kind::Failure) => return Some(EventKind::Failure),
        Some(Kind::Stall) => return Some(EventKind::Stall),
        Some(Kind::Oom | Kind::MemcgOom | Kind::FaultOom | Kind::AskedOom) => {
            return Some(EventKind::Oom);
        }
        Some(Kind::Dump | Kind::State | Kind::Vmalloc | Kind::Notice) | None => {}
    }
    let failed = (line.contains("cma_alloc:") && line.contains("alloc failed"))
        || line.contains("possible memory allocation deadlock");
    failed.then_some(EventKind::Failure)
}

/// The device of the log.
pub(super) struct Kmsg {
    device: File,
    part: Vec<u8>,
}

impl Kmsg {
    /// Opens the log at its end. An error says why it is not available.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let mut device = opened.map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => "no permission".to_owned(),
            ErrorKind::NotFound => "no such file".to_owned(),
            _ => error.to_string(),
        })?;
        device.seek(SeekFrom::End(0)).map_err(|error| error.to_string())?;
        Ok(Self { device, part: Vec::new() })
    }

    /// Returns the lines since the last call, with their times as `dmesg` prints them.
    pub(super) fn lines(&mut self) -> std::io::Result<Vec<String>> {
        let mut lines = Vec::new();
        let mut record = [0; RECORD];
        for _ in 0..RECORDS {
            match self.device.read(&mut record) {
                Ok(0) => break,
                Ok(bytes) => self.part.extend_from_slice(&record[..bytes]),
                // The oldest record was overwritten meanwhile.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let Some(end) = self.part.iter().rposition(|&byte| byte == b'\n') else { continue };
            let whole = String::from_utf8_lossy(&self.part[..end]).into_owned();
            lines.extend(whole.lines().filter_map(line_of_record));
            self.part.drain(..=end);
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_kept_with_the_lines_before_it_and_nothing_else() {
        let mut watcher = Watcher::default();
        let many: Vec<String> = (0..50).map(|n| format!("[    1.0] usb {n}")).collect();
        assert_eq!(watcher.look(&many), Noted::default());
        let report = [
            "[    2.5] app: page allocation failure: order:4, mode:0x40dc0(GFP_KERNEL), nodemask=(null)",
            "[    2.5] Mem-Info:",
        ];
        let noted = watcher.look(&report.map(str::to_owned));
        assert_eq!(noted.log.lines().count(), 22);
        assert!(noted.log.starts_with("[    1.0] usb 30\n"));
        let kinds: Vec<EventKind> = noted.events.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::Failure]);
        assert!(noted.events[0].text.starts_with("app: page allocation failure: order:4"));
        let rest = watcher.look(&["[    2.6] Node 0 Normal free:1kB".to_owned()]);
        assert_eq!(rest.log, "[    2.6] Node 0 Normal free:1kB\n");
        assert_eq!(watcher.look(&[]), Noted::default());
        assert_eq!(watcher.look(&many), Noted::default(), "the report ended");
        let oom =
            "[    9.1] make invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE), order=0";
        assert_eq!(watcher.look(&[oom.to_owned()]).events[0].kind, EventKind::Oom);
    }

    #[test]
    fn a_flood_is_bounded() {
        let mut watcher = Watcher::default();
        let one = "[    2.5] app: page allocation failure: order:4, mode:0x0".to_owned();
        let noted = watcher.look(&vec![one; 100_000]);
        assert_eq!(noted.events.len(), EVENTS);
        assert!(noted.log.len() < 2 * KEPT_BYTES);
    }

    #[test]
    fn records_are_lines() {
        assert_eq!(line_of_record("4,7,1500000,-;a; b").as_deref(), Some("[    1.500000] a; b"));
        assert_eq!(line_of_record(" SUBSYSTEM=usb;x"), None);
    }
}
