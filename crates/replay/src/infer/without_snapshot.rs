//! The start state of a capture without a snapshot: what its events name, and nothing else.
//!
//! * A block that an event first takes from a zone was free; one that it first allocates or drains from a CPU list
//!   was on that list; one that it first frees was in use.
//! * If only requests and frees were recorded, a block that is first allocated was free in the zone: an allocation
//!   from a CPU list had come from there.
//! * A free block that was left when a larger one was taken was as large itself, even if no event names all of it.
//! * Frames that no event names are treated as in use. If there is a copy of the machine's buddyinfo, as many of
//!   them are free, by order, as it counts, and by order and type as its pagetypeinfo counts.
//! * Without the machine's zoneinfo the zones are those of x86-64, from the lowest to the highest frame named. They
//!   have no watermarks, as most of the machine's free memory is unknown; the limits of CPU lists are those of a
//!   zone of that size.

use std::collections::BTreeMap;

use pageblock::frame::{Order, Pfn};
use pageblock::layout::ZoneKind;
use pageblock::mobility::Migratetype::Movable;
use pageblock::policy::Policy;
use pageblock::tuning;
use pageblock::zone::Geometry;
use pageblock_recording::{
    Columnar, FreeBlock, PageUse, PcpInfo, Record, Recording, Snapshot, UsedRange, What,
    ZoneSnapshot,
};

use super::{Evidence, FREE, IN_USE, Start, free_blocks};
use crate::error::Error;
use crate::look_ahead::CpuListOrders;
use crate::machine::recorded_kernel;

/// The first frame of DMA32 and of Normal on x86-64: 16 MiB and 4 GiB.
const DMA_END: u64 = 1 << 12;
const DMA32_END: u64 = 1 << 20;
/// Zones begin and end with a block of the largest order.
const ZONE_ALIGN: Order = 10;

/// The number of frames that a replay can name: 16 TiB.
const FRAMES: u64 = 1 << 32;

/// What the events name.
#[derive(Default)]
struct Named {
    /// By zone of x86-64: the lowest frame and the one after the highest.
    frames: BTreeMap<ZoneKind, (u64, u64)>,
    cpus: u16,
    /// Requests and frees; and events of what zones yield and get back.
    requests: u64,
    zone_events: u64,
    outside: Option<Pfn>,
}

impl Named {
    fn push(&mut self, record: &Record, known: &[ZoneSnapshot]) {
        let (pfn, order) = match record.what {
            What::Alloc { pfn: Some(pfn), order, .. } | What::Free { pfn, order } => (pfn, order),
            What::ZoneLocked { pfn, order, .. } | What::Drain { pfn, order, .. } => (pfn, order),
            What::Extfrag(x) => (x.pfn, x.alloc_order.max(x.fallback_order)),
            _ => return,
        };
        self.cpus = self.cpus.max(record.cpu.saturating_add(1));
        match record.what {
            What::Alloc { .. } | What::Free { .. } => self.requests += 1,
            _ => self.zone_events += 1,
        }
        if !known.is_empty() && !known.iter().any(|zone| zone.span().contains(pfn)) {
            self.outside.get_or_insert(pfn);
        }
        let end = pfn.0 + (1 << order);
        let (low, high) = self.frames.entry(zone_of(pfn)).or_insert((pfn.0, end));
        (*low, *high) = ((*low).min(pfn.0), (*high).max(end));
    }
}

fn zone_of(pfn: Pfn) -> ZoneKind {
    match pfn.0 {
        ..DMA_END => ZoneKind::Dma,
        DMA_END..DMA32_END => ZoneKind::Dma32,
        _ => ZoneKind::Normal,
    }
}

/// Gives a recording without a start state the zones and CPUs that its events name, unless it has them, and gives
/// every recording the limits of CPU lists that its kernel does not print.
///
/// # Errors
/// If the events cannot be read, or name a frame outside all zones.
pub fn complete(recording: &mut Recording, columnar: &Columnar) -> Result<(), Error> {
    if recording.start_known {
        unprinted_limits(recording);
        return Ok(());
    }
    let mut named = Named::default();
    let mut chunks = columnar.chunks()?;
    while let Some(chunk) = chunks.next_chunk()? {
        chunk.iter().for_each(|record| named.push(record, &recording.start.zones));
    }
    if let Some(pfn) = named.outside {
        return Err(Error::OtherMachine(pfn));
    }
    if let Some((_, end)) = named.frames.values().find(|(_, end)| *end > FRAMES) {
        return Err(Error::FarFrame(Pfn(end - 1)));
    }
    recording.requests_only = named.requests > 0 && named.zone_events == 0;
    let start = &mut recording.start;
    if start.zones.is_empty() {
        start.zones = zones(&named);
    }
    let listed = start.pcpinfo.iter().map(|info| info.cpu + 1).max().unwrap_or(0);
    if listed < named.cpus {
        recording.start.pcpinfo = lists(recording, named.cpus);
    }
    unprinted_limits(recording);
    Ok(())
}

/// Adds the limits between which a kernel tunes the size of its CPU lists, as the kernel computes them: some
/// versions tune the size, but print only the present one.
fn unprinted_limits(recording: &mut Recording) {
    const FRACTION: &str = "proc/sys/vm/percpu_pagelist_high_fraction";
    let fixed = recording.settings.get(FRACTION).is_some_and(|text| text.trim() != "0");
    let policy = &recorded_kernel(recording).allocator;
    if !fixed {
        add_limits(&mut recording.start, policy);
    }
}

fn add_limits(Snapshot { zones, pcpinfo, .. }: &mut Snapshot, policy: &Policy) {
    let cpus = pcpinfo.iter().map(|info| u64::from(info.cpu) + 1).max().unwrap_or(0);
    for info in pcpinfo.iter_mut().filter(|info| info.high_min.is_none()) {
        let Some(zone) = zones.get(usize::from(info.zone)) else { continue };
        let sizes =
            tuning::pcp_sizes(policy, zone.managed, zone.wmark.low, cpus, Geometry::default());
        let tuned = sizes.high_min..=sizes.high_max;
        // A list that was never used keeps its initial limit until its first free.
        let is_tuned = info.high == 0 || tuned.contains(&info.high);
        if sizes.high_min < sizes.high_max && is_tuned {
            (info.high_min, info.high_max) = (Some(sizes.high_min), Some(sizes.high_max));
        }
    }
}

fn zones(named: &Named) -> Vec<ZoneSnapshot> {
    let zone = |(kind, &(low, high)): (&ZoneKind, &(u64, u64))| {
        let start_pfn = Pfn(low).align_down(ZONE_ALIGN);
        let spanned = high.next_multiple_of(1 << ZONE_ALIGN) - start_pfn.0;
        let (present, managed) = (spanned, spanned);
        let name = kind.name().to_owned();
        ZoneSnapshot { name, start_pfn, spanned, present, managed, ..ZoneSnapshot::default() }
    };
    named.frames.iter().map(zone).collect()
}

/// Returns the limits of CPU lists that the recorded kernel gives zones of this size.
fn lists(recording: &Recording, cpus: u16) -> Vec<PcpInfo> {
    let policy = &recorded_kernel(recording).allocator;
    let kind = |zone: &ZoneSnapshot| ZoneKind::from_name(&zone.name).unwrap_or(ZoneKind::Normal);
    let sizes = || recording.start.zones.iter().map(|zone| (kind(zone), zone.managed));
    let lowmem = tuning::lowmem_pages(policy, sizes());
    let kbytes = tuning::computed_min_free_kbytes(policy, lowmem * tuning::KBYTES_PER_PAGE);
    let mut lists = Vec::new();
    let geometry = Geometry::default();
    for (zone, (kind, managed)) in sizes().enumerate() {
        let low = tuning::watermarks(policy, kind, managed, lowmem, kbytes, geometry).low;
        let sizes = tuning::pcp_sizes(policy, managed, low, cpus.into(), geometry);
        lists.extend((0..cpus).map(|cpu| PcpInfo {
            cpu,
            zone: zone as u16,
            high: sizes.high_min,
            batch: sizes.batch,
            high_min: Some(sizes.high_min),
            high_max: Some(sizes.high_max),
            ..PcpInfo::default()
        }));
    }
    lists
}

/// Returns the start state that the events imply.
pub(super) fn start(
    recording: &Recording,
    columnar: &Columnar,
    orders: CpuListOrders,
) -> Result<Start, Error> {
    let mut evidence = Evidence::new(recording, u64::MAX, orders);
    let end = columnar.end_event();
    let mut chunks = columnar.chunks()?;
    let mut event = 0;
    while let Some(chunk) = chunks.next_chunk()? {
        for record in chunk {
            match record.what {
                _ if event >= end => {}
                What::Alloc { pfn: Some(pfn), order, mt, .. } if recording.requests_only => {
                    evidence.learn(pfn, mt);
                    evidence.take(event, pfn, order);
                }
                ref what => {
                    evidence.push(event, record.cpu, record.pid, what);
                    // A list has pages of its type's pageblocks, except for a few that were stolen.
                    if let What::Alloc { pfn: Some(pfn), mt, .. } = *what {
                        evidence.learn(pfn, mt);
                    }
                }
            }
            event += 1;
        }
    }
    Ok(conclude(evidence, recording))
}

fn conclude(mut evidence: Evidence, recording: &Recording) -> Start {
    let mut snapshot = recording.start.clone();
    let mut free = vec![false; evidence.before_snapshot.len()];
    for (frame, _) in evidence.before_snapshot.iter().enumerate().filter(|&(_, &was)| was == FREE) {
        free[frame] = true;
    }
    evidence.free_rest_of_blocks(&snapshot, &mut free);
    snapshot.free = free_blocks(&snapshot, &free);
    let filled = evidence.fill_free(&mut snapshot, &mut free);
    give_one_type(&mut evidence, &snapshot.free);
    let guessed = evidence.guess_types(&snapshot);
    snapshot.used = used(&evidence);
    for block in &snapshot.free {
        let zone = &mut snapshot.zones[usize::from(block.zone)];
        zone.nr_free_pages += 1 << block.order;
    }
    let mut inferred = evidence.order_lists(&mut snapshot);
    let known = evidence.fill_cpu_lists(&mut snapshot);
    inferred.extend(snapshot.pcp.iter().map(|page| page.pfn));
    let pages: u64 = snapshot.free.iter().map(|block| 1u64 << block.order).sum();
    let in_use: u64 = snapshot.used.iter().map(|used| used.count).sum();
    let told = format!(
        "the start state is inferred from the events: {pages} pages were free, {filled} of them by \
         buddyinfo and pagetypeinfo alone, {known} blocks on CPU \
         lists, {} pages in use; decisions on those are counted apart, as inferred",
        in_use.saturating_sub(snapshot.pcp.iter().map(|page| 1u64 << page.order).sum()),
    );
    Start { snapshot, inferred, guessed, limits_read_before: None, notes: vec![told] }
}

/// Gives all pageblocks of each free block the type that the events tell for the first: a block is on one list.
fn give_one_type(evidence: &mut Evidence, free: &[FreeBlock]) {
    for block in free.iter().filter(|block| block.order > evidence.pageblock_order) {
        let last = Pfn(block.pfn.0 + (1 << block.order) - 1);
        let blocks = evidence.block(block.pfn)..evidence.block(last) + 1;
        if let Some(types) = evidence.types.get_mut(blocks)
            && let Some(told) = types.iter().copied().flatten().next()
        {
            types.fill(Some(told));
        }
    }
}

/// Returns the frames that were in use. Content of a movable pageblock counts as movable.
fn used(evidence: &Evidence) -> Vec<UsedRange> {
    let mut ranges: Vec<UsedRange> = Vec::new();
    for (pfn, &was) in evidence.before_snapshot.iter().enumerate() {
        if was != IN_USE {
            continue;
        }
        let pfn = Pfn(pfn as u64);
        let movable = evidence.type_of(pfn) == Movable;
        let state = if movable { PageUse::OtherLru } else { PageUse::KernelOrPcp };
        match ranges.last_mut() {
            Some(last) if last.state == state && last.pfn.0 + last.count == pfn.0 => {
                last.count += 1;
            }
            _ => ranges.push(UsedRange { state, pfn, count: 1 }),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_that_was_never_used_is_tuned_too() {
        let mut zone = ZoneSnapshot { managed: 3840, ..ZoneSnapshot::default() };
        zone.wmark.low = 237;
        let list = |cpu, high| PcpInfo { cpu, high, batch: 1, ..PcpInfo::default() };
        let lists = vec![list(0, 0), list(1, 130), list(2, 7)];
        let mut start = Snapshot { zones: vec![zone], pcpinfo: lists, ..Snapshot::default() };
        add_limits(&mut start, &Policy::parse("debian-6.12").unwrap());
        let limits: Vec<_> = start.pcpinfo.iter().map(|i| (i.high_min, i.high_max)).collect();
        // A size that an administrator set is kept.
        assert_eq!(limits, [(Some(79), Some(160)), (Some(79), Some(160)), (None, None)]);
    }
}
