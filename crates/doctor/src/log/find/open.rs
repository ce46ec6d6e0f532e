//! A report under way.

use std::sync::LazyLock;

use pageblock::request::Gfp;
use pageblock_recording::{KernelVersion, gfp};
use regex::Regex;

use super::about::About;
use super::report::{Kind, Report};
use super::slab::Slab;
use super::{begins, is_header, pattern};
use crate::log::read::cgroup;
use crate::log::read::proc::Pasted;
use crate::log::read::stack::Caller;
use crate::log::read::state::Parser;
use crate::log::read::tasks::Lists;
use crate::log::read::vmalloc::Vmalloc;
use crate::log::{Line, MemInfo, Stamp};

/// The largest order that is read, above that of any kernel: a larger number is damage.
const MOST_ORDER: u32 = 20;

static COMM: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"[Cc]omm: (.{1,15}?)(?: Not [Tt]ainted| Tainted| Kdump:|\s*$)"));
static ORDER: LazyLock<Regex> = LazyLock::new(|| pattern(r"order[:=]?\s*(\d+)"));
/// The line that 2.4 prints.
static OLD_ORDER: LazyLock<Regex> = LazyLock::new(|| pattern(r"(\d+)-order"));
static STALL: LazyLock<Regex> = LazyLock::new(|| pattern(r"stalls for (\d+)\s*ms"));
static MODE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?:mode:|gfp_mask=|gfp=)\s*0x([0-9a-fA-F]+)\s*(?:\(([A-Za-z0-9_|\s]+)\))?")
});
static NODEMASK: LazyLock<Regex> = LazyLock::new(|| pattern(r"nodemask=\(?(\d[0-9,\-]*\d|\d)"));
/// The cpuset, or the `oom_score_adj`, of a task in a container.
static CONTAINER: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"cpuset=\S*(?:[0-9a-f]{64}|kubepods|docker|libpod|crio)|oom_score_adj=(?:-99[789]|9\d\d|1000)\b",
    )
});
static MEMS: LazyLock<Regex> = LazyLock::new(|| pattern(r"mems_allowed=(\d[0-9,\-]*\d|\d)"));
/// An address of a 32-bit kernel with high memory: addresses above 3 GiB are the kernel's (x86, most of ARM).
static ADDRESS: LazyLock<Regex> = LazyLock::new(|| pattern(r"\[<[c-f][0-9a-f]{7}>\]"));
static VERSION: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"[Tt]ainted:? .*?\b(\d+\.\d+(?:\.\d+)?[^\s]*)(?:\s+#|\s*$)"));

/// A line of a report contains at least one of these strings.
pub(super) const MARKS: [&str; 7] = [
    "page allocation",
    "allocation failure: order",
    // The killer, its constraint, and systemd's line about it.
    "oom-kill",
    "OOM",
    "Show Memory",
    "show-memory-usage",
    "Mem-",
];
/// Functions that are in the stack of a memory cgroup's OOM, but not in that of the machine's.
const CHARGES: [&str; 3] = ["mem_cgroup_out_of_memory", "mem_cgroup_oom", "mem_cgroup_try_charge"];
/// What the line of a kill for the machine's memory has, by version.
const OF_MACHINE: [&str; 4] =
    ["Out of memory: Kill", "Out of memory: kill", "Out of Memory: Kill", "global_oom"];
/// The first line of a crash.
const CRASHES: [&str; 4] = [
    "Internal error: Oops",
    "Unable to handle kernel",
    "kernel BUG at",
    "general protection fault",
];
/// Constraints that only nodes are.
const OF_NODES: [&str; 2] = ["=CONSTRAINT_CPUSET", "=CONSTRAINT_MEMORY_POLICY"];
/// Functions that unpack the first file system.
const UNPACKS: [&str; 2] = ["unpack_to_rootfs", "populate_rootfs"];
const MEMCG: &str = "Memory cgroup out of memory";
pub(super) const CONSTRAINT: &str = "oom-kill:constraint=";
/// The longest name of a task (`TASK_COMM_LEN` less its end).
const COMM_LEN: usize = 15;
/// The largest number of lines after the first that describe the request: mail wraps them, and people reply between them.
const REQUEST_LINES: usize = 12;
/// The largest number of lines that describe the request, before the state of memory.
const HEAD_LINES: usize = 200;
/// The largest difference between the clocks of CPUs, in microseconds. An earlier time belongs to another event.
const CLOCKS_DIFFER_US: u64 = 1000;

/// Tasks that load modules.
const LOADERS: [&str; 4] = ["modprobe", "insmod", "kmodloader", "systemd-modules"];

/// A report that has not ended.
#[derive(Default)]
pub(super) struct Open {
    kind: Kind,
    is_title: bool,
    line: usize,
    at_us: Option<u64>,
    at: Option<Stamp>,
    last_line: usize,
    last_us: Option<u64>,
    pub(super) slab: Option<Slab>,
    pub(super) suppressed: Option<u64>,
    head: Vec<String>,
    has_header: bool,
    is_memcg: bool,
    /// The line of the kill, or of its constraint, names the machine's memory.
    is_global: bool,
    /// The constraint is the nodes that the task may use.
    is_of_nodes: bool,
    /// The nodes that the constraint of an OOM report allows, if that line was printed.
    constraint: Option<Option<String>>,
    oom: cgroup::Parser,
    vmalloc: Option<Vmalloc>,
    lists: Lists,
    memory: Parser,
    pasted: Pasted,
}

impl Open {
    pub(super) fn new(kind: Kind, line: &Line) -> Self {
        Self {
            kind,
            is_title: line.prefix.0.contains("Subject: "),
            line: line.number.max(1),
            at_us: line.prefix.at_us(),
            at: line.prefix.stamp(),
            last_line: line.number,
            last_us: line.prefix.at_us(),
            ..Self::default()
        }
    }

    /// Returns whether a line that could begin a report continues this one, a failure of `vmalloc`: up to three lines
    /// report it.
    pub(super) fn goes_on(&self, line: &Line, lines: usize) -> bool {
        // Another first line begins another failure.
        let is_next = |head: &String| Vmalloc::is_first(head) && Vmalloc::is_first(&line.text);
        self.kind == Kind::Vmalloc
            && !self.has_header
            && line.number - self.line <= lines
            && !self.head.iter().any(is_next)
    }

    /// Forgets the lines that describe the request: better ones follow.
    pub(super) fn restart(&mut self) {
        self.head.clear();
    }

    /// Returns whether a header begins another state of memory after this report's.
    pub(super) fn is_further_state(&self) -> bool {
        self.has_header && self.kind != Kind::State
    }

    /// Returns whether a slab cache that got no memory belongs to this failure: its line is near, and its caller may wait
    /// if this one's may.
    pub(super) fn takes_slab(&self, first: &Line, about: &About, lines: usize) -> bool {
        let About::Slab { flags, .. } = about else { return false };
        let version = version(&self.head.join("\n"));
        let waits = |text: &str| may_wait(text, version.as_deref());
        let is_near = first.number.saturating_sub(self.last_line) <= lines;
        let both = waits(&request(&self.head)).zip(waits(&format!("gfp={flags}")));
        self.kind == Kind::Failure && is_near && both.is_none_or(|(own, its)| own == its)
    }

    /// Returns whether the next line is relevant regardless of its text.
    pub(super) fn is_within(&self) -> bool {
        (!self.has_header && self.head.len() < HEAD_LINES)
            || self.memory.is_within()
            || self.oom.is_within()
            || self.lists.is_within()
            || (self.kind == Kind::State && self.pasted.is_within(self.last_line))
    }

    /// Returns whether a line below the first of an OOM report belongs to this one.
    pub(super) fn takes_kill(&self, text: &str) -> bool {
        let is_oom = match self.kind {
            Kind::Oom => true,
            // Its first lines were lost.
            Kind::State | Kind::Dump => self.memory.has_zones() || self.lists.has_tasks(),
            _ => false,
        };
        let is_said = text.contains(CONSTRAINT) && self.constraint.is_some();
        is_oom && !is_said && !self.oom.is_of_next(text)
    }

    /// Returns whether its first line was printed after a line that follows it.
    pub(super) fn is_after(&self, line: &Line) -> bool {
        let times = self.at_us.zip(line.prefix.at_us());
        times.is_some_and(|(first, at)| at.saturating_add(CLOCKS_DIFFER_US) < first)
    }

    /// Reads a line.
    pub(super) fn push(&mut self, line: &Line) {
        let text = &line.text;
        self.has_header |= is_header(text);
        // The description of the request may be wrapped, or follow the stack.
        if !self.has_header && self.head.len() < HEAD_LINES {
            self.head.push(text.clone());
        }
        self.is_global |= OF_MACHINE.iter().any(|kill| text.contains(kill));
        // A terminal may have broken the line after the words before.
        self.is_memcg |= text.contains(MEMCG)
            || text.contains("CONSTRAINT_MEMCG")
            || text.starts_with("out of memory: Kill");
        self.is_of_nodes |= OF_NODES.iter().any(|limit| text.contains(limit));
        if self.constraint.is_none() && text.contains(CONSTRAINT) {
            self.constraint = Some(word(&MEMS, text, 1));
        }
        self.oom.push(text, line.number);
        if self.kind == Kind::Vmalloc && !self.has_header {
            // A second line gives the size without the page that guards the range.
            self.vmalloc = Vmalloc::read(text).or(self.vmalloc);
        }
        self.lists.push(text);
        self.memory.push(line);
        if self.kind == Kind::State {
            self.pasted.push(line);
        }
        self.last_line = line.number;
        self.last_us = line.prefix.at_us().or(self.last_us);
    }

    /// Returns the report; `None` for lines before the first report that have no state of memory.
    pub(super) fn finish(self) -> Option<Report> {
        let Self { kind, line, head, lists, .. } = self;
        let memory = self.memory.finish(version(&head.join("\n")).as_deref());
        let is_bare = memory.zones.is_empty() && !memory.has_counts() && memory.ram_pages.is_none();
        let (caches, pasted) = self.pasted.finish();
        let (line, memory) = pasted.filter(|_| is_bare).unwrap_or((line, memory));
        let (cgroup, victim) = self.oom.finish();
        let head = if kind == Kind::State && lists.has_tasks() { of_kill(head) } else { head };
        let is_memcg = self.is_memcg || cgroup.is_some() || has_frame(&head, &CHARGES);
        let kind = match kind {
            // Only the OOM killer lists tasks so.
            Kind::State if lists.has_tasks() => Kind::Oom,
            kind => kind_of(kind, self.has_header, &memory, &head)?,
        };
        let comm = || head.iter().find_map(|line| word(&COMM, line, 1));
        let lost = || matches!(kind, Kind::Failure | Kind::Oom).then(comm).flatten();
        let (request, task) = (request(&head), task(&head).or_else(lost));
        let of_machine = self.is_global || lists.has_daemons || has_frame(&head, &["__alloc_page"]);
        // A stack above a state that does not allocate is cut, or another's.
        let allocates = kind != Kind::State || head.iter().any(|line| line.contains("alloc"));
        let caller = caller(kind, &head).filter(|_| allocates);
        let caller = caller.or_else(|| loader(kind, task.as_ref()));
        let unpacks = head.iter().any(|line| UNPACKS.iter().any(|name| line.contains(name)));
        // A single page is no huge page, whoever asked.
        let is_single = order(&request) == Some(0);
        let caller = caller.map(|caller| if is_single { caller.of_single() } else { caller });
        let head = head.join("\n");
        let flags = word(&MODE, &request, 2);
        let mode = word(&MODE, &request, 1).and_then(|hex| u64::from_str_radix(&hex, 16).ok());
        let kind = kind_of_kill(kind, is_memcg, &request, mode);
        // Mail wraps the line that describes the failure.
        let vmalloc = self.vmalloc.map(|line| Vmalloc::read(&request).unwrap_or(line));
        Some(Report {
            is_title: self.is_title,
            at_us: self.at_us,
            at: self.at,
            task,
            stall_ms: word(&STALL, &request, 1).and_then(|ms| ms.parse().ok()),
            order: order(&request),
            mode,
            flags: flags.map(|names| names.split_ascii_whitespace().collect()),
            nodemask: word(&NODEMASK, &request, 1),
            // OOM reports print it at their end.
            mems_allowed: word(&MEMS, &head, 1).or(self.constraint.flatten()),
            version: version(&head),
            is_32_bit: ADDRESS.is_match(&head),
            slab: self.slab,
            of_machine: of_machine && kind == Kind::Oom,
            of_container: kind == Kind::Oom
                && (CONTAINER.is_match(&head) || lists.is_of_container()),
            of_nodes: self.is_of_nodes,
            unpacks: unpacks && kind == Kind::Oom,
            cgroup,
            victim,
            vmalloc: vmalloc.map(|vmalloc| vmalloc.on(memory.managed_kb())),
            caller,
            suppressed: self.suppressed,
            most_named: lists.most_named(),
            processes: lists.processes,
            slab_caches: if lists.slabs.is_empty() { caches } else { lists.slabs },
            memory,
            last_us: self.last_us,
            ..Report::new(kind, line)
        })
    }
}

/// Returns the order of a request, as new or as old kernels print it.
fn order(request: &str) -> Option<u32> {
    let order = word(&ORDER, request, 1).or_else(|| word(&OLD_ORDER, request, 1))?;
    order.parse().ok().filter(|order| *order <= MOST_ORDER)
}

/// Returns the program that loads modules as who asked for a module's memory, where the stack was cut.
fn loader(kind: Kind, task: Option<&String>) -> Option<Caller> {
    let is_loader = |task: &&String| kind == Kind::Vmalloc && LOADERS.contains(&task.as_str());
    task.filter(is_loader).map(Caller::module)
}

/// Returns who asked for memory. What a crash of another CPU prints in between has a stack of its own.
fn caller(kind: Kind, head: &[String]) -> Option<Caller> {
    let is_crash = |line: &&String| CRASHES.iter().any(|crash| line.contains(crash));
    let own = head.iter().take_while(|line| kind == Kind::State || !is_crash(line));
    Caller::find(own.map(String::as_str))
}

/// Returns the kind of a report; `None` for a piece whose kind the finder decides.
fn kind_of(kind: Kind, has_header: bool, memory: &MemInfo, head: &[String]) -> Option<Kind> {
    let held = memory.held;
    let has_slab = held.slab_unreclaimable.or(held.slab_reclaimable).or(held.slab).is_some();
    let is_pasted = memory.ram_pages.is_some() || has_slab || memory.growth.is_some();
    let has_counts = (has_header && memory.has_counts()) || is_pasted;
    let has_free = memory.zones.iter().any(|zone| zone.free.is_some());
    let of_kill = ["oom_kill_process", "out_of_memory"];
    let is_kill = head.iter().any(|line| of_kill.iter().any(|name| is_frame(line, name)));
    Some(match kind {
        // The stack is that of a kill, and the first line and the zones were lost.
        Kind::State if !has_free && is_kill => Kind::Oom,
        Kind::State if has_counts || has_free => Kind::State,
        // The stack is that of a failure, and its first line was lost.
        Kind::State if head.iter().any(|line| is_of_failure(line)) => Kind::Failure,
        Kind::State => return None,
        kind => kind,
    })
}

/// Returns whether a line is of the function that reports failures, and does not count reports that were left out.
fn is_of_failure(line: &str) -> bool {
    line.contains("warn_alloc") && !line.contains(super::CALLBACKS)
}

/// Adds to a kill whether the machine or a cgroup lacked memory, and who asked for it. Other kinds stay as they are.
fn kind_of_kill(kind: Kind, is_memcg: bool, request: &str, mode: Option<u64>) -> Kind {
    match kind {
        Kind::Oom if is_memcg => Kind::MemcgOom,
        // The order that the kernel passes if it has none.
        Kind::Oom if request.contains("order=-1") => Kind::AskedOom,
        Kind::Oom if mode == Some(0) => Kind::FaultOom,
        kind => kind,
    }
}

/// Returns the lines above a list of tasks; none if their stack belongs to something other than a kill.
fn of_kill(head: Vec<String>) -> Vec<String> {
    let kills =
        |line: &String| ["oom_kill", "out_of_memory"].iter().any(|name| line.contains(name));
    if head.iter().any(kills) { head } else { Vec::new() }
}

/// Returns whether a stack has one of these functions. A kernel without frame pointers marks all frames as leftovers.
fn has_frame(head: &[String], names: &[&str]) -> bool {
    let has_sure = head.iter().any(|line| line.contains("+0x") && !line.contains("? "));
    let is_leftover =
        |line: &String, name| !has_sure && line.contains("+0x") && line.contains(name);
    head.iter().any(|line| names.iter().any(|name| is_frame(line, name) || is_leftover(line, name)))
}

/// Returns whether a line is a frame, not a leftover, of a function whose name has this prefix.
fn is_frame(line: &str, name: &str) -> bool {
    // The last name of an excerpt may be cut.
    let is_one = line.contains("+0x") || line.contains(") from [");
    is_one && line.find(name).is_some_and(|at| !line[..at].trim_end().ends_with('?'))
}

/// Returns whether a request may wait for reclaim, by its flags.
fn may_wait(request: &str, version: Option<&str>) -> Option<bool> {
    let version = version.and_then(KernelVersion::parse);
    let flags = match word(&MODE, request, 2) {
        Some(names) => gfp::named(&names, version.as_ref()),
        None => gfp::numbered(
            u64::from_str_radix(&word(&MODE, request, 1)?, 16).ok()?,
            version.as_ref(),
        ),
    };
    Some(flags.has(Gfp::DIRECT_RECLAIM))
}

/// Joins the lines that describe the request: those before the lines of the CPU and the stack.
fn request(head: &[String]) -> String {
    let ends = |line: &&String| {
        ["CPU:", "Pid:", "Call Trace", "Hardware name"].iter().any(|next| line.starts_with(next))
    };
    let first = head.len().min(1);
    let rest = head[first..].iter().take_while(|line| !ends(line)).filter(|line| !line.is_empty());
    let lines: Vec<&str> =
        head[..first].iter().chain(rest.take(REQUEST_LINES)).map(String::as_str).collect();
    lines.join(" ")
}

/// Returns the full name of the requesting task, which may contain blanks, without what a console printed before it.
fn task(head: &[String]) -> Option<String> {
    let first = head.first()?;
    let before = |what: &str| first.find(what).map(|at| first[..at].trim());
    let printed = before(": page allocation")
        .or_else(|| before(" invoked oom-killer"))
        .or_else(|| before(": vmalloc"));
    let comm = head.iter().find_map(|line| word(&COMM, line, 1));
    let Some(printed) = printed.filter(|name| !name.is_empty()) else {
        return begins(first).and(comm);
    };
    if comm.as_ref().is_some_and(|comm| printed.ends_with(comm.as_str())) {
        return comm;
    }
    let name = printed.rsplit(']').next().unwrap_or(printed).trim();
    let name = if name.is_empty() { printed } else { name };
    if !name.contains(char::is_alphanumeric) {
        return None;
    }
    // A longer text has more than a name.
    let last = name.split_whitespace().next_back().unwrap_or(name);
    Some(if name.len() <= COMM_LEN { name } else { last }.to_owned())
}

/// Returns the version, which mail may have wrapped to the next line.
fn version(head: &str) -> Option<String> {
    let lines: Vec<&str> = head.lines().collect();
    let found = |text: &str| text.contains("ainted").then(|| word(&VERSION, text, 1)).flatten();
    let wrapped = || {
        let pairs = lines.windows(2).filter(|pair| pair[0].contains("ainted"));
        pairs.map(|pair| pair.join(" ")).find_map(|pair| found(&pair))
    };
    lines.iter().find_map(|line| found(line)).or_else(wrapped)
}

/// Returns a group of a pattern's first match.
fn word(pattern: &Regex, text: &str, group: usize) -> Option<String> {
    Some(pattern.captures(text)?.get(group)?.as_str().to_owned())
}
