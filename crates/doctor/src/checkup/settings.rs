//! Settings of a machine: sysctls, huge pages, and the tasks that manage or monitor memory.

use std::collections::BTreeMap;

use pageblock_recording::MemInfo;
use serde::Serialize;

use crate::proc::tree::Tree;

/// Transparent huge pages.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct HugePages {
    /// `enabled`: `always`, `madvise` or `never`.
    pub enabled: Option<String>,
    /// `defrag`.
    pub defrag: Option<String>,
    /// The sizes of folios (`hugepages-*kB`), from 6.8.
    pub sizes: Vec<FolioSize>,
}

/// A size of large folios.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct FolioSize {
    /// The size.
    pub kb: u64,
    /// `enabled`.
    pub enabled: Option<String>,
    /// The counters of `stats`, from 6.10.
    #[serde(skip)]
    pub stats: BTreeMap<String, u64>,
}

const THP: &str = "/sys/kernel/mm/transparent_hugepage";

/// Returns the choice in brackets: `always [madvise] never`.
fn chosen(text: &str) -> String {
    let inner = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or(text, |(inner, _)| inner).trim().to_owned()
}

impl HugePages {
    /// Returns the choice of a setting of transparent huge pages, such as `defrag`; `None` if it was not read.
    #[must_use]
    pub fn choice(tree: &Tree, name: &str) -> Option<String> {
        tree.setting(&format!("{THP}/{name}")).map(|text| chosen(&text))
    }

    pub(super) fn read(tree: &Tree) -> Self {
        let choice = |name: &str| Self::choice(tree, name);
        let size = |folder: String| {
            let kb = folder.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let stats = format!("{THP}/{folder}/stats");
            let stat = |name: String| {
                let value: u64 = tree.setting(&format!("{stats}/{name}"))?.parse().ok()?;
                Some((name, value.min(1 << 54)))
            };
            Some(FolioSize {
                kb,
                enabled: choice(&format!("{folder}/enabled")),
                stats: tree.names(&stats).into_iter().filter_map(stat).collect(),
            })
        };
        let mut sizes: Vec<FolioSize> = tree.names(THP).into_iter().filter_map(size).collect();
        sizes.sort_by_key(|size| size.kb);
        Self { enabled: choice("enabled"), defrag: choice("defrag"), sizes }
    }
}

/// hugetlb pages of the default size.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Hugetlb {
    /// The number of pages.
    pub total: Option<u64>,
    /// The size in kB.
    pub kb: Option<u64>,
    /// The number that a configuration requests.
    pub wanted: Option<u64>,
    /// The configuration that requests them.
    pub wanted_by: Option<String>,
}

impl Hugetlb {
    pub(super) fn read(tree: &Tree, meminfo: &MemInfo) -> Self {
        let (total, kb) = ("HugePages_Total", "Hugepagesize");
        let mut found = Self { total: meminfo.get(total), kb: meminfo.get(kb), ..Self::default() };
        if let Some(line) = tree.setting("/proc/cmdline")
            // `hugepages=` after `hugepagesz=` counts pages of that size.
            && !line.contains("hugepagesz=")
            && let Some(wanted) = line.split_whitespace().find_map(|word| word.strip_prefix("hugepages="))
        {
            found.want(wanted, "/proc/cmdline");
        }
        let folder = "/etc/sysctl.d";
        let files = tree.names(folder).into_iter().map(|name| format!("{folder}/{name}"));
        for file in files.chain(["/etc/sysctl.conf".to_owned()]) {
            for line in tree.read(&file).unwrap_or_default().lines() {
                if let Some((key, value)) = line.split_once('=')
                    && matches!(key.trim(), "vm.nr_hugepages" | "vm/nr_hugepages")
                {
                    found.want(value.trim(), &file);
                }
            }
        }
        found
    }

    fn want(&mut self, number: &str, file: &str) {
        if let Ok(number) = number.parse() {
            (self.wanted, self.wanted_by) = (Some(number), Some(file.to_owned()));
        }
    }
}

/// Returns the sysctls of `vm`, from the files or from the output of `sysctl -a`.
pub(super) fn sysctls(tree: &Tree) -> BTreeMap<String, String> {
    let folder = "/proc/sys/vm";
    let names = tree.names(folder);
    if !names.is_empty() {
        // Some sysctls are write-only.
        let value = |name: &String| tree.setting(&format!("{folder}/{name}")).unwrap_or_default();
        return names.iter().map(|name| (name.clone(), value(name))).collect();
    }
    let printed = tree.read("/sos_commands/kernel/sysctl_-a").unwrap_or_default();
    let pair = |line: &str| {
        let (key, value) = line.split_once('=')?;
        Some((key.trim().strip_prefix("vm.")?.to_owned(), value.trim().to_owned()))
    };
    printed.lines().filter_map(pair).collect()
}

/// Ticks per second in `/proc/PID/stat` (`USER_HZ`).
const TICKS: f64 = 100.0;

/// Finds the kernel's threads for memory, and node_exporter.
pub(super) fn tasks(
    tree: &Tree,
    daemons: &mut BTreeMap<String, f64>,
    exporter: &mut Option<String>,
) {
    for pid in tree.names("/proc") {
        if !pid.starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        // A task may exit in between.
        let Some(stat) = tree.setting(&format!("/proc/{pid}/stat")) else { continue };
        let Some((head, rest)) = stat.rsplit_once(')') else { continue };
        let name = head.split_once('(').map_or("", |(_, name)| name);
        if ["kswapd", "kcompactd", "khugepaged"].iter().any(|daemon| name.starts_with(daemon)) {
            let ticks = |field: usize| rest.split_whitespace().nth(field)?.parse::<f64>().ok();
            let used = ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0);
            daemons.insert(name.to_owned(), used / TICKS);
        } else if name.starts_with("node_exporter") {
            let line = tree.setting(&format!("/proc/{pid}/cmdline")).unwrap_or_default();
            *exporter = Some(line.replace('\0', " ").trim().to_owned());
        }
    }
}
