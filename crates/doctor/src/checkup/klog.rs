//! What a kernel's log says of memory.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use serde::Serialize;

use super::sample::gone;
use crate::class::Class;
use crate::proc::tree::{Missing, Tree};

/// Where a copied tree may have a log, the first that is there.
const LOGS: [&str; 6] = [
    "/sos_commands/kernel/dmesg",
    "/sos_commands/kernel/dmesg_-T",
    "/var/log/dmesg",
    "/dmesg",
    "/var/log/kern.log",
    "/var/log/messages",
];
/// The largest record of `/dev/kmsg`.
const RECORD: usize = 8192;
/// The records that are read at most: the largest buffer of a kernel has fewer.
const RECORDS: usize = 1 << 20;

/// What was found in a log.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Signs {
    /// The lines of the log.
    pub lines: usize,
    /// Failed allocations and OOM reports: their class and order, and how often.
    pub failures: Vec<Failures>,
    /// Failures of `cma_alloc`: by the error, 12 (no room) or 16 (busy), how often.
    pub cma_no_room: u64,
    /// See `cma_no_room`.
    pub cma_busy: u64,
    /// The largest of them, pages.
    pub cma_pages: u64,
    /// Lines of XFS about a possible deadlock of memory allocation.
    pub xfs_deadlock: u64,
}

/// Failures of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Failures {
    /// The kind.
    pub class: Class,
    /// The order.
    pub order: u32,
    /// How often.
    pub count: u64,
    /// The line of the first.
    pub line: usize,
    /// Who asked first.
    pub task: Option<String>,
}

impl Signs {
    /// Finds what the log of a machine says.
    ///
    /// # Errors
    /// If there is no log, or this user may not read it.
    pub fn of_machine(tree: &Tree) -> Result<Self, Missing> {
        Ok(Self::find(&read(tree)?))
    }

    /// Finds what a log says.
    #[must_use]
    pub fn find(log: &str) -> Self {
        let mut signs = Self { lines: log.lines().count(), ..Self::default() };
        for found in crate::explain(log) {
            let (class, order) = (found.class, found.report.order.unwrap_or(0));
            match signs.failures.iter_mut().find(|f| (f.class, f.order) == (class, order)) {
                Some(failures) => failures.count += 1,
                None if class == Class::NoRequest => {}
                None => signs.failures.push(Failures {
                    class,
                    order,
                    count: 1,
                    line: found.report.line,
                    task: found.report.task,
                }),
            }
        }
        for line in log.lines() {
            if line.contains("cma_alloc:") && line.contains("alloc failed") {
                signs.add_cma(line);
            }
            if line.contains("possible memory allocation deadlock") {
                signs.xfs_deadlock += 1;
            }
        }
        signs
    }

    fn add_cma(&mut self, line: &str) {
        let after = |key: &str| -> Option<i64> {
            let rest = line.split_once(key)?.1.trim_start();
            rest.split(|c: char| c != '-' && !c.is_ascii_digit()).next()?.parse().ok()
        };
        match after("ret:") {
            Some(-12) => self.cma_no_room += 1,
            Some(-16) => self.cma_busy += 1,
            _ => return,
        }
        let pages = after("req-size:").unwrap_or(0).unsigned_abs();
        self.cma_pages = self.cma_pages.max(pages);
    }

    /// Returns the failures of a class with an order in a range.
    pub fn of(
        &self,
        class: Class,
        orders: std::ops::RangeInclusive<u32>,
    ) -> impl Iterator<Item = &Failures> {
        self.failures.iter().filter(move |f| f.class == class && orders.contains(&f.order))
    }
}

/// Returns the log of a tree, that of this machine from `/dev/kmsg`.
pub(super) fn read(tree: &Tree) -> Result<String, Missing> {
    if !tree.is_live() {
        let found = LOGS.iter().find(|file| tree.has(file));
        let why = "no log in the tree: failures of the past are not known";
        return tree.read(found.ok_or_else(|| gone("dmesg", why))?);
    }
    let file = "/dev/kmsg";
    let refused = |error: std::io::Error| {
        gone(
            file,
            if error.kind() == ErrorKind::PermissionDenied {
                "no permission"
            } else {
                "not readable"
            },
        )
    };
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut device =
        OpenOptions::new().read(true).custom_flags(flags).open(Path::new(file)).map_err(refused)?;
    let mut log = String::new();
    let mut record = [0; RECORD];
    for _ in 0..RECORDS {
        match device.read(&mut record) {
            Ok(0) => break,
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&record[..bytes]);
                // level,sequence,microseconds,flags;message, and then lines of its properties after a blank.
                let message = text.split_once(';').map_or("", |(_, message)| message);
                log.extend([message.lines().next().unwrap_or_default(), "\n"]);
            }
            // The oldest record was overwritten meanwhile.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {}
            // There are no more.
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(refused(error)),
        }
    }
    Ok(log)
}
