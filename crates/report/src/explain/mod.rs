//! Why requests for memory failed, as text.

mod more;
mod notice;
mod why;
mod zones;

use pageblock_doctor::class::{Class, Confidence};
use pageblock_doctor::gfp;
use pageblock_doctor::group::{Group, groups};
use pageblock_doctor::log::{Kind, Report};
use pageblock_doctor::{Explanation, advice::Advice};

use self::more::{equal, held, more, when};
use self::why::why;
use self::zones::zones;

/// Prints the explanations of a log. `lines` is its number of lines.
#[must_use]
pub fn print(found: &[Explanation], lines: usize) -> String {
    if found.is_empty() {
        return format!(
            "No report in {lines} lines. Looked for: \"page allocation failure\", \"page allocation stalls\", \
             \"invoked oom-killer\", the state of memory that SysRq-m prints (\"Mem-Info\"), the lines of \
             a kill, failures of vmalloc, SLUB, CMA, HugeTLB, DMA pools and balloons, lines of XFS, ZFS and TCP, tasks blocked \
             in compaction or reclaim, programs that kill.\nThe kernel's log has them: journalctl -k, dmesg, \
             /var/log/kern.log, and of the boot before journalctl -k -b -1.\n"
        );
    }
    let mut text = String::new();
    for (n, group) in groups(found).iter().enumerate() {
        if n > 0 {
            text.push('\n');
        }
        text += &print_one(found, group);
    }
    text
}

fn print_one(found: &[Explanation], group: &Group) -> String {
    let of = &found[group.shown];
    let mut text = format!("{}: {}\n", place(of), request(of));
    let confidence = match of.confidence {
        Confidence::High => "it follows from the printed numbers",
        Confidence::Medium => "likely; not all that it depends on is printed",
        Confidence::Low => "a guess",
    };
    text += &format!("{} ({confidence})\n", why(of));
    text += &held(of);
    let (first, others) = of.helps.split_at(of.helps.len().min(1));
    text += &first
        .iter()
        .map(|step| format!("First step: {}\n  {}\n", step.what, step.why))
        .collect::<String>();
    text += &equal(found, group);
    text += &when(of);
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
    text += &advice("Helps, too", others);
    text + &advice("Often advised, and does not help", &of.does_not_help)
}

/// Returns where a report is.
fn place(of: &Explanation) -> String {
    match &of.file {
        Some(file) => format!("{file}:{}", of.report.line),
        None => format!("Line {}", of.report.line),
    }
}

/// Returns who asked for what.
fn request(of: &Explanation) -> String {
    let Report { kind, task, stall_ms, order, version, flags, mode, .. } = &of.report;
    let task = task.as_deref().unwrap_or("a task");
    let on = version.as_ref().map_or(String::new(), |version| format!(" on {version}"));
    let what = match kind {
        Kind::Dump | Kind::State => return format!("the state of memory, without a request{on}"),
        Kind::Failure => "got no memory",
        Kind::Stall => &match stall_ms {
            Some(ms) if *ms >= 10_000 => format!("waits for memory, {} s so far", ms / 1000),
            _ => "waits long for memory".to_owned(),
        },
        Kind::Oom => "invoked the OOM killer",
        Kind::MemcgOom => "invoked the OOM killer of its memory cgroup",
        Kind::Notice => return notice::notice(of),
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
    if let Some(order) = (*order).filter(|_| *kind != Kind::Vmalloc) {
        let kb = of.report.memory.page_kb() << order.min(20);
        text += &format!(": order {order} ({kb} kB)");
    }
    if let Some(names) = flags {
        text += &format!(", {names}");
    } else if let Some(mode) = mode {
        text += &format!(", flags {mode:#x}");
    }
    of.flags.map_or(text.clone(), |flags| format!("{text}: {}", gfp::kind(flags)))
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
