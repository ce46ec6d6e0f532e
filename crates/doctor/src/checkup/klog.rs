//! Signs of memory problems in a kernel's log.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use serde::Serialize;

use super::sample::gone;
use crate::class::Class;
use crate::proc::tree::{Missing, Tree};

/// Possible paths of a log in a copied tree; the first that exists is used.
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
/// The largest number of records that are read. The largest log buffer of a kernel has fewer.
const RECORDS: usize = 1 << 20;

/// The signs found in a log.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Signs {
    /// The number of lines of the log.
    pub lines: usize,
    /// Failed allocations and OOM reports, by class and order.
    pub failures: Vec<Failures>,
    /// Failures of `cma_alloc` with error 12 (no room).
    pub cma_no_room: u64,
    /// Failures of `cma_alloc` with error 16 (busy).
    pub cma_busy: u64,
    /// The size in pages of the largest of these requests.
    pub cma_pages: u64,
    /// Lines of XFS about a possible deadlock of memory allocation.
    pub xfs_deadlock: u64,
    /// Tasks that the OOM killer killed.
    pub kills: u64,
    /// The last kill.
    pub last_kill: Option<Kill>,
}

/// A task that the OOM killer killed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Kill {
    /// Seconds since boot, if the line has a time.
    pub at_s: Option<f64>,
    /// The task.
    pub task: String,
    /// A memory cgroup was at its limit, not the machine.
    pub of_cgroup: bool,
    /// The line of the log.
    pub line: usize,
}

impl Kill {
    /// Parses the line that reports a kill.
    fn read(text: &str, line: usize) -> Option<Self> {
        let (before, rest) = text.split_once("Killed process ")?;
        // `4242 (name) total-vm:...`, and a name may hold brackets.
        let name = rest.split_once('(')?.1;
        let task = name.split_once(") ").or_else(|| name.split_once("),")).map(|(name, _)| name);
        let task = task.or_else(|| name.strip_suffix(')'))?;
        let of_cgroup = before.to_ascii_lowercase().contains("memory cgroup");
        Some(Self { at_s: seconds(text), task: task.to_owned(), of_cgroup, line })
    }

    /// Describes how long before an uptime it happened.
    #[must_use]
    pub fn ago(&self, uptime: Option<f64>) -> String {
        match uptime.zip(self.at_s).map(|(now, at)| now - at) {
            Some(ago) if ago >= 0.0 => format!("{} ago", length(ago)),
            _ => "at a time that the log does not tell".to_owned(),
        }
    }
}

/// Returns the time at which a line was logged, in seconds since boot: `[  123.456789] `.
fn seconds(line: &str) -> Option<f64> {
    let (inside, _) = line.split_once('[')?.1.split_once(']')?;
    inside.trim().parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0)
}

/// Formats a length of time.
pub(crate) fn length(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} minutes", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} hours", s / 3600.0),
        s => format!("{:.0} days", s / 86_400.0),
    }
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
    /// The task of the first failure.
    pub task: Option<String>,
}

impl Signs {
    /// Finds the signs in the log of a machine.
    ///
    /// # Errors
    /// If there is no log, or this user may not read it.
    pub fn of_machine(tree: &Tree) -> Result<Self, Missing> {
        Ok(Self::find(&read(tree)?))
    }

    /// Finds the signs in a log.
    #[must_use]
    pub fn find(log: &str) -> Self {
        let mut signs = Self { lines: log.lines().count(), ..Self::default() };
        for found in crate::explain(log) {
            let (class, order) = (found.class, found.report.order.unwrap_or(0));
            match signs.failures.iter_mut().find(|f| (f.class, f.order) == (class, order)) {
                Some(failures) => failures.count += 1,
                None if matches!(class, Class::NoRequest | Class::Notice | Class::Vmalloc) => {}
                None => signs.failures.push(Failures {
                    class,
                    order,
                    count: 1,
                    line: found.report.line,
                    task: found.report.task,
                }),
            }
        }
        for (number, line) in (1..).zip(log.lines()) {
            if let Some(kill) = Kill::read(line, number) {
                signs.kills += 1;
                signs.last_kill = Some(kill);
            }
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
                // Lines with the record's properties follow.
                let line = text.lines().next().and_then(line_of_record);
                log.extend([line.as_deref().unwrap_or_default(), "\n"]);
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

/// Returns a record of `/dev/kmsg` as `dmesg` prints it: `level,sequence,microseconds,flags;message`. Lines of its
/// properties begin with a blank.
pub(crate) fn line_of_record(record: &str) -> Option<String> {
    let (head, message) = record.split_once(';').filter(|_| !record.starts_with(' '))?;
    let us: u64 = head.split(',').nth(2).and_then(|us| us.parse().ok()).unwrap_or(0);
    Some(format!("[{:5}.{:06}] {message}", us / 1_000_000, us % 1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_told_with_their_time() {
        let log = "[   12.5] make invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE), order=0\n\
                   [  100.250000] Out of memory: Killed process 4242 (tail (old)) total-vm:93848kB, anon-rss:1kB\n\
                   [  400.000000] Memory cgroup out of memory: Killed process 7 (java) total-vm:1kB\n";
        let signs = Signs::find(log);
        let kill = signs.last_kill.unwrap();
        assert_eq!(
            (signs.kills, kill.task.as_str(), kill.of_cgroup, kill.line),
            (2, "java", true, 3)
        );
        assert_eq!(kill.ago(Some(412.0)), "12 s ago");
        assert_eq!(kill.ago(Some(4000.0)), "60 minutes ago");
        assert_eq!(kill.ago(None), "at a time that the log does not tell");
        // 4.18 and before.
        let old = "Jun  1 10:00:00 host kernel: Killed process 99 (mysqld) total-vm:1kB";
        let kill = Signs::find(old).last_kill.unwrap();
        assert_eq!((kill.task.as_str(), kill.at_s, kill.of_cgroup), ("mysqld", None, false));
    }
}
