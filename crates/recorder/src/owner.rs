//! Who made an instance of tracefs or a probe, and whether that process still runs.
//!
//! A process number alone does not tell: it is given again, and every container has a first process. Instances and probes end
//! with the kernel, so that nothing of another boot is met.

use std::fs;
use std::path::Path;

use crate::error::{Error, read};

/// The number of the namespace of process ids in which all processes are seen (`PROC_PID_INIT_INO`).
const INITIAL: u64 = 0xEFFF_FFFC;

/// A process as no other is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner {
    /// Its number in its own namespace.
    pid: u32,
    /// When it began, and its namespace; `None` in names that earlier versions gave.
    more: Option<More>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct More {
    /// Clock ticks after the boot.
    start: u64,
    /// The number of its namespace of process ids.
    namespace: u64,
}

/// What is known of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    /// It runs.
    Runs,
    /// It does not run any more.
    Gone,
    /// It may run in a container whose processes are not seen here.
    Unknown,
}

impl Owner {
    /// Returns this process.
    pub(crate) fn own() -> Result<Self, Error> {
        let stat = Path::new("/proc/self/stat");
        let namespace = namespace_of(Path::new("/proc/self"));
        let more = start_of(&read(stat)?).zip(namespace);
        let more = more.map(|(start, namespace)| More { start, namespace });
        Ok(Self { pid: std::process::id(), more })
    }

    /// Returns what names of instances and probes have of it, its parts separated by `between`.
    pub(crate) fn name(self, between: char) -> String {
        match self.more {
            None => self.pid.to_string(),
            Some(More { start, namespace }) => {
                format!("{}{between}{start}{between}{namespace}", self.pid)
            }
        }
    }

    /// Reads what [`Owner::name`] gave; `None` for any other text.
    pub(crate) fn parse(name: &str, between: char) -> Option<Self> {
        let mut parts = name.split(between);
        let pid = parts.next()?.parse().ok()?;
        let more = match (parts.next(), parts.next(), parts.next()) {
            (None, _, _) => None,
            (Some(start), Some(namespace), None) => {
                Some(More { start: start.parse().ok()?, namespace: namespace.parse().ok()? })
            }
            _ => return None,
        };
        Some(Self { pid, more })
    }

    /// Tells what the processes in a `/proc` say of it.
    pub(crate) fn life(self, proc: &Path) -> Life {
        let Some(More { start, namespace }) = self.more else {
            // Another process may have its number, and it may have had it elsewhere.
            let is_there = proc.join(self.pid.to_string()).exists();
            return if is_there { Life::Unknown } else { Life::Gone };
        };
        let entries = fs::read_dir(proc).into_iter().flatten().filter_map(Result::ok);
        let processes = entries.filter(|entry| {
            entry.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok())
        });
        let is_it = |process: &Path| {
            let began = fs::read_to_string(process.join("stat")).ok();
            began.and_then(|stat| start_of(&stat)) == Some(start)
                // Whatever cannot be read may be it.
                && namespace_of(process).is_none_or(|of| of == namespace)
                && own_pid(process).is_none_or(|pid| pid == self.pid)
        };
        if processes.into_iter().any(|entry| is_it(&entry.path())) {
            return Life::Runs;
        }
        let here = namespace_of(&proc.join("self"));
        let all_are_seen = here.is_some_and(|here| here == INITIAL || here == namespace);
        if all_are_seen { Life::Gone } else { Life::Unknown }
    }
}

/// Returns when a process began, in clock ticks after the boot: the 22nd field of its `stat`, whose second is a name in
/// parentheses that may have anything.
fn start_of(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Returns the number of a process's namespace of process ids.
fn namespace_of(process: &Path) -> Option<u64> {
    let link = fs::read_link(process.join("ns/pid")).ok()?;
    link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// Returns a process's number in its own namespace.
fn own_pid(process: &Path) -> Option<u32> {
    let status = fs::read_to_string(process.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().next_back()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a process in a `/proc`.
    fn process(proc: &Path, number: &str, own_pid: u32, start: u64, namespace: u64) {
        let folder = proc.join(number);
        fs::create_dir_all(folder.join("ns")).unwrap();
        let stat =
            format!("{number} (a) b) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 {start} 9");
        fs::write(folder.join("stat"), stat).unwrap();
        fs::write(folder.join("status"), format!("Name:\ta\nNSpid:\t77\t{own_pid}\n")).unwrap();
        std::os::unix::fs::symlink(format!("pid:[{namespace}]"), folder.join("ns/pid")).unwrap();
    }

    #[test]
    fn a_process_is_told_by_more_than_its_number() {
        let temp = tempfile::tempdir().unwrap();
        let proc = temp.path();
        let owner = Owner { pid: 1, more: Some(More { start: 500, namespace: 12 }) };
        process(proc, "self", 40, 90, INITIAL);
        process(proc, "1", 1, 5, INITIAL);
        assert_eq!(owner.life(proc), Life::Gone, "the machine's first process is another one");
        process(proc, "77", 1, 500, 13);
        assert_eq!(owner.life(proc), Life::Gone, "that of another container too");
        process(proc, "78", 1, 500, 12);
        assert_eq!(owner.life(proc), Life::Runs);
        let later = Owner { pid: 1, more: Some(More { start: 501, namespace: 12 }) };
        assert_eq!(later.life(proc), Life::Gone, "the same number, given again");
    }

    #[test]
    fn in_a_container_others_are_not_seen() {
        let temp = tempfile::tempdir().unwrap();
        let proc = temp.path();
        process(proc, "self", 1, 90, 12);
        process(proc, "1", 1, 90, 12);
        let of = |start, namespace| Owner { pid: 1, more: Some(More { start, namespace }) };
        assert_eq!(of(90, 12).life(proc), Life::Runs);
        assert_eq!(of(80, 12).life(proc), Life::Gone);
        assert_eq!(of(80, 13).life(proc), Life::Unknown);
        let earlier = |pid| Owner { pid, more: None };
        assert_eq!([1, 9].map(|pid| earlier(pid).life(proc)), [Life::Unknown, Life::Gone]);
    }

    #[test]
    fn names_are_read_again() {
        let own = Owner::own().unwrap();
        assert!(own.more.is_some());
        assert_eq!(own.life(Path::new("/proc")), Life::Runs);
        for between in ['-', '_'] {
            assert_eq!(Owner::parse(&own.name(between), between), Some(own));
        }
        assert_eq!(Owner::parse("12", '-'), Some(Owner { pid: 12, more: None }));
        for other in ["", "x", "1-2", "1-2-3-4", "1-x-3"] {
            assert_eq!(Owner::parse(other, '-'), None, "{other}");
        }
    }
}
