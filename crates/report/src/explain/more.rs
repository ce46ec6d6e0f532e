//! What decides beside the class: how often, when, who asked, who has the memory, who was killed.

use pageblock_doctor::class::Class;
use pageblock_doctor::gfp::is_optional;
use pageblock_doctor::group::Group;
use pageblock_doctor::holders::Holder;
use pageblock_doctor::log::{
    Caller, Cgroup, Kind, Lack, Named, Process, Purpose, Report, Share, Slab, SlabCache, Stamp,
    Victim,
};
use pageblock_doctor::watermark::Verdict;
use pageblock_doctor::{Explanation, is_at_boot};

use super::place;

/// Returns how often a group's report comes, when, and how its members differ.
pub(super) fn equal(found: &[Explanation], group: &Group) -> String {
    let differ = group.differences(found);
    let left_out = match differ.suppressed {
        0 => String::new(),
        count => format!("The kernel left out {count} more messages of this kind.\n"),
    };
    let (Some(first), Some(last)) = (group.members.first(), group.members.last()) else {
        return left_out;
    };
    if first == last {
        return left_out;
    }
    let (first, last) = (&found[*first], &found[*last]);
    let name = |of: &Explanation| place(of).replacen("Line ", "line ", 1);
    let mut text =
        format!("{} equal reports, {} to {}", group.members.len(), name(first), name(last));
    if let (Some(from), Some(to)) = (time(&first.report), time(&last.report))
        && from != to
    {
        text += &format!(" ({from} to {to})");
    }
    for (what, names) in
        [("tasks", &differ.tasks), ("asked by", &differ.callers), ("killed", &differ.victims)]
    {
        let names: Vec<String> =
            names.iter().map(|(name, count)| format!("{name} {count}")).collect();
        if names.len() > 1 || (what == "killed" && !names.is_empty()) {
            text += &format!("; {what}: {}", names.join(", "));
        }
    }
    if let Some((zone, least, most)) = differ.free.filter(|(_, least, most)| least != most) {
        text += &format!("; free in {zone}: {least} to {most} kB");
    }
    text + "\n" + &left_out
}

/// Returns when a report was printed, and what its clock is.
pub(super) fn when(of: &Explanation) -> String {
    let Report { at, at_us, .. } = &of.report;
    let boot = at_us.map(|us| format!("{} after boot", length(us / 1_000_000)));
    match (at, boot) {
        (Some(stamp), boot) => {
            let clock = zone(stamp);
            let boot = boot.map_or(String::new(), |boot| format!(", {boot}"));
            format!("When: {stamp}{clock}{boot}\n")
        }
        (None, Some(boot)) => format!("When: {boot}\n"),
        (None, None) => String::new(),
    }
}

/// Returns the clock of a time, and the time in UTC where the two differ.
fn zone(stamp: &Stamp) -> String {
    match (stamp.offset_s, stamp.utc()) {
        (Some(0), _) => String::new(),
        (Some(_), Some(utc)) => format!(" ({utc})"),
        _ => " (local time of the log, which does not say its zone)".to_owned(),
    }
}

fn time(report: &Report) -> Option<String> {
    match (report.at, report.at_us) {
        (Some(stamp), _) => Some(stamp.to_string()),
        (None, us) => us.map(|us| format!("{} s after boot", us / 1_000_000)),
    }
}

fn length(seconds: u64) -> String {
    match seconds {
        s if s < 120 => format!("{s} s"),
        s if s < 7200 => format!("{} minutes", s / 60),
        s if s < 172_800 => format!("{} hours", s / 3600),
        s => format!("{} days", s / 86_400),
    }
}

/// Returns the boost of a watermark, that the request is optional, and who has the memory.
pub(super) fn more(of: &Explanation) -> String {
    let report = &of.report;
    let mut text = boost(of);
    text += &matters(of);
    if let Some(line) = report.state_of {
        text +=
            &format!("The state of memory is that of the report just before it (line {line}).\n");
    }
    if let Some(Slab { line, cache, cgroup }) = &report.slab {
        let cache = cache.as_deref().unwrap_or("?");
        text += &match cgroup {
            Some(cgroup) => format!(
                "Line {line}: the slab cache {cache} of the memory cgroup {cgroup} got no memory just before: look at the \
                 limit of this cgroup.\n"
            ),
            None if *line > report.line => {
                format!("Line {line}: the page was for the slab cache {cache}.\n")
            }
            None => format!("Line {line}: the slab cache {cache} got no memory just before.\n"),
        };
    }
    if let Some(vmalloc) = &report.vmalloc
        && vmalloc.lack == Lack::Pages
        && report.flags.as_ref().is_some_and(|flags| flags.contains("ACCOUNT"))
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
    text += &report.cgroup.as_ref().map_or(String::new(), cgroup);
    if let Some(Victim { line, pid, task, anon_kb }) = &report.victim {
        text += &format!("Line {line}: {task} (process {pid}) was killed");
        text += &anon_kb
            .map_or(String::new(), |kb| format!("; it had {} of anonymous memory", size(kb)));
        text.push('\n');
    }
    text
}

fn boost(of: &Explanation) -> String {
    let Some(zone) = of.boosted() else { return String::new() };
    let (Some(needed), Some(boost)) = (zone.needed(), zone.boost) else { return String::new() };
    let name = format!("node {} {}", zone.node, zone.kind.name());
    let passes = match of.class {
        Class::NoRequest => "such a page is had",
        _ => "the request passes",
    };
    if zone.is_boost_inferred {
        return format!(
            "Boost: at least {boost} kB of the min watermark of {name} are a boost, which this kernel does not print and its \
             other marks tell; without it {passes}.\n"
        );
    }
    // The mark that holds for the request may be a part of the watermark.
    match boost <= needed {
        true => format!(
            "Boost: of {needed} kB that must stay free in {name}, {boost} kB are a boost of the watermark; without it {passes}.\n"
        ),
        false => format!(
            "Boost: {boost} kB of the min watermark of {name} are a boost; without it {passes}.\n"
        ),
    }
}

/// Returns who asked, and whether it matters.
fn matters(of: &Explanation) -> String {
    let report = &of.report;
    let order = report.order.unwrap_or(0);
    let mut text = String::new();
    let is_charge = matches!(report.kind, Kind::MemcgOom | Kind::AskedOom);
    if let Some(caller) = report.caller.as_ref().filter(|_| !is_charge) {
        text += &format!("Asked by: {}{}", caller.function, module(caller));
        text += caller.purpose.map_or("", |of| purpose(of, report.kind));
        text.push('\n');
    }
    let is_huge = report.caller.as_ref().is_some_and(|c| c.purpose == Some(Purpose::HugePage));
    if let Some(at) = report.notice.as_ref().and_then(|notice| notice.waits_in.as_ref()) {
        text += &format!("It waits in: {}{}\n", at.function, module(at));
    }
    if of.flags.is_some_and(|flags| is_optional(flags, order)) && !is_huge {
        text += "The request is optional: its flags say that the caller can do without.\n";
    }
    if is_at_boot(report) && matches!(report.kind, Kind::Failure | Kind::Stall | Kind::Vmalloc) {
        text += "It happened as the machine booted: what is set later (sysctl) comes too late for it.\n";
    }
    text
}

fn module(of: &Caller) -> String {
    of.module.as_ref().map_or(String::new(), |module| format!(" [{module}]"))
}

const fn purpose(purpose: Purpose, kind: Kind) -> &'static str {
    match purpose {
        Purpose::Fork if matches!(kind, Kind::Stall | Kind::Oom) => ", for a new task",
        Purpose::Packet => {
            ", for a network packet: one is lost, and is sent again; it matters if it is frequent"
        }
        Purpose::Usb => ", for a transfer over USB, which the driver tries again or gives up",
        Purpose::HugePage => {
            ", for a huge page: the process gets small pages instead, and nothing is lost"
        }
        Purpose::Graphics => ", for a buffer of a graphics driver",
        Purpose::SwapOut => {
            ", to swap a page out: reclaim itself found no memory, and goes on with another page"
        }
        Purpose::Fork => ", for a new task: fork or clone failed with ENOMEM",
        Purpose::Module => {
            ", for the code of a module or of a BPF program, which has a range of addresses of its own"
        }
        Purpose::DmaPool => {
            ", for the pool of DMA memory that drivers take from when they cannot wait: the kernel goes on without it"
        }
        Purpose::NoMmu => ", for a process on a machine without an MMU: a mapping is one block",
    }
}

fn cgroup(of: &Cgroup) -> String {
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
        ("of the kernel", of.kernel_kb),
        ("slab", of.slab_kb),
        ("in swap", of.swap_kb),
    ];
    for (what, kb) in held {
        text += &kb.filter(|kb| *kb > 0).map_or(String::new(), |kb| format!("; {what} {kb} kB"));
    }
    text.push('\n');
    text += match of.largest() {
        Some(Share::Anonymous) => "Most of it is anonymous memory of its processes.\n",
        Some(Share::Kernel) => {
            "Most of it is memory of the kernel for the cgroup, not of its processes.\n"
        }
        Some(Share::Shmem) => "Most of it is tmpfs or shared memory.\n",
        Some(Share::File) | None => "",
    };
    if let Some(percent) = of.dirty_percent().filter(|percent| *percent >= 50) {
        text += &format!(
            "It waits for writeback: {percent} % of its limit is page cache that must be written first\n"
        );
    }
    if let Some(task) = &of.task_path {
        text += &format!(
            "The task that was killed is in {task}: the limit is that of a cgroup above it.\n"
        );
    }
    text
}

/// Returns a size in the unit that says enough.
pub(super) fn size(kb: u64) -> String {
    if kb < 10 << 10 { format!("{kb} kB") } else { format!("{} MiB", kb >> 10) }
}

/// Returns who has the memory, or what tells it where the log does not.
pub(super) fn held(of: &Explanation) -> String {
    let report = &of.report;
    let mut text = String::new();
    if !of.holders.is_empty() {
        let holder = |holder: &Holder| format!("{} {}", holder.holding.name(), size(holder.kb));
        let all: Vec<String> = of.holders.iter().map(holder).collect();
        text += &format!("Held by: {}\n", all.join("; "));
    }
    let page_kb = report.memory.page_kb();
    let kb = |pages: u64| size(pages.saturating_mul(page_kb));
    let process = |process: &Process| {
        let swap = process.swap_pages.filter(|pages| *pages > 0);
        let swap = swap.map_or(String::new(), |pages| format!(" and {} in swap", kb(pages)));
        format!("{} (process {}) {}{swap}", process.task, process.pid, kb(process.rss_pages))
    };
    let mut all: Vec<String> = report.processes.iter().take(3).map(process).collect();
    if let Some(Named { task, count, pages }) = &report.most_named {
        all.push(format!(
            "all {count} of {task} at most {} (what they share counts for each)",
            kb(*pages)
        ));
    }
    if !all.is_empty() {
        text += &format!("Largest processes: {}\n", all.join("; "));
    }
    let slab = |slab: &SlabCache| format!("{} {}", slab.name, size(slab.kb));
    let all: Vec<String> = report.slab_caches.iter().take(3).map(slab).collect();
    if !all.is_empty() {
        text += &format!("Largest slab caches: {}\n", all.join("; "));
    }
    if text.is_empty() { not_printed(of).to_owned() } else { text }
}

/// Returns what tells who has the memory, where the log does not.
fn not_printed(of: &Explanation) -> &'static str {
    let report = &of.report;
    let class = of.likely.unwrap_or(of.class);
    match class {
        Class::Fragmentation if report.order.is_some_and(|order| order > 0) => {
            "Held by: whose pages lie between the free blocks no report says; pageblock doctor does, and page_owner=on\n"
        }
        Class::Cgroup if report.cgroup.as_ref().and_then(Cgroup::largest).is_none() => {
            "Held by: not in the log; memory.stat of the cgroup and its list of tasks in the report tell it\n"
        }
        Class::Shortage | Class::SlowReclaim | Class::Unknown
            if report.is_oom()
                && report.victim.as_ref().is_none_or(|victim| victim.anon_kb.is_none()) =>
        {
            "Held by: not in the log; its lines from Mem-Info to the list of tasks tell it, or now /proc/meminfo and \
             ps -eo rss,pid,comm --sort=-rss | head\n"
        }
        _ => "",
    }
}
