//! The second stage finds the reports in a log: failed allocations, OOM kills, and the output of SysRq-m.

mod about;
mod beside;
mod limits;
mod notice;
mod open;
mod phrases;
mod repeats;
mod report;
mod slab;
mod texts;
mod words;
mod wrapped;

use std::sync::LazyLock;

use regex::Regex;

pub use self::about::About;
pub use self::notice::Notice;
use self::open::{CONSTRAINT, Open};
pub use self::report::{Kind, MUCH_KB, Report};
pub use self::slab::Slab;
pub use self::words::Told;
use super::Line;
use super::read::stack::{Caller, Purpose};
use super::read::vmalloc::Vmalloc;
use super::read::{cgroup, proc, tasks, vmalloc};

static FAILURE: LazyLock<Regex> = LazyLock::new(|| {
    // A task's name may end with a blank, mail wraps the line anywhere; 2.4 has words of its own.
    pattern(
        r"\S ?: page allocation (failure|stalls for)|^(?:page )?allocation (failure)[:.] order:|^__alloc_pages: \d+-order allocation (fail)",
    )
});
static OOM: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"[^\s(] invoked oom-killer|^oom-killer: gfp_mask="));
static SUPPRESSED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?:warn_alloc\w*|__alloc_pages_slowpath|__alloc_pages_nodemask): (\d+) callbacks suppressed",
    )
});

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is valid")
}

/// Returns the strings that mark a line which begins a report, or which belongs to a report but not to its state of memory:
/// such a line contains at least one of them.
pub(super) fn marks() -> impl Iterator<Item = &'static str> {
    let own: [&[&'static str]; 8] = [
        &proc::MARKS,
        &limits::MARKS,
        &open::MARKS,
        &cgroup::MARKS,
        &notice::MARKS,
        &vmalloc::MARKS,
        &slab::MARKS,
        &tasks::MARKS,
    ];
    own.into_iter()
        .flatten()
        .copied()
        .chain(texts::marks())
        .chain(words::marks())
        .chain([CALLBACKS])
}

const CALLBACKS: &str = "callbacks suppressed";
/// The largest number of callers whose reports are read at once.
const CALLERS: usize = 64;
/// The largest number of lines between the cause of a report and its first line.
const LINES_BEFORE: usize = 20;
/// The largest number of lines between a report and the slab cache that it concerns.
const LINES_AFTER: usize = 6;
/// The largest number of lines between two that report one failure of `vmalloc`.
const LINES_BETWEEN: usize = 4;
/// The longest time in which memory hardly changes, in microseconds.
const SOON_US: u64 = 100_000;
/// The page that guards a range of `vmalloc`, in bytes.
const GUARD: u64 = 4096;

/// Finds the reports of a log, line by line.
pub(super) struct Finder {
    found: Vec<Report>,
    /// The reports under way. The first is for lines without a caller, or of callers whose first lines were lost; the others
    /// are by caller.
    open: Vec<(Option<String>, Open)>,
    slab: Option<Slab>,
    slabs: slab::Parser,
    /// The slab caches that are part of a report.
    taken: Vec<Slab>,
    /// The number of reports that the kernel suppressed, and the line that says so.
    suppressed: Option<(usize, u64)>,
    notices: notice::Parser,
    wrapped: wrapped::Wrapped,
    limits: limits::Parser,
    /// The last line that a logger wrote, and its caller.
    last: (usize, Option<String>),
}

impl Finder {
    pub(super) fn new() -> Self {
        // A state whose first lines were lost.
        let lost = Open::new(Kind::State, &Line::default());
        Self {
            found: Vec::new(),
            open: vec![(None, lost)],
            slab: None,
            slabs: slab::Parser::default(),
            taken: Vec::new(),
            suppressed: None,
            notices: notice::Parser::default(),
            wrapped: wrapped::Wrapped::default(),
            limits: limits::Parser::default(),
            last: (0, None),
        }
    }

    /// Returns whether the next line is relevant even without any of [`marks`] and of the words of a state.
    pub(super) fn is_within(&self) -> bool {
        self.notices.is_within()
            || self.wrapped.is_within()
            || self.limits.is_within()
            || self.open.iter().any(|(_, open)| open.is_within())
    }

    /// Returns the number of reports found.
    pub(super) fn len(&self) -> usize {
        self.found.len()
    }

    /// Reads a line.
    pub(super) fn push(&mut self, line: &Line) {
        self.limits.push(line);
        if !self.wrapped.takes(line) {
            return self.read(line);
        }
        for line in self.wrapped.push(line) {
            self.read(&line);
        }
    }

    /// Reads a whole line.
    fn read(&mut self, line: &Line) {
        let text = &line.text;
        self.notices.push(line);
        if text.contains(CALLBACKS)
            && let Some(found) = SUPPRESSED.captures(text)
        {
            self.suppressed = found[1].parse().ok().map(|count| (line.number, count));
        }
        let (begun, header) = (begins(text), is_header(text));
        let of_oom = text.contains(CONSTRAINT) || cgroup::is_of_oom(text);
        let at = self.of_caller(line, begun.is_some() || header || of_oom);
        if let Some((first, about)) = self.slabs.push(line) {
            self.slab(at, &first, about);
        }
        let open = &mut self.open[at].1;
        if begun.is_some() && open.goes_on(line, LINES_BETWEEN) {
            open.restart();
        } else if let Some(kind) = begun {
            self.begin(at, kind, line);
        } else if of_oom && !open.takes_kill(text) {
            // The first lines of an OOM report were lost.
            self.begin(at, Kind::Oom, line);
        } else if header && open.is_further_state() {
            // The first lines of a further state were lost.
            self.begin(at, Kind::Dump, line);
        } else if header && open.is_after(line) {
            // The state is older than the request before it.
            self.begin(at, Kind::State, line);
        }
        self.open[at].1.push(line);
    }

    /// Notes a slab cache that got no memory: as a part of the failure that was just reported, or by itself.
    fn slab(&mut self, at: usize, first: &Line, about: About) {
        let slab = Slab::of(first.number, &about);
        let open = &mut self.open[at].1;
        if open.takes_slab(first, &about, LINES_AFTER) {
            open.slab.clone_from(&slab);
            self.taken.extend(slab);
            return;
        }
        self.slab = slab;
        self.notices.add(about, first, None);
    }

    /// Returns the place of the report that a line belongs to. A line that `starts` one gets a new place for its caller.
    fn of_caller(&mut self, line: &Line, starts: bool) -> usize {
        // A line that mail wrapped continues the line above it.
        let is_wrapped = |last: &usize| {
            last + 1 == line.number
                && line.prefix.at_us().is_none()
                && line.prefix.stamp().is_none()
        };
        let above = self.last.1.take().filter(|_| is_wrapped(&self.last.0));
        let caller = line.prefix.caller().or(above);
        self.last = (line.number, caller.clone());
        if caller.is_none() {
            return 0;
        }
        match self.open.iter().position(|(other, _)| *other == caller) {
            Some(at) => at,
            None if !starts => 0,
            None => {
                if self.open.len() > CALLERS {
                    self.found.extend(self.open.remove(1).1.finish());
                }
                self.open.push((caller, Open::new(Kind::State, line)));
                self.open.len() - 1
            }
        }
    }

    fn begin(&mut self, at: usize, kind: Kind, line: &Line) {
        let mut open = Open::new(kind, line);
        let is_near = |first: usize| line.number - first.min(line.number) <= LINES_BEFORE;
        if kind == Kind::Oom {
            open.slab = self.slab.take().filter(|slab| is_near(slab.line));
            self.taken.extend(open.slab.clone());
        }
        let suppressed = self.suppressed.take().filter(|(first, _)| is_near(*first));
        open.suppressed = suppressed.map(|(_, count)| count);
        let before = std::mem::replace(&mut self.open[at].1, open);
        self.found.extend(before.finish());
    }

    /// Returns the reports in order.
    pub(super) fn finish(mut self) -> Vec<Report> {
        if let Some(line) = self.wrapped.finish() {
            self.read(&line);
        }
        self.found.extend(self.open.into_iter().filter_map(|(_, open)| open.finish()));
        let is_taken = |notice: &Notice| self.taken.iter().any(|slab| slab.is_of(&notice.about));
        // If the kernel's own report is in the log, others' words about the kill add nothing.
        let is_kill =
            |kind| matches!(kind, Kind::Oom | Kind::MemcgOom | Kind::FaultOom | Kind::AskedOom);
        let has_kill = self.found.iter().any(|report| is_kill(report.kind));
        let is_less = |about: &About| {
            matches!(
                about,
                About::Node
                    | About::Container
                    | About::Asked
                    | About::GpuPurge
                    | About::Usage { .. }
            )
        };
        for (about, line) in std::mem::take(&mut self.limits).finish() {
            self.notices.add(about, &line, None);
        }
        let is_said = |notice: &Notice| has_kill && is_less(&notice.about);
        let (notices, words) = self.notices.finish();
        let notices = notices.into_iter().filter(|notice| !is_taken(notice) && !is_said(notice));
        self.found.extend(notices.map(Report::of_notice));
        // A piece of a report whose first line was cut is less informative than any other; others' words are less informative
        // than any report, and unspecific ones less than a state.
        let is_state =
            self.found.iter().all(|report| report.kind == Kind::State || report.is_piece());
        let is_piece = self.found.iter().all(Report::is_piece);
        if !is_piece {
            self.found.retain(|report| !report.is_piece());
        }
        self.found.retain(|report| !report.is_mention() && !report.is_bare_title());
        let has_request = |report: &Report| report.mode.is_some();
        if self.found.iter().any(|report| report.kind == Kind::Failure && has_request(report)) {
            // The title of a thread repeats it with less detail.
            let has_other = self.found.iter().any(|report| has_request(report) && !report.is_title);
            self.found.retain(|report| report.kind != Kind::Failure || report.says_more());
            self.found.retain(|report| !report.is_title || !has_other);
        }
        let words = words.into_iter().filter(|notice| is_piece || (is_state && !notice.is_vague()));
        self.found.extend(words.map(Report::of_notice));
        of_modules(&mut self.found);
        join_states(&mut self.found);
        without_titles(&mut self.found);
        // Text pasted around a failure comes after lines about one, and the less informative after the more informative.
        let has_state = |report: &Report| !report.memory.zones.is_empty() && report.order.is_some();
        let is_bare =
            |report: &Report| report.memory.zones.is_empty() && !report.memory.has_counts();
        let is_told = self.found.iter().any(has_state);
        let rank = |report: &Report| match &report.notice {
            Some(Notice { about: About::Words(told, _), .. }) => words::rank(*told),
            Some(Notice { about: About::NobodyToKill | About::NobodyLeft, .. }) => 1,
            _ if report.kind == Kind::Failure && is_told && is_bare(report) => 1,
            _ if !is_kill(report.kind) => 0,
            _ if report.cgroup.is_some() || !report.memory.zones.is_empty() => 0,
            _ if report.memory.ram_pages.is_some() => 0,
            _ if report.largest().is_some() || !report.slab_caches.is_empty() => 1,
            _ if has_request(report) && report.of_machine => 2,
            _ if report.kind == Kind::MemcgOom => 2,
            _ => 3,
        };
        self.found.sort_by_key(|report| {
            let is_pasted = report.kind == Kind::State && report.memory.available_kb.is_some();
            let is_counter = report
                .notice
                .as_ref()
                .is_some_and(|notice| matches!(notice.about, About::Words(Told::HugeFaults, _)));
            let is_pasted = is_pasted || is_counter;
            (is_pasted, rank(report), report.line)
        });
        self.found
    }
}

/// Gives a failure without a state that of the report just before it, whose first lines were lost.
fn join_states(found: &mut Vec<Report>) {
    found.sort_by_key(|report| report.line);
    for at in (1..found.len()).rev() {
        let (before, of) = (&found[at - 1], &found[at]);
        let is_state = before.kind == Kind::State && !before.memory.zones.is_empty();
        let is_bare =
            of.kind == Kind::Failure && of.memory.zones.is_empty() && !of.memory.has_counts();
        let times = before.last_us.zip(of.at_us);
        let is_soon = times.is_some_and(|(first, then)| first <= then && then - first <= SOON_US);
        if is_state && is_bare && is_soon {
            let before = found.remove(at - 1);
            let of = &mut found[at - 1];
            (of.memory, of.state_of) = (before.memory, Some(before.line));
        }
    }
}

/// Copies the caller, if it is a module, to a failure of `vmalloc` that has only its first line, from one for as many bytes.
fn of_modules(found: &mut [Report]) {
    let is_module = |caller: &Caller| caller.purpose == Some(Purpose::Module);
    let bytes = |report: &Report| report.vmalloc.and_then(|vmalloc| vmalloc.bytes);
    let known = found.iter().filter_map(|report| Some((bytes(report)?, report.caller.clone()?)));
    let known: Vec<_> = known.filter(|(_, caller)| is_module(caller)).collect();
    for report in found.iter_mut().filter(|report| report.caller.is_none()) {
        // The first line counts the page that guards the range.
        let is_of = |(other, _): &&(u64, Caller)| {
            bytes(report).is_some_and(|own| own == *other || own == other.saturating_add(GUARD))
        };
        report.caller = known.iter().find(is_of).map(|(_, caller)| caller.clone());
    }
}

/// Drops failures of `vmalloc` that repeat another's size, and nothing else: the titles of mails.
fn without_titles(found: &mut Vec<Report>) {
    let bytes = |report: &Report| report.vmalloc.and_then(|vmalloc| vmalloc.bytes);
    let more: Vec<u64> =
        found.iter().filter(|report| report.says_more()).filter_map(bytes).collect();
    found.retain(|report| {
        let own = bytes(report).filter(|_| !report.says_more());
        let is_of = |other: &u64| own == Some(*other) || own == Some(other.saturating_add(GUARD));
        !more.iter().any(is_of)
    });
}

/// Returns whether a line is the header of a state of memory.
fn is_header(text: &str) -> bool {
    text.contains("Mem-Info:") || text.contains("Mem-info:")
}

/// Returns the kind of report that a line begins.
pub(crate) fn begins(text: &str) -> Option<Kind> {
    // A search for a text costs a tenth of a pattern.
    let is_failure = [open::MARKS[0], open::MARKS[1], "-order allocation"];
    if is_failure.iter().any(|mark| text.contains(mark))
        && let Some(found) = FAILURE.captures(text)
    {
        let stalls = found.get(1).is_some_and(|word| word.as_str() != "failure");
        return Some(if stalls { Kind::Stall } else { Kind::Failure });
    }
    if text.contains("oom-killer") && OOM.is_match(text) {
        return Some(Kind::Oom);
    }
    if Vmalloc::read(text).is_some() {
        return Some(Kind::Vmalloc);
    }
    let dump = text.contains("Show Memory") || text.contains("show-memory-usage");
    (dump && text.to_ascii_lowercase().contains("sysrq")).then_some(Kind::Dump)
}
