//! The guest's hardware: as much memory as the simulated machine has, and what the kernel itself takes.

use pageblock::ids::NodeId;
use pageblock::layout::ZoneKind;
use pageblock_simulate::sim::machine_file::MachineSpec;

/// Pages of a MiB.
pub(crate) const MIB: u64 = 256;
/// What a kernel's image and its first file system take of low memory in MiB, before a boot shows it.
const KERNEL_MIB: u64 = 72;
/// What a kernel with memory above 4 GiB takes besides, for bounce buffers, in MiB.
const BOUNCE_MIB: u64 = 64;
/// What the kernel's table of pages takes: 64 bytes for each 4 KiB, in thousandths.
const TABLE_PERMILLE: u64 = 16;

/// A guest's hardware.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hardware {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Memory below 4 GiB in MiB.
    pub low_mib: u64,
    /// Swap in MiB.
    pub swap_mib: u64,
}

/// A node of a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Node {
    /// Its CPUs.
    pub cpus: u64,
    /// Its memory in MiB.
    pub memory_mib: u64,
}

impl Hardware {
    /// Returns the hardware on which most kernels have about as much memory to give as the simulated machine.
    #[must_use]
    pub fn of(machine: &MachineSpec) -> Self {
        let with_table = |pages: u64| pages.div_ceil(MIB) * (1000 + TABLE_PERMILLE) / 1000;
        let pages_of = |node: NodeId, low: bool| {
            let zones = machine.zones.iter().filter(|zone| {
                zone.node == node && low == matches!(zone.kind, ZoneKind::Dma | ZoneKind::Dma32)
            });
            zones.map(|zone| zone.managed).sum::<u64>()
        };
        let first = NodeId(0);
        let high = machine.zones.iter().any(|zone| zone.kind == ZoneKind::Normal);
        let bounce = if high { BOUNCE_MIB } else { 0 };
        let all = || (0..machine.nodes()).map(|node| NodeId(node as u8));
        let nodes = all().map(|node| {
            let kernel = if node == first { KERNEL_MIB + bounce } else { 0 };
            let memory = with_table(pages_of(node, true)) + with_table(pages_of(node, false));
            Node {
                cpus: machine.cpu_nodes.iter().filter(|&&of| of == node).count() as u64,
                memory_mib: memory + kernel,
            }
        });
        Self {
            nodes: nodes.collect(),
            low_mib: all().map(|node| with_table(pages_of(node, true))).sum::<u64>() + KERNEL_MIB,
            swap_mib: u64::from(machine.swap_pages).div_ceil(MIB),
        }
    }

    /// Returns hardware that has so many pages more to give, or fewer. The first node's low memory gets the difference.
    #[must_use]
    pub fn with_more(mut self, pages: i64) -> Self {
        let mib = pages * (1000 + TABLE_PERMILLE as i64) / (1000 * MIB as i64);
        let plus = |memory: u64| memory.saturating_add_signed(mib);
        self.low_mib = plus(self.low_mib);
        if let Some(node) = self.nodes.first_mut() {
            node.memory_mib = plus(node.memory_mib);
        }
        self
    }

    /// Returns the memory of all nodes in MiB.
    #[must_use]
    pub fn memory_mib(&self) -> u64 {
        self.nodes.iter().map(|node| node.memory_mib).sum()
    }

    /// Returns the CPUs of all nodes.
    #[must_use]
    pub fn cpus(&self) -> u64 {
        self.nodes.iter().map(|node| node.cpus).sum()
    }
}

#[cfg(test)]
mod tests {
    use pageblock_simulate::sim::machine_file::{self, Scale};

    use super::*;

    #[test]
    fn memory_below_4_gib_is_that_of_all_nodes() {
        let text = "name = \"two\"\nslab = \"slub\"\n[[node]]\ncpus = 2\nmemory_mib = [[0, 640]]\n\
            [[node]]\ncpus = 2\nmemory_mib = [[640, 1280]]\n\
            [disk]\nread_us = 90\nread_places = 4\nwrite_mib_s = 110\n";
        let hardware = Hardware::of(&machine_file::parse(text, Scale::WHOLE).unwrap());
        assert_eq!(hardware.low_mib, hardware.memory_mib());
        assert_eq!(hardware.nodes.iter().map(|node| node.cpus).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn pages_to_give_come_with_their_table() {
        let text = include_str!("../../../machines/weiner-1g8.toml");
        let before = Hardware::of(&machine_file::parse(text, Scale::WHOLE).unwrap());
        for (pages, mib) in [(0, 0), (2560, 10), (-25_600, -101)] {
            let after = before.clone().with_more(pages);
            let more = after.memory_mib() as i64 - before.memory_mib() as i64;
            assert_eq!((more, after.low_mib as i64 - before.low_mib as i64), (mib, mib));
        }
    }
}
