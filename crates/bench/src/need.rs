//! The memory that `pageblock bench native` needs, and the memory that it may use. Some allocators abort the
//! process if the system refuses them memory, so this is checked first.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use pageblock_recording::MemInfo;
use rustix::process::{Resource, getrlimit};

use crate::native::{PRODUCER_CONSUMER, Plan, REALLOCATE, TOGETHER, TURN_OVER};
use crate::pattern::Pattern;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} GiB", self.0 as f64 / GIB as f64)
    }
}

const GIB: u64 = 1 << 30;
/// The alignment of a pool of `frame-alloc`: the largest block.
const POOL_ALIGN: u64 = 4 << 20;
/// Address space that mimalloc and the C library reserve in advance, including their arenas for two threads.
const RESERVED_AHEAD: u64 = 5 * GIB / 2;
/// Bytes of an instance's tables per frame: 10 for this allocator, including the list of held blocks.
const TABLE_BYTES: u64 = 20;
/// Memory of a process that manages almost none.
const BASE: u64 = 64 << 20;

/// The most that a plan needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Need {
    /// Address space.
    pub address_space: Bytes,
    /// Memory that is touched.
    pub memory: Bytes,
}

impl Need {
    /// Returns the needs of a plan. Instances are leaked, so each case adds to them; the system's allocators
    /// hold every block and write a header beside it.
    #[must_use]
    pub fn of(plan: &Plan) -> Self {
        let (mut pools, mut tables, mut held) = (0, 0, 0);
        for (at, &frames) in plan.frames.iter().enumerate() {
            let (instances, peers) = plan.instances();
            tables += instances * frames * TABLE_BYTES;
            if at == 0 {
                pools = peers * (frames * 4096 + POOL_ALIGN);
                // A block of one page takes two with its header; for larger blocks the header's page is added.
                let orders = plan.orders.iter().map(|&order| frames * 4096 / (1 << order.min(9)));
                held = if plan.holds_blocks() { 2 * orders.sum::<u64>() } else { 0 };
            }
        }
        let memory = BASE + tables + held;
        let reserved = if pools > 0 { RESERVED_AHEAD } else { 0 };
        Self { address_space: Bytes(memory + pools + reserved), memory: Bytes(memory) }
    }
}

impl Plan {
    /// Returns the number of instances of this allocator for a memory size, and of `frame-alloc`.
    fn instances(&self) -> (u64, u64) {
        let has = |key: &str| u64::from(self.has(key));
        let count = |patterns: &[Pattern]| patterns.iter().map(|pattern| has(pattern.key())).sum();
        let (alone, together): (u64, u64) = (count(&Pattern::ALL), count(&TOGETHER));
        let cases = (alone + together + has(PRODUCER_CONSUMER)) * self.orders.len() as u64;
        let own = 4 * cases + 4 * has(TURN_OVER) + 2 * has(REALLOCATE);
        (own, cases + 2 * has(TURN_OVER) + has(REALLOCATE))
    }

    /// Reports whether a pattern holds most of memory at a time, also with the system's allocators.
    fn holds_blocks(&self) -> bool {
        let few = [Pattern::WarmPairs, Pattern::Fail];
        Pattern::ALL.iter().any(|pattern| !few.contains(pattern) && self.has(pattern.key()))
    }
}

/// A limit, and its source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Limit {
    /// The limit in bytes.
    pub bytes: Bytes,
    /// The source.
    pub by: &'static str,
}

/// Returns the limit of address space, if there is one.
#[must_use]
pub fn address_space_limit() -> Option<Limit> {
    let limit = |resource, by| {
        let bytes = Bytes(getrlimit(resource).current?);
        Some(Limit { bytes, by })
    };
    let limits = [limit(Resource::As, "ulimit -v"), limit(Resource::Data, "ulimit -d")];
    limits.into_iter().flatten().min()
}

/// Returns the amount of memory that can be touched: the control group's limit or the machine's free memory,
/// whichever is lower.
#[must_use]
pub fn memory_limit() -> Option<Limit> {
    let free = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    let free = free.map(|bytes| Limit { bytes, by: "MemAvailable" });
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = group_limit(Path::new("/sys/fs/cgroup"), &groups);
    group
        .map(|bytes| Limit { bytes, by: "the control group's limit" })
        .into_iter()
        .chain(free)
        .min()
}

fn available(meminfo: &str) -> Option<Bytes> {
    MemInfo::parse(meminfo).get("MemAvailable").map(|kb| Bytes(kb << 10))
}

/// Returns the smallest limit from a process's control group up to the root, of version 2 (`0::/path`) or 1
/// (`9:memory:/path`).
fn group_limit(root: &Path, groups: &str) -> Option<Bytes> {
    let limit = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        let (root, file): (PathBuf, _) = if controllers.is_empty() {
            (root.to_owned(), "memory.max")
        } else if controllers.split(',').any(|controller| controller == "memory") {
            (root.join("memory"), "memory.limit_in_bytes")
        } else {
            return None;
        };
        let group = root.join(path);
        let above = group.ancestors().take_while(|folder| folder.starts_with(&root));
        let read = |folder: &Path| fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok();
        above.filter_map(read).min().map(Bytes)
    };
    groups.lines().filter_map(limit).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(gib: u64, orders: &[u8], patterns: &[&str]) -> Plan {
        let patterns = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        Plan { orders: orders.to_vec(), frames: vec![gib << 18], rounds: 1, patterns }
    }

    #[test]
    fn need_grows_with_memory_orders_and_patterns() {
        let small = Need::of(&plan(1, &[9], &["pair"]));
        assert!(small.address_space > Bytes(2 * GIB) && small.memory < Bytes(GIB / 4), "{small:?}");
        for larger in [
            plan(8, &[9], &["pair"]),
            plan(1, &[0, 9], &["pair"]),
            plan(1, &[9], &["pair", "steady_90"]),
        ] {
            let need = Need::of(&larger);
            assert!(need.address_space > small.address_space && need.memory > small.memory);
        }
        let other_sizes = Plan { frames: vec![1 << 18, 1 << 20], ..plan(1, &[9], &["pair"]) };
        let more = Need::of(&other_sizes).memory.0 - small.memory.0;
        assert!(more < GIB / 2, "other allocators run on the first size only: {more}");
    }

    #[test]
    fn the_smallest_limit_up_to_the_root_counts() {
        let root = std::env::temp_dir().join(format!("pageblock-cgroup-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b/c")).unwrap();
        fs::create_dir_all(root.join("memory/a")).unwrap();
        fs::write(root.join("a/memory.max"), "4294967296\n").unwrap();
        fs::write(root.join("a/b/memory.max"), "max\n").unwrap();
        fs::write(root.join("memory/a/memory.limit_in_bytes"), "1048576\n").unwrap();
        assert_eq!(group_limit(&root, "0::/a/b/c\n"), Some(Bytes(4 << 30)));
        assert_eq!(
            group_limit(&root, "4:cpu,cpuacct:/a\n9:memory:/a\n0::/x\n"),
            Some(Bytes(1 << 20))
        );
        assert_eq!(group_limit(&root, "0::/\n"), None);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn free_memory_is_read() {
        assert_eq!(available("MemTotal: 8 kB\nMemAvailable:   2048 kB\n"), Some(Bytes(2 << 20)));
        assert_eq!(available(""), None);
    }
}
