//! An instance of tracefs: events, buffers, marks, and what was left behind by recorders that were killed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::error::{Error, read, set};
use crate::owner::{Life, Owner};
use crate::probes::{self, Probes};

/// The names of instances begin so; their owner follows.
const PREFIX: &str = "pageblock-";

/// Tracepoints that a replay needs.
const NEEDED: [&str; 2] = ["mm_page_alloc", "mm_page_free"];

/// The event of a stack.
pub(crate) const STACK: &str = "ftrace/kernel_stack";

/// The tracepoints that a stack follows, and when: every fallback, requests that may cause one, and tasks that compact or
/// reclaim memory themselves. Most requests are for single movable pages; a stack for each would cost more than all else.
const STACKS: [(&str, &str); 4] = [
    ("kmem/mm_page_alloc_extfrag", "stacktrace"),
    ("kmem/mm_page_alloc", "stacktrace if order > 0 || migratetype != 1"),
    ("compaction/mm_compaction_try_to_compact_pages", "stacktrace"),
    ("vmscan/mm_vmscan_direct_reclaim_begin", "stacktrace"),
];

/// Tracepoints of a group that the replay reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// The group.
    pub name: &'static str,
    /// Its tracepoints.
    pub events: &'static [&'static str],
}

/// What the replay reads, where the kernel has it.
pub(crate) const GROUPS: [Group; 6] = [
    Group {
        name: "kmem",
        events: &[
            "mm_page_alloc",
            "mm_page_free",
            "mm_page_free_batched",
            "mm_page_alloc_zone_locked",
            "mm_page_pcpu_drain",
            "mm_page_alloc_extfrag",
        ],
    },
    Group {
        name: "compaction",
        events: &[
            "mm_compaction_begin",
            "mm_compaction_end",
            "mm_compaction_isolate_freepages",
            "mm_compaction_isolate_migratepages",
            "mm_compaction_fast_isolate_freepages",
            "mm_compaction_migratepages",
            "mm_compaction_try_to_compact_pages",
            "mm_compaction_kcompactd_sleep",
            "mm_compaction_kcompactd_wake",
            "mm_compaction_wakeup_kcompactd",
        ],
    },
    Group {
        name: "vmscan",
        events: &[
            "mm_vmscan_kswapd_sleep",
            "mm_vmscan_kswapd_wake",
            "mm_vmscan_wakeup_kswapd",
            "mm_vmscan_direct_reclaim_begin",
            "mm_vmscan_direct_reclaim_end",
        ],
    },
    Group { name: "migrate", events: &["mm_migrate_pages"] },
    Group { name: "huge_memory", events: &["mm_collapse_huge_page"] },
    Group { name: "oom", events: &["mark_victim"] },
];

/// An instance of tracefs; switched off and removed when it is dropped.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    pub(crate) dir: PathBuf,
    owner: Owner,
    /// An open file of the instance: as long as there is one, nobody can remove the instance.
    held: Option<File>,
}

/// What a recorder that does not run any more left on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Left {
    /// The instance's name.
    pub name: String,
    /// Whether it was removed; some process outside this container may use it.
    pub removed: bool,
}

/// The tracepoints of a kernel, as `group/event`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tracepoints {
    /// Those to record.
    pub there: Vec<String>,
    /// Those that the replay reads and this kernel lacks.
    pub missing: Vec<String>,
}

impl Tracepoints {
    fn below(events: &Path, all: bool) -> Self {
        let mut found = Self::default();
        for Group { name: group, events: names } in GROUPS {
            let dir = events.join(group);
            let has_format = |name: &str| dir.join(name).join("format").is_file();
            let known = names.iter().map(|name| (*name).to_owned());
            let (mut there, missing): (Vec<_>, Vec<_>) = known.partition(|name| has_format(name));
            if all && group != "kmem" {
                let entries = fs::read_dir(&dir).into_iter().flatten();
                let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
                there = names.filter(|name| has_format(name)).collect();
                there.sort();
            }
            let of_group = |name: String| format!("{group}/{name}");
            found.there.extend(there.into_iter().map(of_group));
            found.missing.extend(missing.into_iter().map(of_group));
        }
        found
    }
}

/// Finds where tracefs is mounted.
pub(crate) fn mount() -> Result<PathBuf, Error> {
    let places = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(PathBuf::from);
    for place in &places {
        match fs::metadata(place.join("instances")) {
            Ok(_) => return Ok(place.clone()),
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                return Err(Error::denied(place));
            }
            // A kernel that is locked down when it boots leaves tracefs empty.
            Err(_) if is_tracefs(place) => return Err(Error::denied(place)),
            Err(_) => {}
        }
    }
    Err(Error::NoTracefs)
}

fn is_tracefs(place: &Path) -> bool {
    const TRACEFS_MAGIC: u64 = 0x7472_6163;
    rustix::fs::statfs(place).is_ok_and(|mounted| mounted.f_type as u64 == TRACEFS_MAGIC)
}

impl Tracefs {
    /// Makes an instance of this process, without events.
    ///
    /// # Errors
    /// If there is no tracefs, or it cannot be written.
    pub fn create() -> Result<Self, Error> {
        let (root, owner) = (mount()?, Owner::own()?);
        let dir = root.join("instances").join(format!("{PREFIX}{}", owner.name('-')));
        fs::create_dir(&dir).map_err(Error::making(&dir))?;
        let mut this = Self { root, dir, owner, held: None };
        let held = this.dir.join("tracing_on");
        this.held = Some(File::open(&held).map_err(Error::io(&held))?);
        this.set("tracing_on", "0")?;
        Ok(this)
    }

    /// Removes the instances of recorders that do not run any more; returns what it found.
    ///
    /// # Errors
    /// If there is no tracefs, or it cannot be read.
    pub fn clean() -> Result<Vec<Left>, Error> {
        let root = mount()?;
        let instances = root.join("instances");
        let mut left = Vec::new();
        for entry in fs::read_dir(&instances).map_err(Error::io(&instances))? {
            let name = entry.map_err(Error::io(&instances))?.file_name();
            let name = name.to_string_lossy().into_owned();
            let owner = name.strip_prefix(PREFIX).and_then(|owner| Owner::parse(owner, '-'));
            // Nothing is switched off in it first: the kernel refuses to remove an instance that its recorder holds,
            // also one whose processes are not seen here.
            let removed = match owner.map(|owner| owner.life(Path::new("/proc"))) {
                None | Some(Life::Runs) => continue,
                Some(Life::Gone) => remove(&instances.join(&name)),
                Some(Life::Unknown) => fs::remove_dir(instances.join(&name)).is_ok(),
            };
            left.push(Left { name, removed });
        }
        // After the instances, which use them.
        let gone = |owner: Owner| match owner.life(Path::new("/proc")) {
            Life::Runs => false,
            Life::Gone => true,
            Life::Unknown => !instances.join(format!("{PREFIX}{}", owner.name('-'))).exists(),
        };
        let probes = probes::remove(&root, gone).into_iter();
        left.extend(
            probes.map(|(name, removed)| Left { name: format!("the probe {name}"), removed }),
        );
        Ok(left)
    }

    fn set(&self, file: &str, value: &str) -> Result<(), Error> {
        set(&self.dir.join(file), value)
    }

    /// Switches tracing on or off.
    pub(crate) fn trace(&self, on: bool) -> Result<(), Error> {
        self.set("tracing_on", if on { "1" } else { "0" })
    }

    /// Sets the size of each CPU's buffer.
    pub(crate) fn buffer(&self, kib: u64) -> Result<(), Error> {
        self.set("buffer_size_kb", &kib.to_string())
    }

    /// Returns the tracepoints to record, those of whole groups if `all`.
    pub(crate) fn events(&self, all: bool) -> Result<Tracepoints, Error> {
        let found = Tracepoints::below(&self.dir.join("events"), all);
        match NEEDED.into_iter().find(|needed| found.missing.contains(&format!("kmem/{needed}"))) {
            Some(missing) => Err(Error::NoEvent(missing)),
            None => Ok(found),
        }
    }

    /// Switches tracepoints on.
    pub(crate) fn enable(&self, events: &[String]) -> Result<(), Error> {
        events.iter().try_for_each(|event| self.set(&format!("events/{event}/enable"), "1"))
    }

    /// Returns the probes that could be set.
    pub(crate) fn possible_probes(&self) -> Result<Probes, Error> {
        probes::possible(&self.root)
    }

    /// Sets and enables probes.
    pub(crate) fn probe(&self) -> Result<Probes, Error> {
        let probes = probes::set(&self.root, self.owner)?;
        let group = probes::group_of(self.owner);
        for event in &probes.events {
            self.set(&format!("events/{group}/{event}/enable"), "1")?;
        }
        Ok(probes)
    }

    /// Returns the format of a probe of this process.
    pub(crate) fn probe_format(&self, event: &str) -> Result<String, Error> {
        self.format(&format!("{}/{event}", probes::group_of(self.owner)))
    }

    /// Takes the call site of the events that matter from now on.
    pub(crate) fn take_stacks(&self) -> Result<(), Error> {
        // A tracepoint that this kernel lacks has no stacks either.
        let has = |event: &str| self.dir.join("events").join(event).is_dir();
        STACKS.into_iter().filter(|(event, _)| has(event)).try_for_each(|(event, trigger)| {
            self.set(&format!("events/{event}/trigger"), trigger).map_err(|error| match error {
                Error::Io { path, .. } => Error::NoStacks(path),
                error => error,
            })
        })
    }

    /// Returns the format of a tracepoint of the kernel.
    pub(crate) fn format(&self, event: &str) -> Result<String, Error> {
        read(&self.root.join("events").join(event).join("format"))
    }

    /// Returns `header_page` or `header_event`.
    pub(crate) fn header(&self, name: &str) -> Result<String, Error> {
        read(&self.root.join("events").join(name))
    }

    /// Returns the names of tasks that tracefs saved.
    pub(crate) fn saved_names(&self) -> Result<String, Error> {
        read(&self.root.join("saved_cmdlines"))
    }

    /// Writes a mark into the trace.
    pub(crate) fn mark(&self, name: &str) -> Result<(), Error> {
        self.set("trace_marker", name)
    }

    /// Returns the CPUs that have a buffer.
    pub(crate) fn cpus(&self) -> Result<Vec<u32>, Error> {
        let dir = self.dir.join("per_cpu");
        let entries = fs::read_dir(&dir).map_err(Error::io(&dir))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        let mut cpus: Vec<u32> =
            names.filter_map(|n| n.strip_prefix("cpu")?.parse().ok()).collect();
        cpus.sort_unstable();
        Ok(cpus)
    }

    /// Returns the file of the statistics of a CPU's buffer.
    pub(crate) fn stats_file(&self, cpu: u32) -> PathBuf {
        self.dir.join(format!("per_cpu/cpu{cpu}/stats"))
    }

    /// Returns the statistics of a CPU's buffer.
    pub(crate) fn stats(&self, cpu: u32) -> Result<String, Error> {
        read(&self.stats_file(cpu))
    }

    /// Returns where a CPU's buffer is read.
    pub(crate) fn pipe(&self, cpu: u32) -> PathBuf {
        self.dir.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"))
    }
}

/// Removes an instance, which switches everything in it off; reports whether it is gone.
#[expect(clippy::disallowed_methods, reason = "the kernel works in real time")]
fn remove(dir: &Path) -> bool {
    // An instance is busy for a moment after its last reader has gone.
    for _ in 0..50 {
        if fs::remove_dir(dir).is_ok() || !dir.exists() {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    false
}

impl Drop for Tracefs {
    fn drop(&mut self) {
        // Each step is tried whatever became of the one before: nothing may stay switched on.
        let _ = self.set("tracing_on", "0");
        let _ = self.set("events/enable", "0");
        drop(self.held.take());
        remove(&self.dir);
        probes::remove(&self.root, |owner| owner == self.owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracepoints_that_a_kernel_lacks_are_named() {
        let events = tempfile::tempdir().unwrap();
        let has = ["kmem/mm_page_alloc", "kmem/mm_page_free", "vmscan/mm_vmscan_other"];
        for event in has {
            let dir = events.path().join(event);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("format"), "").unwrap();
        }
        let found = Tracepoints::below(events.path(), false);
        assert_eq!(found.there, has[..2]);
        assert!(found.missing.contains(&"migrate/mm_migrate_pages".to_owned()));
        assert!(!found.missing.contains(&has[0].to_owned()));
        assert_eq!(Tracepoints::below(events.path(), true).there, has);
    }
}
