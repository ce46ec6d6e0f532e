//! What a simulation ran on, whole: with a run's kernel, workload and seed it is all that the run was computed from.

use serde::{Deserialize, Serialize};

/// The machine of a simulation, as a run keeps it, so that the run can be repeated and compared without the machine's
/// file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SetupRecord {
    /// The number of this layout: a reader of another number does not know what it lacks.
    pub layout: u32,
    /// The version of the program that made the run.
    pub program: String,
    /// How much of the machine was simulated, `1/64`.
    pub scale: String,
    /// The machine at its full size.
    pub machine: MachineRecord,
}

impl SetupRecord {
    /// The layout that is written.
    pub const LAYOUT: u32 = 1;
}

/// A machine with the keys of its TOML (docs/machines.md), none left to a default.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct MachineRecord {
    /// Its name.
    pub name: String,
    /// The slab allocator, `slub` or `slab`.
    pub slab: String,
    /// What runs the instructions, `2018` or `emulated`.
    #[serde(default = "year_2018")]
    pub cpu: String,
    /// Swap space in MiB.
    pub swap_mib: u64,
    /// Swap is in memory, compressed.
    pub zram: bool,
    /// The order of a pageblock.
    pub pageblock_order: u64,
    /// The size of CMA in MiB.
    pub cma_mib: u64,
    /// The end of zone DMA in MiB; 0 where there is none.
    pub dma_end_mib: u64,
    /// The end of zone DMA32 in MiB; 0 where there is none.
    pub dma32_end_mib: u64,
    /// The nodes.
    pub node: Vec<NodeRecord>,
    /// The disk.
    pub disk: DiskRecord,
    /// How memory is fragmented before the load begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fragment: Option<FragmentRecord>,
}

/// A state of fragmentation, in shares such as `30%`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FragmentRecord {
    /// The free share of memory.
    pub free: String,
    /// The share of pageblocks with a page that does not move.
    pub unmovable: String,
    /// The share of free memory in blocks below a pageblock.
    pub spread: String,
}

/// What ran the instructions of machines that were written without.
fn year_2018() -> String {
    "2018".to_owned()
}

/// A node of a machine.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The number of its CPUs.
    pub cpus: u64,
    /// The start and end of each of its ranges of memory in MiB.
    pub memory_mib: Vec<[u64; 2]>,
}

/// The disk of a machine.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DiskRecord {
    /// The time of a read in microseconds.
    pub read_us: u64,
    /// The number of reads at a time.
    pub read_places: u64,
    /// The rate of writes in MiB/s.
    pub write_mib_s: u64,
    /// The size in GiB.
    pub size_gib: u64,
}

impl MachineRecord {
    /// Returns the keys of the TOML whose values differ from another machine's.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        [
            ("name", self.name != other.name),
            ("slab", self.slab != other.slab),
            ("cpu", self.cpu != other.cpu),
            ("swap_mib", self.swap_mib != other.swap_mib),
            ("zram", self.zram != other.zram),
            ("pageblock_order", self.pageblock_order != other.pageblock_order),
            ("cma_mib", self.cma_mib != other.cma_mib),
            ("dma_end_mib", self.dma_end_mib != other.dma_end_mib),
            ("dma32_end_mib", self.dma32_end_mib != other.dma32_end_mib),
            ("[[node]]", self.node != other.node),
            ("[disk]", self.disk != other.disk),
            ("[fragment]", self.fragment != other.fragment),
        ]
        .into_iter()
        .filter_map(|(key, differs)| differs.then_some(key))
        .collect()
    }
}
