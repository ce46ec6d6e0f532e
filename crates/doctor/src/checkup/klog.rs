//! Signs of memory problems in a kernel's log.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use serde::Serialize;

use super::sample::gone;
use crate::class::Class;
use crate::log::{About, Kind, Stamp};
use crate::proc::tree::{Missing, Tree};
use crate::{Explained, Explanation, explain_log, unite};

/// The places of the kernel's logs in a copied tree: the folder, and the prefix of the files' names, to which rotation and
/// compression add. The copy of the kernel's own buffer comes first.
const LOGS: [(&str, &[&str]); 4] = [
    ("/sos_commands/kernel", &["dmesg"]),
    ("/", &["dmesg", "kern.log", "messages", "syslog", "journal"]),
    ("/var/log", &["dmesg", "kern.log", "messages", "syslog"]),
    ("/sos_commands/logs", &["journalctl"]),
];
/// The largest number of files of one tree.
const FILES: usize = 200;
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
    /// The files that were read, if there are several.
    pub files: Vec<String>,
}

/// A task that the OOM killer killed.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Kill {
    /// Seconds since boot, if the line has a time of this boot.
    pub at_s: Option<f64>,
    /// The time of day, if the line has it.
    pub at: Option<Stamp>,
    /// The task.
    pub task: String,
    /// A memory cgroup was at its limit, not the machine.
    pub of_cgroup: bool,
    /// The file of the log, if several were read.
    pub file: Option<String>,
    /// The line of the log.
    pub line: usize,
}

impl Kill {
    /// Describes the time between it and an uptime.
    #[must_use]
    pub fn ago(&self, uptime: Option<f64>) -> String {
        ago(self.at_s, self.at, uptime)
    }
}

/// Describes a time: how long before an uptime it was, the time of day, or both.
fn ago(at_s: Option<f64>, at: Option<Stamp>, uptime: Option<f64>) -> String {
    let ago = uptime.zip(at_s).map(|(now, at)| now - at).filter(|ago| *ago >= 0.0);
    match (ago, at) {
        (Some(ago), Some(at)) => format!("{} ago, at {at}", length(ago)),
        (Some(ago), None) => format!("{} ago", length(ago)),
        (None, Some(at)) => format!("at {at}"),
        (None, None) => "at a time that the log does not tell".to_owned(),
    }
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
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Failures {
    /// The kind.
    pub class: Class,
    /// The order.
    pub order: u32,
    /// The number of failures.
    pub count: u64,
    /// The file of the first, if several were read.
    pub file: Option<String>,
    /// The line of the first.
    pub line: usize,
    /// The task of the first failure.
    pub task: Option<String>,
    /// The time of the last, in seconds since boot, if its line has a time of this boot.
    pub last_at_s: Option<f64>,
    /// The time of day of the last, if its line has it.
    pub last_at: Option<Stamp>,
}

impl Failures {
    /// Describes the time of the last.
    #[must_use]
    pub fn last_ago(&self, uptime: Option<f64>) -> String {
        ago(self.last_at_s, self.last_at, uptime)
    }
}

/// Returns the time of a report in seconds since boot; `None` if it may be of another boot: files other than the copy of the
/// kernel's own buffer have several boots.
fn since_boot(of: &Explanation) -> Option<f64> {
    let of_buffer = of.file.as_ref().is_none_or(|file| file.contains("dmesg"));
    let at = of.report.at_us.filter(|_| of_buffer || of.report.at.is_none())?;
    Some(at as f64 / 1e6)
}

/// Returns whether a time is not before another: by date if both have one, otherwise since boot, otherwise by their order in the logs.
fn is_later(new: (Option<f64>, Option<Stamp>), old: (Option<f64>, Option<Stamp>)) -> bool {
    let of_day = |at: Stamp| (at.date.year, at.date.month, at.date.day, at.second);
    match (new.1.zip(old.1), new.0.zip(old.0)) {
        (Some((new, old)), _) => of_day(new) >= of_day(old),
        (None, Some((new, old))) => new >= old,
        (None, None) => true,
    }
}

impl Signs {
    /// Finds the signs in the logs of a machine. Returns them, and the files that could not be read.
    ///
    /// # Errors
    /// If there is no log, or this user may not read it.
    pub fn of_machine(tree: &Tree) -> Result<(Self, Vec<Missing>), Missing> {
        if tree.is_live() {
            return Ok((Self::find(&read_buffer()?), Vec::new()));
        }
        let mut files = files(tree);
        if files.is_empty() {
            return Err(gone("dmesg", "no log in the tree: failures of the past are not known"));
        }
        let (mut found, mut lines, mut read, mut missing) = (Vec::new(), 0, Vec::new(), Vec::new());
        let unread = files.split_off(files.len().min(FILES));
        for file in files {
            match explain_file(tree, &file) {
                Ok(explained) => {
                    lines += explained.lines;
                    let named = |of| Explanation { file: Some(file.clone()), ..of };
                    found.extend(explained.found.into_iter().map(named));
                    read.push(file);
                }
                Err(why) => missing.push(why),
            }
        }
        match read.as_slice() {
            [] => return Err(missing.remove(0)),
            [_] => {
                found.iter_mut().for_each(|of| of.file = None);
                read.clear();
            }
            _ => unite(&mut found),
        }
        if let Some(first) = unread.first() {
            let why = format!("{} logs from this on are not read: {FILES} are", unread.len());
            missing.push(gone(first, &why));
        }
        Ok((Self { files: read, ..Self::of_reports(&found, lines) }, missing))
    }

    /// Finds the signs in a log.
    #[must_use]
    pub fn find(log: &str) -> Self {
        Self::of_reports(&crate::explain(log), log.lines().count())
    }

    /// Finds the signs in the reports of a log, whose number of lines is given.
    #[must_use]
    pub fn of_reports(found: &[Explanation], lines: usize) -> Self {
        let mut signs = Self { lines, ..Self::default() };
        for of in found {
            signs.add(of);
            if let Some(victim) = &of.report.victim {
                signs.kills += 1;
                let kill = Kill {
                    at_s: since_boot(of),
                    at: of.report.at,
                    task: victim.task.clone(),
                    of_cgroup: of.report.kind == Kind::MemcgOom,
                    file: of.file.clone(),
                    line: victim.line,
                };
                let later = |old: &Kill| is_later((kill.at_s, kill.at), (old.at_s, old.at));
                if signs.last_kill.as_ref().is_none_or(later) {
                    signs.last_kill = Some(kill);
                }
            }
            if let Some(notice) = &of.report.notice {
                match notice.about {
                    About::Cma(pages, error) => signs.add_cma(pages, error, notice.count),
                    About::Xfs(_) => signs.xfs_deadlock += notice.count,
                    _ => {}
                }
            }
        }
        signs
    }

    /// Adds a failure to those of its class and order.
    fn add(&mut self, of: &Explanation) {
        let (class, order) = (of.class, of.report.order.unwrap_or(0));
        if matches!(class, Class::NoRequest | Class::Notice | Class::Vmalloc) {
            return;
        }
        let (at_s, at) = (since_boot(of), of.report.at);
        match self.failures.iter_mut().find(|f| (f.class, f.order) == (class, order)) {
            Some(failures) => {
                failures.count += 1;
                if is_later((at_s, at), (failures.last_at_s, failures.last_at)) {
                    (failures.last_at_s, failures.last_at) = (at_s, at);
                }
            }
            None => self.failures.push(Failures {
                class,
                order,
                count: 1,
                file: of.file.clone(),
                line: of.report.line,
                task: of.report.task.clone(),
                last_at_s: at_s,
                last_at: at,
            }),
        }
    }

    /// Returns the kind of failure that happened last.
    #[must_use]
    pub fn latest(&self) -> Option<&Failures> {
        let at = |of: &Failures| (of.last_at_s, of.last_at);
        let later = |old, new| if is_later(at(new), at(old)) { new } else { old };
        self.failures.iter().reduce(later)
    }

    fn add_cma(&mut self, pages: u64, error: i64, count: u64) {
        match error {
            -12 => self.cma_no_room += count,
            -16 => self.cma_busy += count,
            _ => return,
        }
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

/// Returns the log files of a tree, including rotated and compressed ones.
fn files(tree: &Tree) -> Vec<String> {
    let mut files = Vec::new();
    for (folder, stems) in LOGS {
        for name in tree.names(folder) {
            let begins = |stem: &&str| {
                let rest = name.strip_prefix(*stem);
                rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
            };
            if stems.iter().any(begins) {
                files.push(format!("{}/{name}", folder.trim_end_matches('/')));
            }
        }
    }
    files.retain(|file| tree.is_file(file));
    files
}

/// Explains the reports of a file of a tree, compressed or not.
fn explain_file(tree: &Tree, file: &str) -> Result<Explained, Missing> {
    let missing = |why: String| Missing { file: file.to_owned(), why };
    match tree.path_of(file) {
        Some(path) => {
            let log =
                std::fs::File::open(path).map_err(|error| missing(error.kind().to_string()))?;
            explain_log(log).map_err(|error| missing(error.to_string()))
        }
        None => {
            let text = tree.read(file)?;
            explain_log(text.as_bytes()).map_err(|error| missing(error.to_string()))
        }
    }
}

/// Returns the log of this machine, from `/dev/kmsg`.
fn read_buffer() -> Result<String, Missing> {
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

    /// Rotated and compressed files count too; what two files have of one event is one; a damaged file costs itself only.
    #[test]
    fn every_log_of_a_tree_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let logs = folder.path().join("var/log");
        std::fs::create_dir_all(&logs).unwrap();
        let kill = |stamp: &str, seconds: &str, task: &str| {
            format!(
                "{stamp} h kernel: [{seconds}] Out of memory: Killed process 7 ({task}) total-vm:9kB, anon-rss:1kB\n"
            )
        };
        let last = kill("Nov 20 10:00:00", " 400.250000", "java");
        std::fs::write(logs.join("kern.log"), &last).unwrap();
        let old = kill("Nov 18 09:00:00", "9000.500000", "mysqld");
        let packed = zstd::encode_all(old.as_bytes(), 1).unwrap();
        std::fs::write(logs.join("kern.log.2.zst"), packed).unwrap();
        std::fs::write(logs.join("kern.log.3.gz"), b"\x1f\x8b\x08 damaged").unwrap();
        std::fs::write(logs.join("messages-20261120"), "nothing of memory\n").unwrap();
        std::fs::write(logs.join("dmesg"), last.split_once("kernel: ").unwrap().1).unwrap();
        // It is no log of the kernel.
        std::fs::write(logs.join("messagesbus"), &old).unwrap();
        let (signs, missing) = Signs::of_machine(&Tree::new(folder.path())).unwrap();
        assert_eq!((signs.kills, signs.files.len()), (2, 4), "{:?}", signs.files);
        let last = signs.last_kill.unwrap();
        assert_eq!(
            (last.task.as_str(), last.at.unwrap().to_string()),
            ("java", "11-20 10:00:00".to_owned())
        );
        let damaged: Vec<&str> = missing.iter().map(|missing| missing.file.as_str()).collect();
        assert_eq!(damaged, ["/var/log/kern.log.3.gz"]);
        // A time since another boot is no time of this one.
        assert_eq!(last.ago(Some(1000.0)), "at 11-20 10:00:00");
    }

    #[test]
    fn a_tree_with_too_many_logs_says_so() {
        let logs =
            (0..FILES + 2).map(|at| (format!("/var/log/kern.log.{at:03}"), Ok("x\n".into())));
        let tree = Tree::of_texts(std::path::Path::new("many"), logs.collect());
        let (signs, missing) = Signs::of_machine(&tree).unwrap();
        let first = gone("/var/log/kern.log.200", "2 logs from this on are not read: 200 are");
        assert_eq!((signs.files.len(), missing), (FILES, vec![first]));
    }

    /// The one failure of order 3 is after the two of order 2.
    #[test]
    fn the_latest_failure_is_of_any_kind() {
        let failure = |order: u8, at: u32| {
            format!(
                "[  {at}.000000] app: page allocation failure: order:{order}, mode:0x0(GFP_ATOMIC)\n[  {at}.000001] \
                 CPU: 0 PID: 1 Comm: app Not tainted 6.1.0 #1\n[  {at}.000002] Mem-Info:\n"
            )
        };
        let signs = Signs::find(&[failure(2, 10), failure(2, 20), failure(3, 30)].concat());
        let latest = signs.latest().unwrap();
        assert_eq!((latest.order, latest.last_ago(Some(40.0))), (3, "10 s ago".to_owned()));
    }

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
