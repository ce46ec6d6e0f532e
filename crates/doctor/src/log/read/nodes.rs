//! Memory by NUMA node, as pasted: `/sys/devices/system/node/node*/meminfo`, `numastat -m`, `numactl -H`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::state::{MOST_KB, at_most};

/// The memory of a node in kB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct NodeMemory {
    /// The node.
    pub node: u32,
    /// Its memory.
    pub total_kb: u64,
    /// Its free memory.
    pub free_kb: u64,
}

/// The largest number of nodes and of fields of each that are kept.
const NODES: usize = 64;
const FIELDS: usize = 64;

/// Reads it.
#[derive(Default)]
pub(super) struct Nodes {
    /// The fields of each node in kB.
    fields: BTreeMap<u32, BTreeMap<String, u64>>,
    /// The nodes of a table's columns.
    columns: Vec<u32>,
}

impl Nodes {
    /// Reads a line. Returns whether it is about a node.
    pub(super) fn push(&mut self, text: &str) -> bool {
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_node = |word: &&str| matches!(word.rsplit(':').next(), Some("Node" | "node"));
        let Some(at) = words.iter().position(is_node) else { return self.row(&words) };
        match words[at + 1..] {
            [node, key, number, ..] if key.ends_with(':') => {
                let unit = match words.get(at + 4) {
                    Some(&"MB") => 1 << 10,
                    Some(&"kB") => 1,
                    // A count.
                    None if key.starts_with("HugePages_") => 1,
                    _ => return false,
                };
                let kb = at_most(number, MOST_KB).map(|number| number.saturating_mul(unit));
                let Some((node, kb)) = node.parse().ok().zip(kb) else { return false };
                self.add(node, key.trim_end_matches(':'), kb.min(MOST_KB));
                true
            }
            _ => {
                self.columns = columns(&words[at..]);
                !self.columns.is_empty()
            }
        }
    }

    /// Reads a row of `numastat -m`: sizes in MB, a column for each node, and one for all.
    fn row(&mut self, words: &[&str]) -> bool {
        let Some((key, sizes)) = words.split_first().filter(|_| !self.columns.is_empty()) else {
            return false;
        };
        let is_size = |word: &&str| {
            word.contains('.') && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        };
        if sizes.len() < self.columns.len() || !sizes.iter().all(is_size) {
            // A line of dashes follows the head.
            self.columns.retain(|_| words.iter().all(|word| word.starts_with('-')));
            return false;
        }
        for (node, size) in self.columns.clone().into_iter().zip(sizes) {
            let mib = size.split('.').next().and_then(|mib| at_most(mib, MOST_KB >> 10));
            // Here they are a size.
            let key = if *key == "HugePages_Total" { "Hugetlb" } else { key };
            mib.into_iter().for_each(|mib| self.add(node, key, mib << 10));
        }
        true
    }

    fn add(&mut self, node: u32, key: &str, kb: u64) {
        let key = match key {
            "size" => "MemTotal",
            "free" => "MemFree",
            "FilePages" => "Cached",
            key => key,
        };
        if self.fields.len() >= NODES && !self.fields.contains_key(&node) {
            return;
        }
        let fields = self.fields.entry(node).or_default();
        if fields.len() < FIELDS {
            fields.insert(key.to_owned(), kb);
        }
    }

    /// Returns the memory of each node, and adds fields that the whole machine has not.
    pub(super) fn finish(self, all: &mut BTreeMap<String, u64>) -> Vec<NodeMemory> {
        let is_new = !all.contains_key("MemTotal");
        for (key, kb) in self.fields.values().flatten().filter(|_| is_new) {
            let sum = all.entry(key.clone()).or_default();
            *sum = sum.saturating_add(*kb).min(MOST_KB);
        }
        let memory = |(node, fields): (u32, BTreeMap<String, u64>)| {
            let of = |key: &str| fields.get(key).copied();
            Some(NodeMemory { node, total_kb: of("MemTotal")?, free_kb: of("MemFree")? })
        };
        self.fields.into_iter().filter_map(memory).collect()
    }
}

/// Returns the nodes of the head of a table: `Node 0  Node 1  Total`.
fn columns(words: &[&str]) -> Vec<u32> {
    let pair = |pair: &[&str]| match pair {
        ["Node", node] => node.parse().ok(),
        _ => None,
    };
    let words = words.strip_suffix(&["Total"]).unwrap_or(words);
    words.chunks(2).map(pair).collect::<Option<Vec<u32>>>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Vec<NodeMemory>, BTreeMap<String, u64>) {
        let (mut nodes, mut all) = (Nodes::default(), BTreeMap::new());
        for line in text.lines() {
            nodes.push(line);
        }
        (nodes.finish(&mut all), all)
    }

    #[test]
    fn memory_by_node_is_read_from_every_form() {
        let expected = [
            NodeMemory { node: 0, total_kb: 4 << 10, free_kb: 1 << 10 },
            NodeMemory { node: 1, total_kb: 8 << 10, free_kb: 7 << 10 },
        ];
        for text in [
            "/sys/devices/system/node/node0/meminfo:Node 0 MemTotal: 4096 kB\nNode 0 MemFree: 1024 kB\nNode 0 AnonPages: 5 kB\n\
             Node 1 MemTotal: 8192 kB\nNode 1 MemFree: 7168 kB\nNode 1 AnonPages: 6 kB\nNode 1 HugePages_Total:  3\n",
            "Per-node system memory usage (in MBs):\n      Node 0    Node 1    Total\n   ------- ------- -------\n\
             MemTotal   4.00   8.00  12.00\nMemFree   1.50  7.00  8.50\n",
            "node 0 cpus: 0 1\nnode 0 size: 4 MB\nnode 0 free: 1 MB\nnode 1 size: 8 MB\nnode 1 free: 7 MB\n",
        ] {
            let (nodes, all) = read(text);
            assert_eq!(nodes, expected, "{text}");
            assert_eq!(all.get("MemTotal"), Some(&(12 << 10)));
            assert!(all.get("AnonPages").is_none_or(|kb| *kb == 11));
        }
        for text in ["Node 0, zone Normal 1 2 3", "Node 0 Normal free:8kB", "node 3 is down"] {
            assert_eq!(read(text), (vec![], BTreeMap::new()), "{text}");
        }
    }
}
