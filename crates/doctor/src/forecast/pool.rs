//! Tries a forecast: requests huge pages from the running kernel, counts those that it allocates, and frees them again.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use pageblock_recording::{MemInfo, VmStat};
use serde::Serialize;

use crate::error::Error;
use crate::proc::tree::Tree;

/// The share of memory, in percent, that must stay available to others while pages are held.
const RESERVE_PERCENT: u64 = 10;
/// The number of steps in which pages are requested. The caller can stop between them.
const STEPS: u64 = 64;

/// The reason why no more pages were requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The kernel allocated all of them.
    All,
    /// The kernel allocated fewer than were requested.
    Fewer,
    /// Less than a tenth of memory was left for others.
    Reserve,
    /// The caller asked to stop.
    Stopped,
}

/// The pages that the kernel allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Tried {
    /// The size of a page in kB.
    pub kb: u64,
    /// The pages of the pool before, which it has again afterwards.
    pub pool: u64,
    /// The largest number of further pages that were requested.
    pub asked: u64,
    /// The further pages that were allocated.
    pub came: u64,
    /// Why no more were requested.
    pub end: End,
    /// Small pages that reclaim freed during the trial, including those for other tasks.
    pub reclaimed: u64,
    /// Small pages that compaction moved during the trial, including those for other tasks.
    pub moved: u64,
}

/// The running kernel's pool of huge pages of a size. When this is dropped, the pool gets its former size back.
#[derive(Debug)]
pub struct Pool {
    tree: Tree,
    /// The folder of the pool of all nodes.
    folder: PathBuf,
    kb: u64,
    /// Its pages before, including surplus ones.
    before: u64,
    /// The former value of each `nr_hugepages`: one per node if the kernel has nodes, otherwise one for all.
    settings: Vec<(PathBuf, u64)>,
    is_changed: bool,
}

impl Pool {
    /// Opens the pool of pages of a size. Requests nothing yet.
    ///
    /// # Errors
    /// If the kernel has no pages of this size, or the user may not change the pool.
    pub fn open(kb: u64) -> Result<Self, Error> {
        // No other root: it writes to files of the running kernel.
        Self::below(Path::new("/"), kb)
    }

    fn below(root: &Path, kb: u64) -> Result<Self, Error> {
        let sizes = root.join("sys/kernel/mm/hugepages");
        let own = format!("hugepages-{kb}kB");
        let folder = sizes.join(&own);
        if !folder.join(PAGES).exists() {
            return Err(Error::Missing {
                path: sizes,
                what: "pool of pages of that size",
                expected: "a kernel with hugetlb, and sysfs",
            });
        }
        let tree = Tree::new(root);
        let nodes = "sys/devices/system/node";
        let of_node = |name: String| root.join(nodes).join(name).join("hugepages").join(&own);
        // A number for all nodes is spread over them evenly, regardless of what each had.
        let mut folders: Vec<PathBuf> = tree.names(nodes).into_iter().map(of_node).collect();
        folders.retain(|folder| folder.join(PAGES).is_file());
        if folders.is_empty() {
            folders.push(folder.clone());
        }
        let mut pool =
            Self { tree, folder, kb, before: 0, settings: Vec::new(), is_changed: false };
        writable(&pool.folder.join(PAGES))?;
        pool.before = pool.pages()?;
        for folder in folders {
            let setting = setting(&folder)?;
            pool.settings.push((folder, setting));
        }
        Ok(pool)
    }

    /// Returns the file with the number of pages of the pool, and its former value.
    #[must_use]
    pub fn put_back_by(&self) -> (PathBuf, u64) {
        (self.folder.join(PAGES), self.settings.iter().map(|(_, pages)| pages).sum())
    }

    /// Requests up to `most` further pages, and frees all of them. `watch` gets the number allocated so far, and returns whether to
    /// stop.
    ///
    /// # Errors
    /// If the kernel refuses, or does not take the pages back.
    pub fn try_for(mut self, most: u64, watch: &dyn Fn(u64) -> bool) -> Result<Tried, Error> {
        let [reclaimed, moved] = self.counters();
        let mut tried = Tried {
            kb: self.kb,
            pool: self.before,
            asked: most,
            came: 0,
            end: End::All,
            reclaimed: 0,
            moved: 0,
        };
        let step = most.div_ceil(STEPS).max(1);
        while tried.came < most {
            if watch(tried.came) {
                tried.end = End::Stopped;
                break;
            }
            let more = step.min(most - tried.came);
            if self.is_too_large(more) {
                tried.end = End::Reserve;
                break;
            }
            let wanted = tried.came + more;
            self.is_changed = true;
            set(&self.folder, self.before + wanted)?;
            tried.came = self.pages()?.saturating_sub(self.before);
            if tried.came < wanted {
                tried.end = if watch(tried.came) { End::Stopped } else { End::Fewer };
                break;
            }
        }
        let now = self.counters();
        tried.reclaimed = now[0].saturating_sub(reclaimed);
        tried.moved = now[1].saturating_sub(moved);
        self.put_back()?;
        Ok(tried)
    }

    fn pages(&self) -> Result<u64, Error> {
        number(&self.folder.join(PAGES))
    }

    fn put_back(&mut self) -> Result<(), Error> {
        if !std::mem::take(&mut self.is_changed) {
            return Ok(());
        }
        // All of them, though one fails.
        let set = self.settings.iter().map(|(folder, pages)| set(folder, *pages));
        set.fold(Ok(()), Result::and)?;
        let pages = self.pages()?;
        if pages > self.before {
            return Err(Error::Unexpected {
                path: self.folder.join(PAGES),
                line: 1,
                found: pages.to_string(),
                expected: "the number of pages before: others reserved or use some of those that came",
            });
        }
        Ok(())
    }

    /// Returns whether further pages would leave too little for others.
    fn is_too_large(&self, pages: u64) -> bool {
        let info = MemInfo::parse(&self.tree.read("/proc/meminfo").unwrap_or_default());
        let (Some(total), Some(available)) = (info.get("MemTotal"), info.get("MemAvailable"))
        else {
            // Before 3.14 the kernel does not say: nothing is risked.
            return true;
        };
        available.saturating_sub(pages * self.kb) < total * RESERVE_PERCENT / 100
    }

    /// Returns the numbers of pages that reclaim freed and that compaction moved, since boot.
    fn counters(&self) -> [u64; 2] {
        let text = self.tree.read("/proc/vmstat").unwrap_or_default();
        let sum = |is: &dyn Fn(&str) -> bool| -> u64 {
            VmStat::counters(&text).filter(|(name, _)| is(name)).map(|(_, value)| value).sum()
        };
        let freed = |name: &str| {
            ["pgsteal_kswapd", "pgsteal_direct"].iter().any(|key| name.starts_with(key))
        };
        [sum(&freed), sum(&|name| name == "pgmigrate_success")]
    }
}

/// The file of a folder of hugetlb with the number of pages of a pool.
const PAGES: &str = "nr_hugepages";

/// Returns the size that a folder's pool was set to: its pages without surplus ones, which leave it when they are freed.
fn setting(folder: &Path) -> Result<u64, Error> {
    let surplus = folder.join("surplus_hugepages");
    let surplus = if surplus.is_file() { number(&surplus)? } else { 0 };
    Ok(number(&folder.join(PAGES))?.saturating_sub(surplus))
}

fn set(folder: &Path, pages: u64) -> Result<(), Error> {
    let path = folder.join(PAGES);
    let line = format!("{pages}\n");
    writable(&path)?.write_all(line.as_bytes()).map_err(Error::io(&path))
}

/// Opens a file of sysfs, without creating or truncating it.
fn writable(path: &Path) -> Result<fs::File, Error> {
    fs::OpenOptions::new().write(true).open(path).map_err(Error::io(path))
}

fn number(path: &Path) -> Result<u64, Error> {
    let text = fs::read_to_string(path).map_err(Error::io(path))?;
    let line = text.lines().next().unwrap_or_default().trim();
    line.parse().map_err(|_| Error::Unexpected {
        path: path.to_owned(),
        line: 1,
        found: line.to_owned(),
        expected: "a number of pages",
    })
}

impl Drop for Pool {
    fn drop(&mut self) {
        // After an error that the caller already has.
        let _ = self.put_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder in place of a kernel that gives what it is asked for.
    fn machine(available_kb: u64) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let pool = folder.path().join("sys/kernel/mm/hugepages/hugepages-2048kB");
        fs::create_dir_all(&pool).unwrap();
        fs::create_dir(folder.path().join("proc")).unwrap();
        let meminfo = format!("MemTotal: 1000000 kB\nMemAvailable: {available_kb} kB\n");
        fs::write(folder.path().join("proc/meminfo"), meminfo).unwrap();
        fs::write(pool.join(PAGES), "7\n").unwrap();
        (folder, pool)
    }

    #[test]
    fn the_pool_is_put_back_however_it_ends() {
        let (folder, pool) = machine(900_000);
        let pages = || number(&pool.join(PAGES)).unwrap();
        let open = || Pool::below(folder.path(), 2048).unwrap();
        let tried = open().try_for(100, &|_| false).unwrap();
        assert_eq!((tried.came, tried.end, tried.pool), (100, End::All, 7));
        assert_eq!(pages(), 7);
        // Ctrl-C after some steps.
        let tried = open().try_for(100, &|came| came > 30).unwrap();
        assert!(tried.came > 30 && tried.came < 100, "{tried:?}");
        assert_eq!((tried.end, pages()), (End::Stopped, 7));
        // A panic on the way.
        let watch = |came: u64| if came > 30 { panic!("a defect") } else { false };
        let ended = std::panic::catch_unwind(|| open().try_for(100, &watch).is_ok());
        assert!(ended.is_err());
        assert_eq!(pages(), 7);
        // An error on the way.
        let mut own = open();
        own.is_changed = true;
        set(&pool, 50).unwrap();
        assert_eq!(pages(), 50);
        drop(own);
        assert_eq!(pages(), 7);
        // A file that is gone is not made.
        let own = open();
        fs::remove_file(pool.join(PAGES)).unwrap();
        assert!(own.try_for(100, &|_| false).is_err());
        assert!(!pool.join(PAGES).exists());
    }

    /// Two of the seven pages are surplus, and one node has more than the other.
    #[test]
    fn each_node_gets_what_it_was_set_to() {
        let (folder, pool) = machine(900_000);
        fs::write(pool.join("surplus_hugepages"), "2\n").unwrap();
        assert_eq!(Pool::below(folder.path(), 2048).unwrap().put_back_by().1, 5);
        let node = |number: u64, pages: u64, surplus: u64| {
            let node = format!("sys/devices/system/node/node{number}/hugepages/hugepages-2048kB");
            let node = folder.path().join(node);
            fs::create_dir_all(&node).unwrap();
            fs::write(node.join(PAGES), format!("{pages}\n")).unwrap();
            fs::write(node.join("surplus_hugepages"), format!("{surplus}\n")).unwrap();
            node
        };
        let nodes = [node(0, 6, 2), node(1, 1, 0)];
        let mut own = Pool::below(folder.path(), 2048).unwrap();
        assert_eq!(own.put_back_by().1, 5);
        own.is_changed = true;
        // The kernel took them where it found them, and a task uses one of the allocated pages.
        set(&pool, 8).unwrap();
        nodes.iter().for_each(|node| set(node, 54).unwrap());
        let error = own.put_back().unwrap_err().to_string();
        assert_eq!(nodes.map(|node| number(&node.join(PAGES)).unwrap()), [4, 1]);
        assert!(error.contains("found \"8\"; expected the number of pages before"), "{error}");
    }

    #[test]
    fn a_tenth_of_memory_is_left_to_others() {
        let (folder, pool) = machine(100_500);
        let tried = Pool::below(folder.path(), 2048).unwrap().try_for(10, &|_| false).unwrap();
        assert_eq!((tried.came, tried.end), (0, End::Reserve));
        // Nothing was written: the line is as it was.
        assert_eq!(fs::read_to_string(pool.join(PAGES)).unwrap(), "7\n");
        let error = Pool::below(folder.path(), 4096).unwrap_err().to_string();
        assert!(error.contains("no pool of pages of that size"), "{error}");
    }
}
