//! Why requests for memory failed, as text.

use pageblock_doctor::class::{COSTLY_ORDER, Class, Confidence};
use pageblock_doctor::gfp::{self, is_optional};
use pageblock_doctor::holders::Holder;
use pageblock_doctor::log::{About, Cgroup, Kind, Lack, Notice, Report, Slab, Victim, Vmalloc};
use pageblock_doctor::watermark::{Check, Verdict};
use pageblock_doctor::{Explanation, advice::Advice};

use crate::table::Table;

/// Prints the explanations of a log. `lines` is its number of lines.
#[must_use]
pub fn print(found: &[Explanation], lines: usize) -> String {
    if found.is_empty() {
        return format!(
            "No report in {lines} lines. Looked for: \"page allocation failure\", \"page allocation stalls\", \
             \"invoked oom-killer\", the state of memory that SysRq-m prints (\"Mem-Info\"), the lines of \
             a kill, failures of vmalloc and cma_alloc, lines of XFS and HugeTLB, tasks blocked in compaction or reclaim.\n"
        );
    }
    let mut text = String::new();
    for (n, explanation) in found.iter().enumerate() {
        if n > 0 {
            text.push('\n');
        }
        text += &print_one(explanation);
    }
    text
}

fn print_one(of: &Explanation) -> String {
    let mut text = format!("Line {}: {}\n", of.report.line, request(of));
    let confidence = match of.confidence {
        Confidence::High => "it follows from the printed numbers",
        Confidence::Medium => "likely; not all that it depends on is printed",
        Confidence::Low => "a guess",
    };
    text += &format!("{} ({confidence})\n", why(of));
    text += &more(of);
    if !of.zones.is_empty() {
        text.push_str(match of.class {
            Class::NoRequest | Class::FaultOom => {
                "\nFor a page of the kernel's own (order 0, GFP_KERNEL):\n"
            }
            _ => "\n",
        });
        text += &zones(of);
    }
    for missing in &of.missing {
        text += &format!("Missing: {missing}\n");
    }
    text += &advice("Helps", &of.helps);
    text + &advice("Often advised, and does not help", &of.does_not_help)
}

/// Returns who asked for what.
fn request(of: &Explanation) -> String {
    let Report { kind, task, order, version, flags, mode, .. } = &of.report;
    let task = task.as_deref().unwrap_or("a task");
    let on = version.as_ref().map_or(String::new(), |version| format!(" on {version}"));
    let what = match kind {
        Kind::Dump | Kind::State => return format!("the state of memory, without a request{on}"),
        Kind::Failure => "got no memory",
        Kind::Stall => "waits long for memory",
        Kind::Oom => "invoked the OOM killer",
        Kind::MemcgOom => "invoked the OOM killer of its memory cgroup",
        Kind::Notice => return notice(of),
        Kind::Vmalloc => "got no memory from vmalloc",
        Kind::FaultOom => {
            return format!("{task}{on}: a page fault invoked the OOM killer, without a request");
        }
        Kind::AskedOom => {
            return format!(
                "{task}{on} invoked the OOM killer, as somebody asked for it (SysRq-f)"
            );
        }
    };
    let mut text = format!("{task}{on} {what}");
    if let Some(order) = order {
        let kb = of.report.memory.page_kb() << order.min(&20);
        text += &format!(": order {order} ({kb} kB)");
    }
    if let Some(names) = flags {
        text += &format!(", {names}");
    } else if let Some(mode) = mode {
        text += &format!(", flags {mode:#x}");
    }
    of.flags.map_or(text.clone(), |flags| format!("{text}: {}", gfp::kind(flags)))
}

/// Returns what decides beside the class: the boost of a watermark, that the request is optional, and who has the
/// memory.
fn more(of: &Explanation) -> String {
    let mut text = String::new();
    if let Some(zone) = of.boosted()
        && let (Some(needed), Some(boost)) = (zone.needed(), zone.boost)
    {
        text += &format!(
            "Boost: of {needed} kB that must stay free in node {} {}, {boost} kB are a boost of the watermark; without \
             it the request passes.\n",
            zone.node,
            zone.kind.name()
        );
    }
    let order = of.report.order.unwrap_or(0);
    if of.flags.is_some_and(|flags| is_optional(flags, order)) {
        text += "The request is optional: its flags say that the caller can do without.\n";
    }
    if let Some(Slab { line, cache, cgroup }) = &of.report.slab {
        let cache = cache.as_deref().unwrap_or("?");
        text += &match cgroup {
            Some(cgroup) => format!(
                "Line {line}: the slab cache {cache} of the memory cgroup {cgroup} got no memory just before: look at the \
                 limit of this cgroup.\n"
            ),
            None => format!("Line {line}: the slab cache {cache} got no memory just before.\n"),
        };
    }
    if let Some(vmalloc) = &of.report.vmalloc
        && vmalloc.lack == Lack::Pages
        && of.report.flags.as_ref().is_some_and(|flags| flags.contains("ACCOUNT"))
    {
        let fits = of.zones.iter().any(|zone| zone.verdict == Verdict::Fits);
        text += match fits {
            true => {
                "The pages are charged to a memory cgroup, and the machine has memory: most likely the cgroup's limit.\n"
            }
            false => {
                "The pages are charged to a memory cgroup, whose limit may be what was reached.\n"
            }
        };
    }
    if let Some(cgroup) = &of.report.cgroup {
        text += &cgroup_line(cgroup);
    }
    if let Some(Victim { line, pid, task, anon_kb }) = &of.report.victim {
        text += &format!("Line {line}: {task} (process {pid}) was killed");
        text += &anon_kb
            .map_or(String::new(), |kb| format!("; it had {} MiB of anonymous memory", kb >> 10));
        text.push('\n');
    }
    if !of.holders.is_empty() {
        let holder = |holder: &Holder| format!("{} {} MiB", holder.holding.name(), holder.kb >> 10);
        let all: Vec<String> = of.holders.iter().map(holder).collect();
        text += &format!("Held by: {}\n", all.join("; "));
    }
    text
}

fn cgroup_line(of: &Cgroup) -> String {
    let mut text = format!("Cgroup: {}", of.path.as_deref().unwrap_or("its name was not printed"));
    if let (Some(usage), Some(limit)) = (of.usage_kb, of.limit_kb) {
        text += &format!("; {usage} kB used of {limit} kB");
    }
    let held = [
        ("anonymous", of.anon_kb),
        ("page cache", of.file_kb),
        ("dirty", of.dirty_kb),
        ("being written", of.writeback_kb),
        ("tmpfs", of.shmem_kb),
    ];
    for (what, kb) in held {
        text += &kb.filter(|kb| *kb > 0).map_or(String::new(), |kb| format!("; {what} {kb} kB"));
    }
    if let Some(percent) = of.dirty_percent().filter(|percent| *percent >= 50) {
        text += &format!(
            "\nIt waits for writeback: {percent} % of its limit is page cache that must be written first"
        );
    }
    text + "\n"
}

/// Returns what a part of the kernel said, and how often.
fn notice(of: &Explanation) -> String {
    let Some(Notice { about, last_line, count, .. }) = &of.report.notice else {
        return String::new();
    };
    let task = of.report.task.as_deref().unwrap_or("a task");
    let text = match about {
        About::Xfs(bytes) => {
            format!("XFS waits for memory in one piece, first for {task}, up to {bytes} bytes")
        }
        About::Cma(pages, error) => format!("CMA could not allocate {pages} pages (error {error})"),
        About::Hugetlb(wanted, got, size) => {
            format!("{got} of {wanted} huge pages of {size} were allocated")
        }
        About::Compaction(seconds) => {
            format!("{task} is blocked for more than {seconds} s in compaction")
        }
        About::Reclaim(seconds) => {
            format!("{task} is blocked for more than {seconds} s in reclaim")
        }
    };
    match count {
        1 => text,
        count => format!("{text}; {count} times, last in line {last_line}"),
    }
}

fn said(about: &About) -> &'static str {
    match about {
        About::Xfs(_) => "Fragmentation: XFS asks again until a free block is large enough.",
        About::Cma(_, -12) => "CMA: no range of the area is free and long enough.",
        About::Cma(..) => "CMA: pages in the range could not be moved out of it.",
        About::Hugetlb(..) => {
            "Fragmentation, or a shortage: the kernel found no more free blocks of this size."
        }
        About::Compaction(_) => {
            "Compaction: the task moves pages to get a large block, and waits for one of them."
        }
        About::Reclaim(_) => {
            "Reclaim: the task frees pages to get memory, and waits for one of them."
        }
    }
}

fn vmalloc(of: &Vmalloc) -> String {
    let Vmalloc { bytes, had_bytes, lack } = of;
    match (lack, had_bytes) {
        (Lack::Addresses, _) => format!(
            "vmalloc: no range of addresses for {bytes} bytes, or no memory to track it; free pages do not matter."
        ),
        (Lack::Machine, _) => format!("vmalloc: {bytes} bytes are more than the machine has."),
        (Lack::Pages, Some(had)) => {
            format!("vmalloc: {had} of {bytes} bytes were allocated, and then no further page.")
        }
        (Lack::Pages, None) => format!("vmalloc: there were not enough pages for {bytes} bytes."),
    }
}

fn why(of: &Explanation) -> String {
    if let Some(notice) = &of.report.notice {
        return said(&notice.about).to_owned();
    }
    if let Some(of) = &of.report.vmalloc {
        return vmalloc(of);
    }
    let order = of.report.order.unwrap_or(0);
    let costly = match order > COSTLY_ORDER {
        true => " The kernel does not try hard for orders above 3.",
        false => "",
    };
    match of.class {
        Class::Burst => "Reserve used up by a burst: the caller cannot wait, and free memory is at the watermark \
                         that holds for it; there is memory to reclaim, but not in time."
            .to_owned(),
        Class::Fragmentation if of.zones.iter().all(|zone| zone.verdict != Verdict::NoBlock) => {
            "Fragmentation: a block is large enough, but up to Linux 4.3 what lies in smaller blocks does not count \
             against the watermark, and too little is free beyond them."
                .to_owned()
        }
        Class::Fragmentation if !of.zones.iter().any(|zone| is_known(zone) && zone.verdict == Verdict::NoBlock) => {
            format!(
                "No free block of order {order} or larger that this request may use; whether enough memory is free was \
                 not printed.{costly}"
            )
        }
        Class::Fragmentation => format!(
            "Fragmentation: enough memory is free, but no block of order {order} or larger that this request may \
             use.{costly}"
        ),
        Class::OnlyCma => "Only CMA is free: this request may not use it, though it counts as free.".to_owned(),
        Class::OnlyHighatomic => {
            "Only the highatomic reserve is free, which this request may not use.".to_owned()
        }
        Class::ZoneMask if of.zones.is_empty() => format!(
            "Zones: what limits the request is the zone; none that it may use (up to {}) has memory.",
            of.flags.map_or("Normal", |flags| flags.highest_zone().name())
        ),
        Class::ZoneMask => "Zones: those that the request may use are short; higher ones have memory.".to_owned(),
        Class::NodeMask => "Nodes: those that the request may use are short; others have memory.".to_owned(),
        Class::Cgroup => "Memory cgroup: its limit was reached, whatever the machine has.".to_owned(),
        Class::Shortage if of.lacks_swap() => {
            "Memory is used up, and little of it is page cache; whether swap could take the rest was not printed."
                .to_owned()
        }
        Class::Shortage => "True shortage: memory is used up, and next to nothing can be reclaimed.".to_owned(),
        Class::SlowReclaim => {
            "Reclaim did not keep up: memory is used up, though some of it could be reclaimed.".to_owned()
        }
        Class::Changed => {
            "The state that was printed would serve the request: memory was freed in between.".to_owned()
        }
        Class::FaultOom => "A page fault returned VM_FAULT_OOM: its own allocation failed elsewhere, and this state does \
                            not say why."
            .to_owned(),
        Class::Notice | Class::Vmalloc => String::new(),
        Class::Asked => "Nobody lacked memory: somebody asked for the kill.".to_owned(),
        Class::NoRequest if of.report.kind == Kind::State => {
            "The request is not in the log: this is a state only.".to_owned()
        }
        Class::NoRequest => "Nobody asked for memory here: this is a state, not a failure.".to_owned(),
        Class::Unknown if of.report.victim.is_some() && of.report.memory.zones.is_empty() => {
            "Only the lines of the kill are in the log; they do not say why memory was short.".to_owned()
        }
        Class::Unknown => "The log does not say why.".to_owned(),
    }
}

fn zones(of: &Explanation) -> String {
    let order = of.report.order.unwrap_or(0);
    let mut table =
        Table::new().text("zone").number("free [kB]").number("not for it").number("must be left");
    table = table.number(&format!("blocks >= order {order}")).text("").text("lines");
    for zone in &of.zones {
        let lines: Vec<String> = zone.lines.iter().map(ToString::to_string).collect();
        table.row([
            format!("node {} {}", zone.node, zone.kind.name()),
            known(zone.free),
            (zone.unusable_cma + zone.unusable_highatomic).to_string(),
            left(zone),
            known(zone.blocks),
            verdict(zone).to_owned(),
            lines.join(", "),
        ]);
    }
    table.print()
}

fn left(zone: &Check) -> String {
    let mark = known(zone.mark);
    match zone.reserve {
        Some(0) => mark,
        reserve => format!("{mark} + {}", known(reserve)),
    }
}

fn known(number: Option<u64>) -> String {
    number.map_or("?".to_owned(), |number| number.to_string())
}

/// Tells whether it was printed how much is free, and how much must stay free.
const fn is_known(zone: &Check) -> bool {
    zone.free.is_some() && zone.mark.is_some() && zone.reserve.is_some()
}

const fn verdict(zone: &Check) -> &'static str {
    match zone.verdict {
        Verdict::Below => "too little is free",
        Verdict::BelowWithoutCma => "too little without CMA",
        Verdict::BelowWithoutHighatomic => "too little without the highatomic reserve",
        Verdict::NoBlock if !is_known(zone) => "no block is large enough",
        Verdict::NoBlock => "enough is free, no block is large enough",
        Verdict::OtherBlocks => "enough is free, in blocks that are not for it",
        Verdict::TooFewLarge => "too little is free in large blocks",
        Verdict::Fits => "would serve it",
        Verdict::Unknown
            if zone.free.is_some() && zone.mark.is_some() && zone.reserve.is_none() =>
        {
            "cannot be told: lowmem_reserve is missing"
        }
        Verdict::Unknown => "not printed",
    }
}

fn advice(title: &str, all: &[Advice]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{title}\n");
    for Advice { what, why } in all {
        text += &format!("  * {what}\n    {why}\n");
    }
    text
}
