//! Machines as TOML: memory, CPUs, a disk.
//!
//! ```toml
//! name = "small"
//! slab = "slub"
//!
//! [[node]]
//! cpus = 8
//! memory_mib = [[0, 512], [1024, 1536]]
//!
//! [disk]
//! read_us = 90
//! read_places = 4
//! write_mib_s = 110
//! ```
//!
//! docs/machines.md has every key with its unit and default.

use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::ids::NodeId;
use pageblock::layout::{MemoryMap, NodeSpec, ZoneLimits, ZoneSpec};
use pageblock::zone::Geometry;
use pageblock_measure::value::setup::{DiskRecord, MachineRecord, NodeRecord};
use pageblock_vm::slab::SlabAllocator;

use super::MICROSECOND;
use super::cost::Cpu;
use super::disk::DiskSpec;
use super::fragment::Goal;
pub use super::scale::Scale;
use crate::toml_file::{self, Keys, Mistake};

/// The slab allocators by name.
const SLABS: [(&str, SlabAllocator); 2] =
    [("slub", SlabAllocator::Slub), ("slab", SlabAllocator::Slab)];
/// Pages of a MiB.
pub(super) const MIB: u64 = 256;
/// The maximum number of CPUs of a machine.
const CPUS_MAX: u64 = 1024;
/// The highest address of memory, in MiB. A simulated page takes 33 bytes: 8.6 GB for this much.
const MIB_MAX: u64 = 1 << 20;

/// Why a text does not describe a machine.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The text is not TOML, or has an unknown key or a wrong value.
    #[error("line {line}: {message}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A value is not possible.
    #[error("{key}: {message}")]
    Value {
        /// The key.
        key: &'static str,
        /// What is wrong, and what is allowed.
        message: String,
    },
    /// The scale is not a fraction of at most one.
    #[error("scale '{0}' is not a fraction from 1/1024 to 1, such as 1/8")]
    Scale(String),
}

/// The contents of a file, each value within its limits.
struct File {
    name: String,
    slab: (&'static str, SlabAllocator),
    cpu: Cpu,
    swap_mib: u64,
    zram: bool,
    pageblock_order: Order,
    cma_mib: u64,
    dma_end_mib: u64,
    dma32_end_mib: u64,
    nodes: Vec<NodeFile>,
    disk: DiskSpec,
    fragment: Option<Goal>,
}

struct NodeFile {
    cpus: u16,
    memory_mib: Vec<[u64; 2]>,
}

impl File {
    fn read(text: &str) -> Result<Self, Mistake> {
        let table = toml_file::parse(text)?;
        let mut keys = Keys::new(text, table.get_ref());
        let Geometry { max_order, pageblock_order, .. } = Geometry::default();
        let orders = 1..=u64::from(max_order);
        let order = keys.number("pageblock_order", orders, Some(pageblock_order.into()))?;
        let file = Self {
            name: keys.string("name")?,
            slab: SLABS[keys.choice("slab", &SLABS.map(|(name, _)| name))?],
            cpu: Cpu::ALL[keys.choice("cpu", &Cpu::ALL.map(Cpu::name))?],
            swap_mib: keys.number("swap_mib", 0..=MIB_MAX, Some(0))?,
            zram: keys.flag("zram")?,
            pageblock_order: order as Order,
            cma_mib: keys.number("cma_mib", 0..=MIB_MAX, Some(0))?,
            dma_end_mib: keys.number("dma_end_mib", 0..=MIB_MAX, Some(16))?,
            dma32_end_mib: keys.number("dma32_end_mib", 0..=MIB_MAX, Some(4096))?,
            nodes: nodes(&mut keys)?,
            disk: disk(&mut keys.table("disk", "[disk]")?)?,
            fragment: Goal::read(&mut keys)?,
        };
        keys.end()?;
        Ok(file)
    }
}

fn nodes(keys: &mut Keys<'_>) -> Result<Vec<NodeFile>, Mistake> {
    let node = |mut keys: Keys<'_>| {
        let cpus = keys.number("cpus", 0..=CPUS_MAX, None)? as u16;
        let memory_mib = keys.pairs("memory_mib", MIB_MAX)?;
        keys.end()?;
        Ok(NodeFile { cpus, memory_mib })
    };
    keys.tables("node", "[[node]]")?.into_iter().map(node).collect()
}

fn disk(keys: &mut Keys<'_>) -> Result<DiskSpec, Mistake> {
    let read_us = keys.number("read_us", 1..=1_000_000, None)?;
    let read_places = keys.number("read_places", 1..=1024, None)?;
    let write_mib_s = keys.number("write_mib_s", 1..=1 << 20, None)?;
    let size_gib = keys.number("size_gib", 1..=1 << 20, Some(1000))?;
    keys.end()?;
    Ok(DiskSpec {
        bytes: size_gib << 30,
        read_ns: read_us * MICROSECOND,
        read_places: read_places as usize,
        write_bytes_per_s: write_mib_s << 20,
        queue: 128,
    })
}

/// A machine that can be simulated.
#[derive(Clone, Debug)]
pub struct MachineSpec {
    /// The name, with the scale if it is not 1.
    pub name: String,
    /// Memory handed to the allocator, from low to high.
    pub memory: Vec<FrameRange>,
    /// The zones.
    pub zones: Vec<ZoneSpec>,
    /// The size of pageblocks.
    pub geometry: Geometry,
    /// The part at the end of memory that is set aside for contiguous buffers (CMA), in whole pageblocks.
    pub cma: FrameRange,
    /// The node of each CPU.
    pub cpu_nodes: Vec<NodeId>,
    /// What runs the instructions.
    pub cpu: Cpu,
    /// The slab allocator.
    pub slab: SlabAllocator,
    /// Swap space in pages.
    pub swap_pages: u32,
    /// Whether swap is compressed memory (zram).
    pub zram: bool,
    /// The disk.
    pub disk: DiskSpec,
    /// How memory is fragmented before the load begins.
    pub fragment: Option<Goal>,
    /// The ratio of this machine to the one in the file.
    pub scale: Scale,
    /// What the file says, with every default.
    pub record: MachineRecord,
}

fn value<T>(key: &'static str, message: impl Into<String>) -> Result<T, MachineError> {
    Err(MachineError::Value { key, message: message.into() })
}

/// Reads a machine and scales it.
///
/// # Errors
/// [`MachineError`] for a text that does not describe a machine, or for an impossible machine.
pub fn parse(text: &str, scale: Scale) -> Result<MachineSpec, MachineError> {
    let file = File::read(text)
        .map_err(|Mistake { line, message }| MachineError::Syntax { line, message })?;
    check(&file)?;
    let geometry = Geometry { pageblock_order: file.pageblock_order, ..Geometry::default() };
    let ranges: Vec<Vec<FrameRange>> = file
        .nodes
        .iter()
        .map(|node| {
            let range = |&[start, end]: &[u64; 2]| FrameRange {
                start: scale.frame(start),
                end: scale.frame(end),
            };
            node.memory_mib.iter().map(range).collect()
        })
        .collect();
    let nodes: Vec<NodeSpec<'_>> = (0..)
        .zip(file.nodes.iter().zip(&ranges))
        .map(|(id, (node, memory))| NodeSpec {
            id: NodeId(id),
            memory,
            reserved: &[],
            cpus: node.cpus,
            movable_start: None,
        })
        .collect();
    let end = |mib| (mib > 0).then(|| scale.frame(mib).max(Pfn(1024)));
    let limits = ZoneLimits {
        dma_end: end(file.dma_end_mib),
        dma32_end: end(file.dma32_end_mib),
        normal_end: None,
    };
    let map = MemoryMap { nodes: &nodes, distances: &[], limits };
    if let Err(error) = map.validate(geometry.max_order) {
        let at = if scale == Scale::WHOLE { String::new() } else { format!(" at scale {scale}") };
        return value("memory_mib", format!("{error}{at}"));
    }
    let cpu_nodes = (0..).zip(&file.nodes).flat_map(|(id, n)| (0..n.cpus).map(move |_| NodeId(id)));
    let mut memory: Vec<FrameRange> = ranges.iter().flatten().copied().collect();
    memory.sort_by_key(|range| range.start);
    let cma = cma(&memory, geometry, scale.of(file.cma_mib * MIB))?;
    Ok(MachineSpec {
        name: name(&file.name, scale),
        geometry,
        cma,
        zones: map.zones().collect(),
        cpu_nodes: cpu_nodes.collect(),
        cpu: file.cpu,
        slab: file.slab.1,
        swap_pages: u32::try_from(scale.of(file.swap_mib * MIB)).unwrap_or(u32::MAX),
        zram: file.zram,
        disk: file.disk,
        fragment: file.fragment,
        memory,
        scale,
        record: record(file),
    })
}

/// The machine at its full size, as a run keeps it.
fn record(file: File) -> MachineRecord {
    let node = |NodeFile { cpus, memory_mib }| NodeRecord { cpus: u64::from(cpus), memory_mib };
    MachineRecord {
        name: file.name,
        slab: file.slab.0.to_owned(),
        cpu: file.cpu.name().to_owned(),
        swap_mib: file.swap_mib,
        zram: file.zram,
        pageblock_order: file.pageblock_order.into(),
        cma_mib: file.cma_mib,
        dma_end_mib: file.dma_end_mib,
        dma32_end_mib: file.dma32_end_mib,
        node: file.nodes.into_iter().map(node).collect(),
        disk: DiskRecord {
            read_us: file.disk.read_ns / MICROSECOND,
            read_places: file.disk.read_places as u64,
            write_mib_s: file.disk.write_bytes_per_s >> 20,
            size_gib: file.disk.bytes >> 30,
        },
        fragment: file.fragment.as_ref().map(Goal::record),
    }
}

/// What no machine can be, whatever its scale.
fn check(file: &File) -> Result<(), MachineError> {
    let cpus: u64 = file.nodes.iter().map(|node| u64::from(node.cpus)).sum();
    if !(1..=CPUS_MAX).contains(&cpus) {
        return value("cpus", format!("{cpus} CPUs: 1 to {CPUS_MAX} are possible"));
    }
    match file.nodes.iter().position(|node| node.memory_mib.is_empty()) {
        Some(id) if file.nodes.len() > 1 => value("memory_mib", format!("node {id} has no memory")),
        _ => Ok(()),
    }
}

/// Returns this many pages at the end of memory, rounded to whole pageblocks.
fn cma(memory: &[FrameRange], geometry: Geometry, wanted: u64) -> Result<FrameRange, MachineError> {
    let end = memory.last().map_or(Pfn(0), |range| range.end);
    let start = Pfn(end.0.saturating_sub(wanted)).align_up(geometry.pageblock_order);
    let fits = memory.last().is_some_and(|range| start >= range.start);
    if wanted > 0 && !fits {
        return value("cma_mib", "it must fit in the last range of memory");
    }
    Ok(FrameRange { start: start.min(end), end })
}

fn name(name: &str, scale: Scale) -> String {
    if scale == Scale::WHOLE { name.to_owned() } else { format!("{name} at {scale}") }
}

impl MachineSpec {
    /// Returns the same machine with other CPUs.
    #[must_use]
    pub fn with_cpu(self, cpu: Cpu) -> Self {
        Self { cpu, record: MachineRecord { cpu: cpu.name().to_owned(), ..self.record }, ..self }
    }

    /// Returns the same machine with memory that is fragmented before the load begins.
    #[must_use]
    pub fn with_fragment(self, goal: Goal) -> Self {
        let record = MachineRecord { fragment: Some(goal.record()), ..self.record };
        Self { fragment: Some(goal), record, ..self }
    }

    /// Returns the memory handed to the allocator, in pages.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.memory.iter().map(|r| r.len()).sum()
    }

    /// Returns the memory of a node, in pages.
    #[must_use]
    pub fn node_pages(&self, node: u8) -> u64 {
        self.zones.iter().filter(|z| z.node == NodeId(node)).map(|z| z.managed).sum()
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        let mut nodes: Vec<_> = self.zones.iter().map(|zone| zone.node).collect();
        nodes.dedup();
        nodes.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "name = \"m\"\n[[node]]\ncpus = 8\nmemory_mib = [[0, 512], [4096, 8192]]\n\
        [disk]\nread_us = 90\nread_places = 4\nwrite_mib_s = 110\n";

    #[test]
    fn zones_shrink_with_the_machine() {
        let whole = parse(GOOD, Scale::WHOLE).unwrap();
        assert_eq!(whole.pages(), (512 + 4096) * MIB);
        let eighth = parse(GOOD, Scale::parse("1/8").unwrap()).unwrap();
        assert_eq!(eighth.pages(), whole.pages() / 8);
        let kinds = |m: &MachineSpec| m.zones.iter().map(|z| z.kind).collect::<Vec<_>>();
        assert_eq!(kinds(&whole), kinds(&eighth));
        assert_eq!(eighth.name, "m at 1/8");
    }

    #[track_caller]
    fn check(from: &str, to: &str, expect: &str) {
        let text = GOOD.replace(from, to);
        assert_ne!(text, GOOD);
        let error = parse(&text, Scale::WHOLE).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }

    #[test]
    fn cma_is_whole_pageblocks_at_the_end() {
        let text = GOOD
            .replace("[disk]", "[disk]\n")
            .replace("name = \"m\"", "name = \"m\"\npageblock_order = 10\ncma_mib = 99");
        let machine = parse(&text, Scale::WHOLE).unwrap();
        assert_eq!((machine.geometry.pageblock_order, machine.geometry.max_order), (10, 10));
        assert_eq!(machine.cma, FrameRange::new((8192 - 96) * MIB, 8192 * MIB));
        assert!(parse(GOOD, Scale::WHOLE).unwrap().cma.is_empty());
    }

    #[test]
    fn a_zone_that_ends_at_0_does_not_exist() {
        let text = |dma, dma32| {
            GOOD.replace(
                "[[node]]",
                &format!("dma_end_mib = {dma}\ndma32_end_mib = {dma32}\n[[node]]"),
            )
        };
        let zones = |text: &str| parse(text, Scale::WHOLE).unwrap().zones.len();
        assert_eq!([zones(&text(16, 4096)), zones(&text(0, 4096)), zones(&text(0, 0))], [3, 2, 1]);
    }

    #[test]
    fn errors_name_the_key_and_what_is_allowed() {
        check("cpus = 8", "cpus = 0", "cpus: 0 CPUs: 1 to 1024");
        let huge = "cpus = 9223372036854775807";
        check(
            "cpus = 8",
            huge,
            "line 3: `cpus` is 9223372036854775807; allowed: a whole number from 0 to 1024",
        );
        let two = "[[node]]\ncpus = 1024\nmemory_mib = [[512, 600]]\n";
        check("[disk]", &[two, two, two, "[disk]"].concat(), "cpus: 3080 CPUs: 1 to 1024");
        let with = |line: &str| format!("name = \"m\"\n{line}");
        check(
            "name = \"m\"",
            &with("pageblock_order = 11"),
            "line 2: `pageblock_order` is 11; allowed: a whole number from 1 to 10",
        );
        check("name = \"m\"", &with("cma_mib = 5000"), "cma_mib: it must fit in the last range");
        let none = "[[node]]\ncpus = 1\nmemory_mib = []\n[disk]";
        check("[disk]", none, "memory_mib: node 1 has no memory");
        check(
            "8192]]",
            "99999999999]]",
            "line 4: `memory_mib` is [4096, 99999999999]; allowed: a list of pairs [START, END] of whole numbers from 0 to 1048576",
        );
        check(
            "[disk]",
            "swap_mib = 1",
            "line 5: unknown key `swap_mib` of [[node]]; allowed: cpus, memory_mib",
        );
        check(
            "name = \"m\"",
            "name = \"m\"\nswap_mib = 9999999",
            "line 2: `swap_mib` is 9999999; allowed: a whole number from 0 to 1048576",
        );
        check("cpus = 8", "cpu = 8", "line 2: `cpus` is missing in [[node]]");
        check(
            "[4096, 8192]",
            "[256, 8192]",
            "memory_mib: ranges 0..131072 and 65536..2097152 overlap",
        );
        check("[[0, 512], [4096, 8192]]", "[]", "memory_mib: the machine has no memory");
    }

    #[test]
    fn errors_name_the_line_and_the_value() {
        check(
            "write_mib_s = 110",
            "write_mib_s = 0",
            "line 8: `write_mib_s` is 0; allowed: a whole number from 1 to 1048576",
        );
        check(
            "write_mib_s = 110",
            "write_mib_s = 110\nsize_gib = 0",
            "line 9: `size_gib` is 0; allowed: a whole number from 1 to 1048576",
        );
        check(
            "read_us = 90",
            "read_us = \"x\"",
            "line 6: `read_us` is \"x\"; allowed: a whole number from 1 to 1000000",
        );
        check(
            "cpus = 8",
            "cpus = 8\ncpu = 8",
            "line 4: unknown key `cpu` of [[node]]; allowed: cpus, memory_mib",
        );
        check(
            "cpus = 8",
            "cpus = nan",
            "line 3: `cpus` is nan; allowed: a whole number from 0 to 1024",
        );
        check(
            "name = \"m\"",
            "name = \"m\"\nslab = \"slob\"",
            "line 2: `slab` is \"slob\"; allowed: \"slub\" or \"slab\"",
        );
        check("name = \"m\"", "name = 7", "line 1: `name` is 7; allowed: a text in quotes");
        check(
            "name = \"m\"",
            "name = \"m\"\nzram = 1",
            "line 2: `zram` is 1; allowed: true or false",
        );
        check("[disk]\n", "[disc]\n", "line 1: `[disk]` is missing");
        check("[4096, 8192]", "[4096]", "line 4: `memory_mib` is [4096]; allowed: a list of pairs");
        check("[[node]]", "[node]", "line 2: `node` is [node]; allowed: tables [[node]]");
        let small = parse(GOOD, Scale::parse("1/1024").unwrap()).unwrap_err().to_string();
        assert_eq!(small, "memory_mib: node 0: range 0..0 is empty at scale 1/1024");
        for scale in ["2", "0", "1/0", "x", "1/9999"] {
            assert!(Scale::parse(scale).is_err(), "{scale}");
        }
    }
}
