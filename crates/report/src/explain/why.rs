//! Why a request failed, in a sentence.

use pageblock_doctor::class::{COSTLY_ORDER, Class, Confidence};
use pageblock_doctor::gfp;
use pageblock_doctor::holders::Holding;
use pageblock_doctor::log::{
    Cgroup, Growth, Kind, Lack, MUCH_KB, NodeMemory, Purpose, Share, Vmalloc, Zone,
};
use pageblock_doctor::watermark::{Check, Verdict};
use pageblock_doctor::{Explanation, is_of_initramfs};

use super::more::size;
use super::notice::meaning_of;
use super::zones::is_known;

/// A process with less fills none.
const LITTLE_KB: u64 = 32 << 10;

fn vmalloc(of: &Vmalloc, purpose: Option<Purpose>) -> String {
    let bytes = of.bytes.map_or("a request".to_owned(), |bytes| format!("{bytes} bytes"));
    match (of.lack, of.had_bytes, of.bytes) {
        (Lack::Addresses, ..) if purpose == Some(Purpose::Module) => format!(
            "vmalloc: the range of addresses for modules and BPF programs has no room for {bytes}; free pages do not \
             matter."
        ),
        (Lack::Addresses, ..) => format!(
            "vmalloc: no range of addresses for {bytes}, or no memory to track it; free pages do not matter."
        ),
        (Lack::Machine, _, Some(0)) => {
            "vmalloc: 0 bytes were asked for, which is a fault of the caller.".to_owned()
        }
        (Lack::Machine, ..) => format!("vmalloc: {bytes} are more than the machine has."),
        (Lack::Blocks, ..) => {
            "vmalloc: no large block was had; it goes on with single pages, and the request may well have passed.".to_owned()
        }
        (Lack::Pages, Some(0), None) => "vmalloc: not a single page was allocated.".to_owned(),
        (Lack::Pages, Some(had), None) => {
            format!("vmalloc: {had} bytes were allocated, and then no further page.")
        }
        (Lack::Pages, Some(had), Some(_)) => {
            format!("vmalloc: {had} of {bytes} were allocated, and then no further page.")
        }
        (Lack::Pages, None, _) => format!("vmalloc: there were not enough pages for {bytes}."),
    }
}

/// Returns what a state that somebody pasted says by itself.
fn state(of: &Explanation) -> String {
    let memory = &of.report.memory;
    let mut text = match () {
        () if of.zones.is_empty() => String::new(),
        () if of.zones.iter().all(|zone| zone.verdict == Verdict::BelowWithoutCma) => {
            " Nearly all that is free is CMA, which the kernel may not use for itself.".to_owned()
        }
        () if of.zones.iter().all(is_short) && is_most(of) && is_of_cache(of) => {
            " No zone that was printed has a page to spare, and most is page cache: only a caller that cannot wait (a network driver) \
             fails."
                .to_owned()
        }
        () if of.zones.iter().all(is_short) && is_most(of) => {
            " No zone that was printed has a page to spare: memory is used up.".to_owned() + &most(of)
        }
        () if of.zones.iter().any(|zone| zone.verdict == Verdict::Fits) => {
            " Single pages are free: what failed, if anything did, was for a larger block, another zone, or at a limit."
                .to_owned()
                + &barely(of)
        }
        () if is_most(of) => short_zones(of),
        () => String::new(),
    };
    if let Some((available, pages)) = memory.available_kb.zip(memory.ram_pages) {
        let total = pages.saturating_mul(memory.page_kb());
        let lead = if memory.is_available() { " Nothing is short by these numbers:" } else { "" };
        let of = if lead.is_empty() { "Of" } else { "of" };
        text += &format!("{lead} {of} {} {} are available.", size(total), size(available));
    }
    text += &by_node(&memory.nodes);
    if let Some(growth) = &memory.growth {
        text += &grew(growth);
    }
    if let Some(swap) = memory.free_swap_kb.filter(|_| memory.zones.is_empty()) {
        text += &format!(" Free swap: {}.", size(swap));
    }
    let is_low = |kb: u64| memory.ram_pages.is_some_and(|pages| kb < pages * memory.page_kb() / 2);
    if let Some(holder) = of.holders.first().filter(|_| memory.zones.is_empty() || !is_most(of))
        && memory.available_kb.is_none_or(is_low)
    {
        text += &format!(" Largest holder: {} {}.", holder.holding.name(), size(holder.kb));
    }
    if let Some(cache) = of.report.slab_caches.first().filter(|_| memory.zones.is_empty()) {
        let meaning = match cache.is_reclaimable() {
            true => "which is cache that the kernel frees when memory is short",
            false => "which it cannot free: if it grows, it leaks",
        };
        text += &format!(" Largest slab cache: {} {}, {meaning}.", cache.name, size(cache.kb));
    }
    let is_one = memory.zones.iter().all(|zone| zone.node == memory.zones[0].node);
    let place = |zone: &Zone| match is_one {
        true => zone.kind.name().to_owned(),
        false => format!("{} of node {}", zone.kind.name(), zone.node),
    };
    let largest = |zone: &Zone| {
        let list = zone.lists.iter().rfind(|list| list.blocks > 0)?;
        Some(format!("{} kB in {}", list.block_kb, place(zone)))
    };
    let blocks: Vec<String> = memory.zones.iter().filter_map(largest).collect();
    if !blocks.is_empty() {
        text += &format!(" Largest free blocks: {}.", blocks.join(", "));
    }
    text
}

/// Returns the zones that have little to spare because of a boost.
fn barely(of: &Explanation) -> String {
    let one = |zone: &Check| {
        let (boost, needed) = (zone.boost?, zone.needed()?);
        let spare = zone.free?.checked_sub(needed)?;
        let name = zone.kind.name();
        (spare < boost).then(|| {
            format!(
                " {name} of node {} has little to spare: of {needed} kB that must stay {boost} kB are a boost.",
                zone.node
            )
        })
    };
    of.zones.iter().filter_map(one).collect()
}

/// Returns the zones that are short, where it is not known of others.
fn short_zones(of: &Explanation) -> String {
    let short = of.zones.iter().filter(|zone| is_short(zone));
    let one = |zone: &Check| {
        let (free, needed) = zone.free.zip(zone.needed())?;
        let name = zone.kind.name();
        Some(format!(
            " {name} of node {} has {free} kB free, and {needed} kB must stay.",
            zone.node
        ))
    };
    short.filter_map(one).collect()
}

/// Returns what is free on each node, and whether that is uneven.
fn by_node(nodes: &[NodeMemory]) -> String {
    let one = |of: &NodeMemory| {
        format!("{} of {} on node {}", size(of.free_kb), size(of.total_kb), of.node)
    };
    let all: Vec<String> = nodes.iter().take(8).map(one).collect();
    if all.is_empty() {
        return String::new();
    }
    let least = |part: u64| move |of: &NodeMemory| of.free_kb.saturating_mul(part) < of.total_kb;
    let is_uneven = nodes.iter().any(least(50)) && !nodes.iter().all(least(10));
    let uneven = match is_uneven {
        true => {
            ": one is full while another has memory, which matters to who is bound to it (cpuset, mbind, zone_reclaim_mode)"
        }
        false => "",
    };
    format!(" Free: {}{uneven}.", all.join(", "))
}

/// Returns what grew from sample to sample.
fn grew(growth: &Growth) -> String {
    let Growth { field, from_kb, to_kb, samples, available_kb } = growth;
    if field == "MemAvailable" {
        return format!(
            " From the first to the last of {samples} samples MemAvailable fell from {} to {}.",
            size(*from_kb),
            size(*to_kb)
        );
    }
    let name = match field.as_str() {
        "uncounted" => "what no field counts (pages of drivers)",
        field => field,
    };
    // What grows slowly shows in kB only.
    let size = |kb: u64| if kb < 1 << 20 { format!("{kb} kB") } else { size(kb) };
    let fell = available_kb.filter(|(from, to)| to < from).map_or(String::new(), |(from, to)| {
        format!(", MemAvailable fell from {} to {}", size(from), size(to))
    });
    format!(
        " From the first to the last of {samples} samples {name} rose from {} to {}{fell}: if it only rises, it leaks.",
        size(*from_kb),
        size(*to_kb)
    )
}

/// Returns whether one process has at least half of the machine's memory.
fn is_of_one(of: &Explanation) -> bool {
    let largest = of.report.processes.first().map(|process| process.rss_pages);
    let ram = of.report.memory.ram_pages.filter(|_| of.report.order.is_none());
    largest.zip(ram).is_some_and(|(rss, ram)| rss.saturating_mul(2) >= ram)
}

/// Returns whether nobody has more memory than the page cache.
fn is_of_cache(of: &Explanation) -> bool {
    of.holders.first().is_some_and(|holder| holder.holding == Holding::File)
}

/// Returns the process, or those of one name, that is known to have the most, if that is much.
fn largest(of: &Explanation) -> Option<String> {
    let (task, kb) = of.report.largest()?;
    Some(format!("the largest that is known, {task}, had {}", size(kb)))
}

/// Returns who has most of memory that is used up.
fn most(of: &Explanation) -> String {
    let holder = of.holders.first();
    let of_processes = holder.is_none_or(|holder| holder.holding == Holding::Anonymous);
    let holder = holder.map(|holder| format!("{} {}", holder.holding.name(), size(holder.kb)));
    let cache = of.report.slab_caches.first().filter(|cache| cache.kb >= MUCH_KB && !of_processes);
    let cache = cache.map(|cache| format!("slab cache {} {}", cache.name, size(cache.kb)));
    let known: Vec<String> =
        holder.into_iter().chain(cache).chain(largest(of).filter(|_| of_processes)).collect();
    if known.is_empty() { String::new() } else { format!(" Largest holder: {}.", known.join("; ")) }
}

/// Returns whose limit was reached, and who has the memory below it.
fn of_cgroup(of: &Explanation) -> String {
    let group = of.report.cgroup.as_ref();
    let limit = group.and_then(|group| group.limit_kb).map(size);
    let path = group.and_then(|group| group.path.as_ref()).map(|path| format!("of {path}"));
    let share = group.and_then(Cgroup::largest).map(|share| match share {
        Share::Anonymous => "most of it is anonymous memory".to_owned(),
        Share::File => "most of it is page cache".to_owned(),
        Share::Shmem => "most of it is tmpfs or shared memory".to_owned(),
        Share::Kernel => "most of it is memory of the kernel".to_owned(),
    });
    let place = limit.into_iter().chain(path).collect::<Vec<_>>().join(" ");
    let place = Some(place).filter(|place| !place.is_empty());
    let known: Vec<String> = place.into_iter().chain(share).chain(largest(of)).collect();
    let known = if known.is_empty() { String::new() } else { format!(" ({})", known.join("; ")) };
    format!("Memory cgroup: its limit was reached{known}, whatever the machine has.")
}

/// Returns who had the memory, by the process that was killed: the largest that could be.
fn of_victim(of: &Explanation) -> String {
    let victim =
        of.report.victim.as_ref().and_then(|victim| victim.anon_kb.zip(Some(&victim.task)));
    match (largest(of), victim) {
        (Some(known), _) => known,
        (None, Some((kb, task))) if kb < LITTLE_KB => format!(
            "the process that was killed, {task}, had only {}: most likely no process has the memory, but the kernel, a driver, tmpfs \
             or huge pages",
            size(kb)
        ),
        _ => "they do not say who had it".to_owned(),
    }
}

/// Returns whether the zones that were printed are not the small low ones alone.
fn is_most(of: &Explanation) -> bool {
    let memory = &of.report.memory;
    let managed: u64 = memory.zones.iter().filter_map(|zone| zone.managed).sum();
    let ram = memory.ram_pages.map(|pages| pages.saturating_mul(memory.page_kb()));
    let has_normal = memory.zones.iter().any(|zone| !zone.kind.name().starts_with("DMA"));
    has_normal || ram.is_some_and(|ram| managed.saturating_mul(2) >= ram)
}

const fn is_short(zone: &Check) -> bool {
    matches!(
        zone.verdict,
        Verdict::Below | Verdict::BelowWithoutCma | Verdict::BelowWithoutHighatomic
    )
}

/// Returns what a kill alone tells, for the machine's memory or at a limit.
fn kill_without_state(of: &Explanation) -> String {
    match of.likely {
        _ if is_of_initramfs(&of.report) => {
            "Most likely the machine is too small for what the kernel unpacks at boot (initramfs): no process was started yet."
                .to_owned()
        }
        Some(Class::Cgroup) => format!(
            "Most likely the limit of a memory cgroup: the tasks are of a container, by their cpuset or `oom_score_adj`; `constraint=` or the \
             line of the kill tells, and is not in the log.{}",
            most(of)
        ),
        _ if of.report.order.is_none() && of.report.victim.is_none() => {
            "Most likely a true shortage: the page allocator, not the limit of a memory cgroup, called the OOM killer; what was \
             free is not in the log.".to_owned() + &most(of)
        }
        _ if of.report.order.is_none() => {
            format!(
                "Only the lines of the kill are in the log: memory of the machine was used up, not the limit of a memory cgroup; \
                 {}.",
                of_victim(of)
            )
        }
        _ if !of.report.of_machine => {
            "Most likely memory of the machine was used up: nothing that was copied names a memory cgroup; the stack, `constraint=` or the \
             line of the kill would tell."
                .to_owned()
                + &most(of)
        }
        _ => "Most likely a true shortage: the page allocator, not the limit of a memory cgroup, called the \
                                  OOM killer for a single page; what was free is not in the log."
            .to_owned() + &most(of),
    }
}

/// Returns what a request alone tells.
fn without_state(of: &Explanation) -> String {
    let order = of.report.order.unwrap_or(0);
    match of.likely {
        Some(Class::Fragmentation) if order <= COSTLY_ORDER => format!(
            "Most likely fragmentation, or a burst: the caller cannot wait, and finds order {order} among what is free, or does \
             not; what was free is not in the log."
        ),
        Some(Class::Fragmentation) if of.flags.is_some_and(|flags| !gfp::may_wait(flags)) => format!(
            "Most likely fragmentation: the caller cannot wait, and finds no block of order {order} among what is free; what was \
             free is not in the log."
        ),
        Some(Class::Fragmentation) => format!(
            "Most likely fragmentation: order {order} is above 3, for which the kernel does not try hard; what was free is \
             not in the log."
        ),
        Some(Class::Burst) => "Most likely a burst that used up the reserve: the caller asks for single pages and cannot wait; what \
                         was free is not in the log."
            .to_owned(),
        Some(Class::SlowReclaim) => format!(
            "Most likely memory was used up: the caller {}, and reclaim freed no page for it in time; what was free is not \
             in the log.{}",
            of.flags.map_or("may reclaim", gfp::kind),
            most(of)
        ),
        Some(Class::ZoneMask) => format!(
            "Most likely the zone: only memory up to {} will do for the request, which is little, or none; what was free is \
             not in the log.",
            of.flags.map_or("Normal", |flags| flags.highest_zone().name())
        ),
        Some(Class::Cgroup | Class::Shortage) => kill_without_state(of),
        _ if of.report.kind == Kind::Failure
            && of.report.order.is_none()
            && of.report.caller.as_ref().is_some_and(|c| c.purpose == Some(Purpose::Packet)) =>
        {
            "Most likely fragmentation, or a burst: the stack is that of a network driver, which cannot wait; order and flags are \
             above the stack."
                .to_owned()
        }
        _ if of.report.is_before_zones() => {
            "The allocator had no zone to take a page from: it is asked before it is set up, which is a fault of the kernel's boot."
                .to_owned()
        }
        _ if of.report.victim.is_some() => {
            "Only the lines of the kill are in the log; they do not say why memory was short.".to_owned()
        }
        _ if is_of_one(of) => {
            "Only the end of an OOM killer's report is in the log: most likely memory of the machine was used up, half of it or more \
             by its largest process."
                .to_owned()
        }
        _ if !of.report.processes.is_empty() && of.report.order.is_none() => {
            let largest = largest(of).map_or(String::new(), |largest| format!("; {largest}"));
            format!(
                "Only tasks that the OOM killer listed are in the log: who was short, the machine or a memory cgroup, is \
                 not{largest}."
            )
        }
        // The kernel tries hard for these, and kills for them.
        _ if (1..=COSTLY_ORDER).contains(&order) => {
            let or_cgroup = match of.report.kind == Kind::Oom && !of.report.of_machine {
                true => " (or a memory cgroup reached its limit)",
                false => "",
            };
            format!(
            "Either what was free had no block of order {order} (fragmentation), or memory was used up{or_cgroup}: the free lists tell (from \
             Mem-Info on, or /proc/buddyinfo), and are not in the log."
            )
        }
        _ if of.report.kind == Kind::Oom => {
            "Either the machine's memory was used up, or the limit of a memory cgroup was reached: the stack (`mem_cgroup`), `constraint=` or \
             the line of the kill tells, and is not in the log."
                .to_owned() + &most(of)
        }
        _ => "The log does not say why: what was free is not in it.".to_owned(),
    }
}

/// Returns what decides where a class alone would say too little: a boost, blocks that are CMA's, a cgroup's slab.
fn by_marks(of: &Explanation) -> Option<String> {
    let order = of.report.order.unwrap_or(0);
    match of.class {
        Class::Burst | Class::SlowReclaim if of.boosted().is_some() && !of.report.is_oom() => Some(
            "Boost: fragmentation raised the watermark, and what is free is below it; by the watermark that is set the request would \
             pass."
                .to_owned()
                + &most(of),
        ),
        Class::OnlyCma
            if order > 0 && of.zones.iter().any(|zone| zone.verdict == Verdict::OtherBlocks) =>
        {
            Some(format!(
                "Fragmentation: enough is free, but every block of order {order} or larger is CMA's, which this request may not use."
            ))
        }
        Class::FaultOom if of.report.slab.as_ref().is_some_and(|slab| slab.cgroup.is_some()) => Some(
            "Memory cgroup, most likely: a slab cache of it got no page just before a page fault failed, whatever the machine has."
                .to_owned(),
        ),
        _ => None,
    }
}

pub(super) fn why(of: &Explanation) -> String {
    if let Some(notice) = &of.report.notice {
        return meaning_of(notice);
    }
    if let Some(failure) = &of.report.vmalloc {
        return vmalloc(failure, of.report.caller.as_ref().and_then(|caller| caller.purpose));
    }
    if of.confidence == Confidence::Low && of.zones.is_empty() {
        return without_state(of);
    }
    if let Some(text) = by_marks(of) {
        return text;
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
        Class::Cgroup => of_cgroup(of),
        Class::Shortage if of.lacks_swap() => {
            "Memory is used up, and little of it is page cache; whether swap could take the rest was not printed."
                .to_owned() + &most(of)
        }
        Class::Shortage => {
            "True shortage: memory is used up, and next to nothing can be reclaimed.".to_owned() + &most(of)
        }
        Class::SlowReclaim => {
            "Reclaim did not keep up: memory is used up, though some of it could be reclaimed.".to_owned() + &most(of)
        }
        Class::Changed => {
            let brief = match of.flags.is_some_and(gfp::may_wait) {
                true => "",
                false => " A caller that cannot wait fails in such moments: it matters only if it is frequent.",
            };
            format!("The state that was printed would serve the request: memory was freed in between.{brief}")
        }
        Class::FaultOom => "A page fault returned VM_FAULT_OOM: its own allocation failed elsewhere, and this state does \
                            not say why."
            .to_owned(),
        Class::Notice | Class::Vmalloc => String::new(),
        Class::Asked => "Nobody lacked memory: somebody asked for the kill.".to_owned(),
        Class::NoRequest if of.report.kind == Kind::State => {
            format!("{} The request is not in the log: this is a state only.", state(of)).trim().to_owned()
        }
        Class::NoRequest => "Nobody asked for memory here: this is a state, not a failure.".to_owned(),
        Class::Unknown => without_state(of),
    }
}
