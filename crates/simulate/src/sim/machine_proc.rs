//! Describes an existing machine as TOML, from its `/proc`.
//!
//! What `/proc` does not contain is written with a comment that says so: the position of holes in a zone (its
//! memory is placed at its start), and the speed of the disk.

use std::fmt::Write as _;

use pageblock::frame::{Order, pages};
use pageblock::zone::Geometry;
use pageblock_recording::{ProcFiles, ZoneFigures};

use super::machine_file::{self, MachineError, Scale};

/// The size of the largest block in MiB, with pages of 4 KiB: zones end at multiples of it.
const UNIT_MIB: u64 = 4;
/// The pages of a unit.
const UNIT: u64 = UNIT_MIB * 256;

/// A range of memory, `start` and `end` in units.
struct PlacedRange {
    node: usize,
    start: u64,
    end: u64,
}

/// Describes a machine as TOML that [`machine_file::parse`] reads. Characters of the name other than letters,
/// digits, `.`, `_` and `-` become `-`.
///
/// # Errors
/// [`MachineError`] for a machine that cannot be simulated.
pub fn describe(files: &ProcFiles, name: &str) -> Result<String, MachineError> {
    let zones: Vec<&ZoneFigures> =
        files.zones.iter().filter(|zone| zone.managed > 0 && zone.name != "Device").collect();
    check_page_size(files, &zones)?;
    let mut nodes: Vec<u16> = zones.iter().map(|zone| zone.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let laid = lay(&zones, &nodes);
    let mut text = format!("name = \"{}\"\n", plain(name));
    text += "# The slab allocator, \"slub\" or \"slab\": /proc does not say.\nslab = \"slub\"\n";
    text += &unmanaged(files, &zones);
    text += &swap(files);
    text += &blocks(files, &laid);
    let (dma, dma32) = (zone_end(&zones, "DMA"), zone_end(&zones, "DMA32"));
    text += "# Where the zones DMA and DMA32 end; 0: there is no such zone.\n";
    let _ = writeln!(text, "dma_end_mib = {dma}\ndma32_end_mib = {}", raised(dma32, dma));
    let other = |zone: &&&ZoneFigures| !["DMA", "DMA32", "Normal"].contains(&zone.name.as_str());
    for zone in zones.iter().filter(other) {
        let _ = writeln!(
            text,
            "# Zone {} of node {} is part of Normal here.",
            plain(&zone.name),
            zone.node
        );
    }
    let (cpus, known) = cpus(files, &nodes);
    for (at, id) in nodes.iter().enumerate() {
        let managed: u64 = zones.iter().filter(|zone| zone.node == *id).map(|z| z.managed).sum();
        let _ = writeln!(text, "\n# Node {id}: {} MiB.\n[[node]]", managed / 256);
        if !known {
            text += "# /proc does not say which node a CPU belongs to: they are divided evenly.\n";
        }
        let ranges = laid.iter().filter(|laid| laid.node == at);
        let ranges = ranges.map(|r| format!("[{}, {}]", r.start * UNIT_MIB, r.end * UNIT_MIB));
        let ranges = ranges.collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "cpus = {}\nmemory_mib = [{ranges}]", cpus[at]);
    }
    text += &disk(files);
    machine_file::parse(&text, Scale::WHOLE)?;
    Ok(text)
}

/// Returns the name with only characters that need no quoting anywhere.
fn plain(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name: String =
        name.trim().chars().take(64).map(|c| if fits(c) { c } else { '-' }).collect();
    if name.is_empty() { "machine".to_owned() } else { name }
}

/// Checks that pages have 4 KiB. The sizes that other systems have (8 to 64 KiB) show as the ratio of kB to pages. The same
/// ratio can come from memory that `MemTotal` counts and no zone manages (yet); but then `MemTotal` need not be a multiple
/// of such pages, and `DirectMap4k` says that pages have 4 KiB.
fn check_page_size(files: &ProcFiles, zones: &[&ZoneFigures]) -> Result<(), MachineError> {
    let managed: u64 = zones.iter().map(|zone| zone.managed).sum();
    let Some(total) = kib(files, "MemTotal") else { return Ok(()) };
    let page = (total + managed / 2) / managed;
    let is_near = matches!(page, 8 | 16 | 64) && total.abs_diff(managed * page) < total / 32;
    let has_4k = kib(files, "DirectMap4k").is_some() || !total.is_multiple_of(page);
    if !is_near || has_4k {
        return Ok(());
    }
    let message = format!(
        "{total} kB in {managed} pages are {page} KiB a page: only pages of 4 KiB can be simulated"
    );
    Err(MachineError::Value { key: "MemTotal", message })
}

/// Says so where the zones manage much less or more than the machine's memory, as some kernels give zones their pages only
/// when they are needed, and guests give theirs away.
fn unmanaged(files: &ProcFiles, zones: &[&ZoneFigures]) -> String {
    let managed = zones.iter().map(|zone| zone.managed).sum::<u64>() / 256;
    match kib(files, "MemTotal").map(|kib| kib / 1024) {
        Some(total) if total.abs_diff(managed) > total / 16 => format!(
            "# MemTotal is {total} MiB; its zones manage {managed} MiB now, which is all that this machine has.\n"
        ),
        _ => String::new(),
    }
}

/// Places the memory of each zone from its start on, ordered by address. Ranges do not overlap, and rounding
/// errors do not accumulate.
fn lay(zones: &[&ZoneFigures], nodes: &[u16]) -> Vec<PlacedRange> {
    let mut zones = zones.to_vec();
    zones.sort_by_key(|zone| zone.start());
    let mut laid: Vec<PlacedRange> = Vec::new();
    let mut owed = 0_i64;
    for zone in zones {
        let node = nodes.iter().position(|id| *id == zone.node).unwrap_or(0);
        let end = laid.last().map_or(0, |last| last.end);
        let start = (zone.start() / UNIT).max(end);
        let wanted = zone.managed as i64 + owed;
        let units = (wanted + UNIT as i64 / 2).div_euclid(UNIT as i64).max(0) as u64;
        // Not beyond the zone's end, unless its start was pushed up: then it keeps its size.
        let first = zone.start() / UNIT;
        let most = (zone.start() + zone.spanned.max(zone.managed)).div_ceil(UNIT) - first;
        let units = units.min(most);
        owed = wanted - (units * UNIT) as i64;
        match laid.last_mut() {
            _ if units == 0 => {}
            Some(last) if last.node == node && last.end == start => last.end += units,
            _ => laid.push(PlacedRange { node, start, end: start + units }),
        }
    }
    laid
}

/// Returns the end of a zone in MiB, which is the start of the next zone on any node; 0 if no node has the
/// zone.
fn zone_end(zones: &[&ZoneFigures], name: &str) -> u64 {
    let below = ["DMA", "DMA32"];
    let rank = |zone: &ZoneFigures| below.iter().position(|n| *n == zone.name).unwrap_or(2);
    let Some(own) = below.iter().position(|n| *n == name) else { return 0 };
    let Some(end) = zones
        .iter()
        .filter(|zone| rank(zone) == own)
        .map(|zone| zone.start() + zone.spanned.max(zone.managed))
        .max()
    else {
        return 0;
    };
    let next = zones.iter().filter(|zone| rank(zone) > own).map(|zone| zone.start()).min();
    // The last zone may end below its limit, which is 4 GiB for DMA32 on every machine.
    let least = if name == "DMA32" && next.is_none() { 4096 / UNIT_MIB } else { 1 };
    next.map_or(end.div_ceil(UNIT), |next| next / UNIT).max(least) * UNIT_MIB
}

/// Returns a limit no lower than the one before it, if the zone exists at all.
fn raised(limit: u64, before: u64) -> u64 {
    if limit == 0 { 0 } else { limit.max(before) }
}

/// Returns the number of CPUs of each node, and whether `/proc` says which CPUs they are.
fn cpus(files: &ProcFiles, nodes: &[u16]) -> (Vec<u64>, bool) {
    let all = files.cpus.len().max(1) as u64;
    let of = |id: u16| {
        let list = files.node_cpus.iter().find(|(node, _)| *node == id)?;
        Some(files.cpus.iter().filter(|cpu| is_in(&list.1, **cpu)).count() as u64)
    };
    let mut counts: Vec<u64> = nodes.iter().map(|id| of(*id).unwrap_or(0)).collect();
    let known = nodes.len() == 1 || counts.iter().any(|count| *count > 0);
    // CPUs of nodes without memory are counted to the first node.
    let rest = all - counts.iter().sum::<u64>().min(all);
    if known {
        counts[0] += rest;
    } else {
        let share = all / nodes.len() as u64;
        counts.fill(share);
        counts[0] += all - share * nodes.len() as u64;
    }
    (counts, known)
}

/// Reports whether a list such as `0-23,48` contains the CPU.
fn is_in(list: &str, cpu: u32) -> bool {
    list.split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<u32>().ok();
        number(first).zip(number(last)).is_some_and(|(first, last)| (first..=last).contains(&cpu))
    })
}

fn swap(files: &ProcFiles) -> String {
    let mib = kib(files, "SwapTotal").unwrap_or(0) / 1024;
    let areas: Vec<&str> = files.swaps.lines().skip(1).collect();
    let zram = areas.iter().filter(|area| is_zram(area)).count();
    let mut text = format!("swap_mib = {mib}\n");
    if zram > 0 {
        if zram < areas.len() {
            text += "# Part of it is on a disk; it is all modelled as zram here.\n";
        }
        text += "zram = true\n";
    }
    text
}

/// Reports whether a line of `/proc/swaps` names a zram device: `/dev/zram0`, on phones `/dev/block/zram0`.
fn is_zram(area: &str) -> bool {
    area.split_ascii_whitespace().next().is_some_and(|device| device.contains("/zram"))
}

/// Describes pageblocks and CMA.
fn blocks(files: &ProcFiles, laid: &[PlacedRange]) -> String {
    let mut text = String::new();
    let max_order = Geometry::default().max_order;
    if let Some(orders) =
        files.buddyinfo.orders().filter(|n| *n != usize::from(max_order) + 1 && *n > 0)
    {
        let _ =
            writeln!(text, "# Its largest block has order {}; here it is {max_order}.", orders - 1);
    }
    let huge = kib(files, "Hugepagesize").map(|kib| (kib / 4).max(1).ilog2() as Order);
    let order = files.pagetypeinfo.pageblock_order.or(huge);
    let order = order.unwrap_or(Geometry::default().pageblock_order).clamp(1, max_order);
    let _ = writeln!(text, "pageblock_order = {order}");
    let cma = kib(files, "CmaTotal").unwrap_or(0) / 1024;
    let room = laid.last().map_or(0, |last| (last.end - last.start) * UNIT_MIB);
    let room = room.saturating_sub(pages(order) / 256);
    if cma > room {
        let _ = writeln!(
            text,
            "# The machine has {cma} MiB; here it must fit in the last range of memory."
        );
    }
    if cma > 0 {
        let _ = writeln!(text, "cma_mib = {}", cma.min(room));
    }
    text
}

/// Describes the disk: its size may be known.
fn disk(files: &ProcFiles) -> String {
    let memory = ["loop", "ram", "zram", "sr", "dm-", "md", "nbd"];
    let size = |line: &str| {
        let mut words = line.split_ascii_whitespace().skip(2);
        let (blocks, name) = (words.next()?.parse::<u64>().ok()?, words.next()?);
        (!memory.iter().any(|kind| name.starts_with(kind))).then_some(blocks >> 20)
    };
    let largest = files.partitions.lines().filter_map(size).max().filter(|gib| *gib > 0);
    let mut text = "\n[disk]\n# /proc does not say how fast the disk is; these are an SSD's. Microseconds a read of a page,\n\
         # reads at a time, MiB written a second.\nread_us = 90\nread_places = 4\nwrite_mib_s = 110\n"
        .to_owned();
    if let Some(gib) = largest {
        let _ = writeln!(text, "size_gib = {}", gib.min(1 << 20));
    }
    text
}

/// Returns a value of `/proc/meminfo` in its kB, which are KiB.
fn kib(files: &ProcFiles, key: &str) -> Option<u64> {
    files.meminfo.get(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock::ids::NodeId;
    use pageblock_recording::{MemInfo, PageTypeInfo};

    fn zone(node: u16, name: &str, start_pfn: u64, spanned: u64, managed: u64) -> ZoneFigures {
        let name = name.to_owned();
        ZoneFigures {
            node,
            name,
            start_pfn: Some(start_pfn),
            spanned,
            managed,
            ..ZoneFigures::default()
        }
    }

    /// Returns a server with two nodes, the second with the larger part of memory.
    fn server() -> ProcFiles {
        ProcFiles {
            zones: vec![
                zone(0, "DMA", 1, 4095, 3840),
                zone(0, "DMA32", 4096, 1_044_480, 772_608),
                zone(0, "Normal", 1 << 20, 7 << 20, (7 << 20) - 9000),
                zone(0, "Device", 90 << 20, 1 << 20, 0),
                zone(1, "Normal", 8 << 20, 8 << 20, (8 << 20) - 500),
                zone(1, "Movable", 0, 0, 0),
            ],
            cpus: (0..96).collect(),
            node_cpus: vec![(0, "0-23,48-71".into()), (1, "24-47,72-95".into())],
            meminfo: MemInfo::parse("SwapTotal:  8388604 kB\nHugepagesize:  2048 kB\n"),
            partitions: "major minor  #blocks  name\n\n 259 0 1953514584 nvme0n1\n 7 0 9 loop0\n"
                .into(),
            ..ProcFiles::default()
        }
    }

    #[test]
    fn a_server_has_its_nodes_zones_cpus_and_swap() {
        let text = describe(&server(), "db 7").unwrap();
        let machine = machine_file::parse(&text, Scale::WHOLE).unwrap();
        assert_eq!(machine.name, "db-7");
        assert_eq!(machine.nodes(), 2);
        assert_eq!(machine.cpu_nodes.iter().filter(|node| **node == NodeId(1)).count(), 48);
        assert_eq!(machine.cpu_nodes.len(), 96);
        let managed: u64 = server().zones.iter().map(|zone| zone.managed).sum();
        assert!(machine.pages().abs_diff(managed) <= UNIT, "{} of {managed}", machine.pages());
        for id in 0..2 {
            let of: u64 = server().zones.iter().filter(|z| z.node == id).map(|z| z.managed).sum();
            assert!(machine.node_pages(id as u8).abs_diff(of) <= UNIT, "node {id}");
        }
        let kinds = machine.zones.iter().map(|zone| format!("{} {:?}", zone.node, zone.kind));
        assert_eq!(kinds.collect::<Vec<_>>(), ["0 Dma", "0 Dma32", "0 Normal", "1 Normal"]);
        assert_eq!(machine.swap_pages, 8191 * 256);
        assert_eq!(machine.disk.bytes, 1863 << 30);
        assert_eq!(machine.geometry.pageblock_order, 9);
        assert!(machine_file::parse(&text, Scale::parse("1/64").unwrap()).is_ok());
    }

    #[test]
    fn a_phone_has_one_zone_cma_and_zram() {
        let files = ProcFiles {
            zones: vec![zone(0, "DMA", 0x80000, 744_448, 698_142), zone(0, "Normal", 0, 0, 0)],
            cpus: (0..8).collect(),
            meminfo: MemInfo::parse(
                "MemTotal: 2792568 kB\nSwapTotal: 2097148 kB\nCmaTotal: 462848 kB\n",
            ),
            swaps: "Filename Type Size Used Priority\n/dev/block/zram0 partition 2097148 0 -2\n\
                    /dev/zram1 partition 4 0 -2\n"
                .into(),
            pagetypeinfo: PageTypeInfo { pageblock_order: Some(10), ..PageTypeInfo::default() },
            ..ProcFiles::default()
        };
        let text = describe(&files, "").unwrap();
        let machine = machine_file::parse(&text, Scale::WHOLE).unwrap();
        assert_eq!((machine.zones.len(), machine.geometry.pageblock_order), (1, 10));
        assert!(machine.zram && machine.name == "machine");
        assert_eq!(machine.cma.len(), 452 * 256);
    }

    #[test]
    fn arm_servers_lack_dma32_and_unknown_nodes_divide_the_cpus() {
        let mut files = server();
        files.zones = vec![
            zone(0, "DMA", 1 << 18, 3 << 18, 3 << 18),
            zone(4, "Normal", 2 << 20, 1 << 20, 1 << 20),
            // A node's memory between ranges of the last node.
            zone(6, "Normal", (2 << 20) + 4096, 1 << 18, 1 << 18),
        ];
        files.node_cpus.clear();
        files.cpus = (0..7).collect();
        let text = describe(&files, "arm").unwrap();
        assert!(text.contains("dma_end_mib = 8192\ndma32_end_mib = 0\n"), "{text}");
        assert!(text.contains("divided evenly"), "{text}");
        let machine = machine_file::parse(&text, Scale::WHOLE).unwrap();
        let cpus = |node| machine.cpu_nodes.iter().filter(|n| **n == node).count();
        assert_eq!([cpus(NodeId(0)), cpus(NodeId(1)), cpus(NodeId(2))], [3, 2, 2]);
        assert_eq!(machine.pages(), (3 << 18) + (1 << 20) + (1 << 18));
    }

    #[test]
    fn memory_that_no_zone_manages_is_no_larger_page() {
        let mut files = server();
        let managed: u64 = files.zones.iter().map(|zone| zone.managed).sum();
        for (pages, line) in [(8, "DirectMap4k: 26624 kB\n"), (8, ""), (4, "")] {
            let odd = if line.is_empty() { 4 } else { 0 };
            files.meminfo =
                MemInfo::parse(&format!("MemTotal: {} kB\n{line}", managed * pages + odd));
            let text = describe(&files, "x").unwrap();
            let said = text.contains(&format!("its zones manage {} MiB now", managed / 256));
            assert_eq!(said, pages > 4, "{text}");
        }
    }

    #[test]
    fn machines_that_cannot_be_simulated_are_refused() {
        let mut files = server();
        files.meminfo = MemInfo::parse("MemTotal: 1048576000 kB\n");
        let error = describe(&files, "x").unwrap_err().to_string();
        assert!(error.contains("64 KiB a page: only pages of 4 KiB"), "{error}");
        files = server();
        files.zones[4].start_pfn = Some(1 << 40);
        let error = describe(&files, "x").unwrap_err().to_string();
        assert!(error.contains("`memory_mib` is") && error.contains("1048576"), "{error}");
    }
}
