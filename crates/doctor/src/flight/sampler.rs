//! Reads the files of a sample, each at its own interval.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::frame::FileText;
use crate::proc::open_regular;

/// Read for every sample.
const OFTEN: [&str; 6] = [
    "/proc/uptime",
    "/proc/vmstat",
    "/proc/buddyinfo",
    "/proc/zoneinfo",
    "/proc/meminfo",
    "/proc/pressure/memory",
];
/// Read once a minute: files that take the allocator's locks or walk all memory, and files that rarely change.
const SELDOM: [&str; 12] = [
    "/proc/pagetypeinfo",
    "/proc/slabinfo",
    "/proc/version",
    "/proc/cmdline",
    "/proc/swaps",
    "/proc/spl/kstat/zfs/arcstats",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/defrag",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan",
    "/sys/kernel/mm/lru_gen/enabled",
];
const VM: &str = "/proc/sys/vm";
/// Files in this folder that have an effect when read, or no content.
const NO_SETTINGS: [&str; 3] = ["stat_refresh", "compact_memory", "drop_caches"];
const THP: &str = "/sys/kernel/mm/transparent_hugepage";
/// Milliseconds between two readings of folio counters and threads' CPU time, of rarely changing files, and between
/// two searches for files.
const COUNTERS_MS: u64 = 10_000;
const SELDOM_MS: u64 = 60_000;
const SEARCH_MS: u64 = 600_000;
const NO_FILE: &str = "no such file";
/// The largest size of a file, far above real ones.
const FILE_BYTES: usize = 8 << 20;

/// Reads the files of a machine, each at its own interval.
pub struct Sampler {
    root: PathBuf,
    /// Files that stay open.
    open: BTreeMap<&'static str, File>,
    /// The counters by size of folios, and `stat` of the kernel's threads for memory.
    counters: Vec<String>,
    settings: Vec<String>,
    counters_at: Option<u64>,
    seldom_at: Option<u64>,
    search_at: Option<u64>,
    buffer: Vec<u8>,
}

impl Sampler {
    /// Makes a reader of the files below a root.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            open: BTreeMap::new(),
            counters: Vec::new(),
            settings: Vec::new(),
            counters_at: None,
            seldom_at: None,
            search_at: None,
            buffer: vec![0; 16 << 10],
        }
    }

    /// Reads the files that are due, by a clock that never goes back.
    pub fn read(&mut self, now_ms: u64) -> Vec<(String, FileText)> {
        let due = |at: Option<u64>, every: u64| at.is_none_or(|at| now_ms >= at + every);
        if due(self.search_at, SEARCH_MS) {
            self.search_at = Some(now_ms);
            self.search();
        }
        let mut files: Vec<(String, FileText)> = Vec::new();
        for name in OFTEN {
            let text = self.read_open(name);
            files.push((name.to_owned(), text));
        }
        if due(self.counters_at, COUNTERS_MS) {
            self.counters_at = Some(now_ms);
            let read = self.counters.iter().map(|name| (name.clone(), self.read_once(name)));
            files.extend(read);
        }
        if due(self.seldom_at, SELDOM_MS) {
            self.seldom_at = Some(now_ms);
            let names = SELDOM.map(str::to_owned).into_iter().chain(self.settings.iter().cloned());
            let read = names.map(|name| {
                let text = self.read_once(&name);
                (name, text)
            });
            // Kernels differ in these.
            files.extend(read.filter(|(_, text)| *text != Err(NO_FILE.to_owned())));
        }
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name.trim_start_matches('/'))
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(folder)).into_iter().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    /// Finds the files whose names differ from machine to machine.
    fn search(&mut self) {
        self.counters.clear();
        let settings =
            self.names(VM).into_iter().filter(|name| !NO_SETTINGS.contains(&name.as_str()));
        self.settings = settings.map(|name| format!("{VM}/{name}")).collect();
        for size in self.names(THP).into_iter().filter(|name| name.starts_with("hugepages-")) {
            self.settings.push(format!("{THP}/{size}/enabled"));
            let stats = self.names(&format!("{THP}/{size}/stats"));
            self.counters.extend(stats.iter().map(|name| format!("{THP}/{size}/stats/{name}")));
        }
        let daemons = ["(kswapd", "(kcompactd", "(khugepaged"];
        for task in self.names("/proc") {
            if !task.starts_with(|c: char| c.is_ascii_digit()) {
                continue;
            }
            let stat = format!("/proc/{task}/stat");
            // Other tasks are private. A task may exit in between.
            let text = self.read_once(&stat).unwrap_or_default();
            if daemons.iter().any(|name| text.contains(name)) {
                self.counters.push(stat);
            }
        }
    }

    fn read_once(&self, name: &str) -> FileText {
        let mut buffer = vec![0; 4096];
        let file = open_regular(&self.path(name));
        file.and_then(|file| whole(&file, &mut buffer)).map_err(|e| why(&e))
    }

    fn read_open(&mut self, name: &'static str) -> FileText {
        if !self.open.contains_key(name) {
            let file = open_regular(&self.path(name)).map_err(|error| why(&error))?;
            self.open.insert(name, file);
        }
        whole(&self.open[name], &mut self.buffer).map_err(|error| why(&error))
    }
}

/// Reads a file from its start. The buffer grows if necessary.
fn whole(file: &File, buffer: &mut Vec<u8>) -> std::io::Result<String> {
    let mut length = 0;
    loop {
        if length == buffer.len() && length < FILE_BYTES {
            buffer.resize(2 * length, 0);
        }
        match file.read_at(&mut buffer[length..], length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

fn why(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => NO_FILE.to_owned(),
        ErrorKind::PermissionDenied => "no permission".to_owned(),
        _ => error.to_string(),
    }
}
