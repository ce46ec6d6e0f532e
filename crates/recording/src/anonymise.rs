//! Leaves out of a recording what names commands, files or the host, and keeps what a replay reads.

use std::collections::BTreeMap;

use crate::error::Error;
use crate::files::{Attachments, STATIC};
use crate::record::What;
use crate::recording::Recording;

/// Settings that are kept, by the beginning of their path.
const SETTINGS: [&str; 4] = ["proc/sys/vm/", "sys/kernel/mm/", "pageblock/", "events/"];
/// Files of a state that are kept.
const STATE: [&str; 8] = [
    "snapshot.txt",
    "buddyinfo",
    "pagetypeinfo",
    "vmstat",
    "zoneinfo",
    "meminfo",
    "slabinfo",
    "kpagecount",
];
/// Arguments of events whose values are names.
const NAMES: [&str; 5] = ["comm", "filename", "file", "name", "task"];
/// The beginnings of names of kernel threads, which a reader of a recording needs and which tell nothing.
const THREADS: [&str; 12] = [
    "kswapd",
    "kcompactd",
    "khugepaged",
    "ksoftirqd/",
    "migration/",
    "kworker/",
    "kthreadd",
    "swapper/",
    "rcu_",
    "jbd2",
    "oom_reaper",
    "ksmd",
];

/// Replaces names in events.
#[derive(Default)]
pub(crate) struct Anonymiser {
    names: BTreeMap<String, usize>,
}

impl Anonymiser {
    /// Returns a name for a name: the same for the same.
    fn name(&mut self, name: &str) -> String {
        if let Some(thread) = kernel_thread(name) {
            return thread.to_owned();
        }
        let next = self.names.len() + 1;
        format!("command-{}", self.names.entry(name.to_owned()).or_insert(next))
    }

    /// Removes the names in an event.
    pub(crate) fn strip(&mut self, what: &mut What) {
        match what {
            What::Marker(text) if !is_mark(text) => *text = "marker".into(),
            What::Other(other) if NAMES.iter().any(|key| has_key(&other.args, key)) => {
                other.args = without_names(&other.args).into();
            }
            _ => {}
        }
    }
}

/// Returns the part of a kernel thread's name that is not a workqueue's or a disk's; `None` for other names.
fn kernel_thread(name: &str) -> Option<&str> {
    let start = THREADS.iter().find(|start| name.starts_with(**start))?;
    let rest = &name[start.len()..];
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != ':').unwrap_or(rest.len());
    Some(&name[..start.len() + end])
}

fn is_mark(text: &str) -> bool {
    matches!(text, "S0" | "S1" | "S2" | "E0" | "E1" | "E2")
}

fn has_key(args: &str, key: &str) -> bool {
    args.split(' ').any(|word| word.strip_prefix(key).is_some_and(|rest| rest.starts_with('=')))
}

/// Removes the values of arguments that are names; a value ends before the next `key=`.
fn without_names(args: &str) -> String {
    let mut kept = String::new();
    let mut dropping = false;
    for word in args.split(' ') {
        if let Some((key, _)) = word.split_once('=') {
            dropping = NAMES.contains(&key);
            if dropping {
                kept += &format!(" {key}=-");
            }
        }
        if !dropping {
            kept.push(' ');
            kept += word;
        }
    }
    kept.trim_start().to_owned()
}

/// Removes from the files what names commands, files or the host.
pub(crate) fn anonymous_files(
    files: &mut Attachments,
    recording: &mut Recording,
) -> Result<(), Error> {
    let kernel = format!("Linux version {}", recording.kernel);
    files.files.retain(|path, _| is_kept(path));
    for side in ["start", "end"] {
        let path = format!("{side}/slabinfo");
        if files.files.contains_key(&path) {
            let text = String::from_utf8_lossy(&files.content(&path)?).into_owned();
            files.insert(path, without_cgroups(&text).as_bytes())?;
        }
    }
    files.insert(format!("{STATIC}proc/version"), kernel.as_bytes())?;
    recording.kernel.text = kernel;
    recording.name = "anonymous".to_owned();
    let mut names = Anonymiser::default();
    let anonymous = |(&pid, name): (&u32, &String)| (pid, names.name(name));
    recording.comms = recording.comms.iter().map(anonymous).collect();
    files.insert_comms(&recording.comms)
}

fn is_kept(path: &str) -> bool {
    let state = |side: &str| path.strip_prefix(side).is_some_and(|name| STATE.contains(&name));
    let setting = |path: &str| SETTINGS.iter().any(|start| path.starts_with(start));
    state("start/") || state("end/") || path.strip_prefix(STATIC).is_some_and(setting)
}

/// Removes the names of memory cgroups, which old kernels write in parentheses after a cache's name.
fn without_cgroups(slabinfo: &str) -> String {
    let line = |line: &str| match (line.find('('), line.find(')')) {
        (Some(open), Some(close)) if open < close && !line.starts_with(['#', ' ']) => {
            format!("{}{}\n", &line[..open], &line[close + 1..])
        }
        _ => format!("{line}\n"),
    };
    slabinfo.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_commands_go_and_those_of_kernel_threads_stay() {
        let mut names = Anonymiser::default();
        let all =
            ["secret", "kworker/1:2-mm_percpu_wq", "bash", "secret", "jbd2/vda1-8", "kswapd0"];
        assert_eq!(
            all.map(|name| names.name(name)),
            ["command-1", "kworker/1:2", "command-2", "command-1", "jbd2", "kswapd0"]
        );
    }

    #[test]
    fn values_that_are_names_go() {
        assert_eq!(
            without_names("pid=1 comm=my secret app oom_score_adj=3"),
            "pid=1 comm=- oom_score_adj=3"
        );
        assert_eq!(
            without_names("scan_pfn=0x1 filename=/home/a b is_shmem=0"),
            "scan_pfn=0x1 filename=- is_shmem=0"
        );
        assert!(!has_key("order=3 mode=sync", "comm"));
    }

    #[test]
    fn cgroups_go_from_slabinfo() {
        assert_eq!(
            without_cgroups("# name (x)\ndentry(12:docker-3f) 1 2\ninode 3 4\n"),
            "# name (x)\ndentry 1 2\ninode 3 4\n"
        );
    }
}
