//! The content of a report.

use serde::Serialize;

use super::notice::Notice;
use super::slab::Slab;
use crate::log::Stamp;
use crate::log::read::cgroup::{Cgroup, Victim};
use crate::log::read::mem_info::MemInfo;
use crate::log::read::stack::Caller;
use crate::log::read::tasks::{Named, Process, SlabCache};
use crate::log::read::vmalloc::Vmalloc;

/// A process or a slab cache with less memory does not fill a machine by itself.
pub const MUCH_KB: u64 = 256 << 10;

/// The first second after boot, in microseconds.
const FIRST_US: u64 = 1_000_000;

/// The kind of a report.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `page allocation failure`.
    Failure,
    /// `page allocation stalls for`.
    Stall,
    /// The OOM killer was invoked.
    Oom,
    /// The OOM killer of a memory cgroup.
    MemcgOom,
    /// The OOM killer after a failed page fault (`VM_FAULT_OOM`), called without a request.
    FaultOom,
    /// The OOM killer, called by SysRq-f.
    AskedOom,
    /// `vmalloc` failed.
    Vmalloc,
    /// Lines of a part of the kernel that lacks memory, without a report.
    Notice,
    /// SysRq-m, or a further state within a report.
    Dump,
    /// A state whose request is not in the log.
    #[default]
    State,
}

/// A report.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Report {
    /// Its kind.
    pub kind: Kind,
    /// Whether its first line is the title of a mail.
    #[serde(skip)]
    pub(super) is_title: bool,
    /// Its first line in the log.
    pub line: usize,
    /// When its first line was printed, in microseconds since boot.
    pub at_us: Option<u64>,
    /// The same as a time of day.
    pub at: Option<Stamp>,
    /// The task that asked for memory.
    pub task: Option<String>,
    /// The time that it has waited, in milliseconds, if the kernel prints it.
    pub stall_ms: Option<u64>,
    /// The order that it asked for.
    pub order: Option<u32>,
    /// The flags as a number.
    pub mode: Option<u64>,
    /// The flags by name.
    pub flags: Option<String>,
    /// The nodes that the request may use, as printed; `None` for any.
    pub nodemask: Option<String>,
    /// The nodes that the task's cpuset allows, as printed.
    pub mems_allowed: Option<String>,
    /// The kernel's version.
    pub version: Option<String>,
    /// Whether the addresses in the stack are those of a 32-bit kernel, above 3 GiB.
    pub is_32_bit: bool,
    /// The slab cache whose allocation failed just before.
    pub slab: Option<Slab>,
    /// Whether an OOM report says, by its stack or the line of the kill, that the machine lacked memory and not a memory
    /// cgroup.
    pub of_machine: bool,
    /// Whether the task that called the OOM killer is in a container, by its cpuset or its `oom_score_adj`.
    pub of_container: bool,
    /// Whether an OOM report says that the nodes of a cpuset or of a memory policy are what limits it.
    #[serde(skip)]
    pub(crate) of_nodes: bool,
    /// Whether the stack is that of the kernel as it unpacks its first file system.
    #[serde(skip)]
    pub(crate) unpacks: bool,
    /// The memory cgroup at its limit.
    pub cgroup: Option<Cgroup>,
    /// The task that the OOM killer ended.
    pub victim: Option<Victim>,
    /// The failure of `vmalloc`.
    pub vmalloc: Option<Vmalloc>,
    /// The lines of a notice.
    pub notice: Option<Notice>,
    /// The caller that asked for memory, if a stack is printed.
    pub caller: Option<Caller>,
    /// The number of reports before it that the kernel suppressed.
    pub suppressed: Option<u64>,
    /// The largest processes, if they are listed.
    pub processes: Vec<Process>,
    /// The processes of the name with the most memory, if that is more than any single process has.
    pub most_named: Option<Named>,
    /// The largest slab caches, if they are listed.
    pub slab_caches: Vec<SlabCache>,
    /// The state of memory.
    pub memory: MemInfo,
    /// The time of its last line, in microseconds since boot.
    #[serde(skip)]
    pub(super) last_us: Option<u64>,
    /// The line of the report just before it whose state this is, if it has none of its own.
    pub state_of: Option<usize>,
}

impl Report {
    pub(super) fn of_notice(notice: Notice) -> Self {
        Self {
            at_us: notice.at_us,
            at: notice.at,
            task: notice.task.clone(),
            caller: notice.caller.clone(),
            notice: Some(notice.clone()),
            ..Self::new(Kind::Notice, notice.line)
        }
    }

    pub(super) fn new(kind: Kind, line: usize) -> Self {
        Self { kind, line, ..Self::default() }
    }

    /// Returns whether it is a piece of a report, its end or its stack, that shows only that there was a report.
    pub(super) fn is_piece(&self) -> bool {
        let has_free = self.memory.zones.iter().any(|zone| zone.free.is_some());
        let has_request = self.order.is_some() || self.mode.is_some();
        matches!(self.kind, Kind::State | Kind::Failure)
            && !(has_free || has_request || self.memory.has_counts())
    }

    /// Returns whether it is a failure in a person's words, without the kernel's lines.
    pub(super) fn is_mention(&self) -> bool {
        self.kind == Kind::Failure && self.order.is_none() && !self.says_more()
    }

    /// Returns whether it is the title of a mail about a kill, without the kernel's lines.
    pub(super) fn is_bare_title(&self) -> bool {
        let has_lines = self.order.is_some() || self.victim.is_some() || self.says_more();
        self.is_title && self.kind == Kind::Oom && !has_lines
    }

    /// Returns whether it has more than the order of a failure.
    pub(super) fn says_more(&self) -> bool {
        self.mode.is_some()
            || self.caller.is_some()
            || self.version.is_some()
            || self.memory.has_counts()
            || !self.memory.zones.is_empty()
    }

    /// Returns the process, or all processes of a name, with the most memory, including swap, in kB; `None` if that
    /// is less than [`MUCH_KB`].
    #[must_use]
    pub fn largest(&self) -> Option<(String, u64)> {
        let kb = |pages: u64| pages.saturating_mul(self.memory.page_kb());
        let named = |named: &Named| (format!("{} of {}", named.count, named.task), kb(named.pages));
        let victim =
            self.victim.iter().filter_map(|victim| Some((victim.task.clone(), victim.anon_kb?)));
        let first = self.processes.first().map(|first| (first.task.clone(), kb(first.pages())));
        let all = victim.chain(first).chain(self.most_named.as_ref().map(named));
        all.max_by_key(|(_, kb)| *kb).filter(|(_, kb)| *kb >= MUCH_KB)
    }

    /// Returns whether a request failed in the first second after boot, with a whole state that has no zone: the allocator was
    /// not set up yet.
    #[must_use]
    pub fn is_before_zones(&self) -> bool {
        let is_first = self.at_us.is_some_and(|us| us < FIRST_US);
        let has_state = self.memory.is_whole && self.memory.has_counts();
        self.kind == Kind::Failure && is_first && has_state && self.memory.zones.is_empty()
    }

    /// Returns whether the OOM killer was invoked for the machine's memory.
    #[must_use]
    pub const fn is_oom(&self) -> bool {
        matches!(self.kind, Kind::Oom | Kind::FaultOom | Kind::AskedOom)
    }
}
