//! Leaves out of a recording what names commands, files or the host, and keeps what a replay reads.

mod events;
mod slabs;
mod tasks;

use crate::input::error::Error;
use crate::state::files::{Attachments, STATIC};
use crate::state::recording::Recording;

pub(crate) use events::strip;

/// Settings that are kept, by the beginning of their path.
const SETTINGS: [&str; 13] = [
    "proc/sys/vm/",
    "sys/kernel/mm/",
    "pageblock/recorder.json",
    // Formats of the kernel's own events: those of probes have names that their users gave.
    "events/cma/",
    "events/compaction/",
    "events/ftrace/",
    "events/huge_memory/",
    "events/kmem/",
    "events/migrate/",
    "events/oom/",
    "events/page_isolation/",
    "events/pageblock/",
    "events/vmscan/",
];
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
/// How a snapshot begins; the second if it was taken while the machine ran.
const HEAD: &[u8] = b"# page-allocator snapshot v1";
const HOST: &[u8] = b"# page-allocator snapshot v1 (host)";

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
            files.insert(path, slabs::anonymous(&text).as_bytes())?;
        }
        let path = format!("{side}/snapshot.txt");
        if files.files.contains_key(&path) {
            let text = files.content(&path)?;
            files.insert(path, &without_comments(&text))?;
        }
    }
    files.insert(format!("{STATIC}proc/version"), kernel.as_bytes())?;
    recording.kernel.text = kernel;
    recording.name = "anonymous".to_owned();
    recording.comms = tasks::anonymous(&recording.comms);
    files.insert_comms(&recording.comms)
}

fn is_kept(path: &str) -> bool {
    let state = |side: &str| path.strip_prefix(side).is_some_and(|name| STATE.contains(&name));
    let setting = |path: &str| SETTINGS.iter().any(|start| path.starts_with(start));
    state("start/") || state("end/") || path.strip_prefix(STATIC).is_some_and(setting)
}

/// Removes the comments of a snapshot; of the first line stays what its reader asks for.
fn without_comments(snapshot: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(snapshot.len());
    for (number, line) in snapshot.split_inclusive(|&b| b == b'\n').enumerate() {
        if !line.starts_with(b"#") {
            kept.extend(line);
        } else if number == 0 {
            let start = if line.starts_with(HOST) { HOST } else { HEAD };
            kept.extend(start.iter().chain(b"\n"));
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_of_a_snapshot_go_and_its_kind_stays() {
        let of = |text: &str| String::from_utf8(without_comments(text.as_bytes())).unwrap();
        assert_eq!(
            of("# page-allocator snapshot v1: of alice's laptop\nzone x\n# bob\nfree y"),
            "# page-allocator snapshot v1\nzone x\nfree y"
        );
        assert_eq!(
            of("# page-allocator snapshot v1 (host): on carol\nzone x\n"),
            "# page-allocator snapshot v1 (host)\nzone x\n"
        );
    }

    #[test]
    fn formats_of_others_probes_go() {
        assert!(is_kept("static/events/kmem/mm_page_alloc/format"));
        assert!(is_kept("start/snapshot.txt"));
        for path in [
            "static/events/kprobes/my_secret/format",
            "static/proc/cmdline",
            "notes.txt",
            "start/ps",
        ] {
            assert!(!is_kept(path), "{path}");
        }
    }
}
