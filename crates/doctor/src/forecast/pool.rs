//! Tries a forecast: asks the running kernel for huge pages, counts what it gives, and puts them back.

use std::fs;
use std::path::{Path, PathBuf};

use pageblock_recording::MemInfo;
use serde::Serialize;

use crate::error::Error;
use crate::proc::tree::Tree;

/// The share of memory, in percent, that must stay available to others while pages are held.
const RESERVE_PERCENT: u64 = 10;
/// Pages are asked for in so many steps, between which the caller can stop.
const STEPS: u64 = 64;

/// The reason why no more pages were asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// As many as were asked for came.
    All,
    /// The kernel gave fewer than were asked for.
    Fewer,
    /// Less than a tenth of memory was left to others.
    Reserve,
    /// The caller asked to stop.
    Stopped,
}

/// What the kernel gave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Tried {
    /// The size of a page in kB.
    pub kb: u64,
    /// The pages of the pool before, which it has again.
    pub pool: u64,
    /// The further pages that were asked for at most.
    pub asked: u64,
    /// The further pages that came.
    pub came: u64,
    /// Why no more were asked for.
    pub end: End,
    /// Small pages that reclaim freed meanwhile, for others too.
    pub reclaimed: u64,
    /// Small pages that moved meanwhile, for others too.
    pub moved: u64,
}

/// The pool of huge pages of a size. What was asked for is put back when this is dropped.
#[derive(Debug)]
pub struct Pool {
    root: PathBuf,
    path: PathBuf,
    kb: u64,
    before: u64,
    is_changed: bool,
}

impl Pool {
    /// Opens the pool of pages of a size below a root, and asks for nothing yet.
    ///
    /// # Errors
    /// If the kernel has none of this size, or the user may not change it.
    pub fn open(root: &Path, kb: u64) -> Result<Self, Error> {
        let path = root
            .join("sys/kernel/mm/hugepages")
            .join(format!("hugepages-{kb}kB"))
            .join("nr_hugepages");
        if !path.exists() {
            return Err(Error::Missing {
                path: root.join("sys/kernel/mm/hugepages"),
                what: "pool of pages of that size",
                expected: "a kernel with hugetlb, and sysfs",
            });
        }
        fs::OpenOptions::new().write(true).open(&path).map_err(Error::io(&path))?;
        let mut pool = Self { root: root.to_owned(), path, kb, before: 0, is_changed: false };
        pool.before = pool.pages()?;
        Ok(pool)
    }

    /// Returns the file that says how many pages the pool has, and how many it had before.
    #[must_use]
    pub fn put_back_by(&self) -> (&Path, u64) {
        (&self.path, self.before)
    }

    /// Asks for up to `most` further pages, and gives all of them back. `watch` is told how many came so far, and says whether to
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
            self.set(self.before + wanted)?;
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
        let text = fs::read_to_string(&self.path).map_err(Error::io(&self.path))?;
        text.trim().parse().map_err(|_| Error::Unexpected {
            path: self.path.clone(),
            line: 1,
            found: text.trim().to_owned(),
            expected: "a number of pages",
        })
    }

    fn set(&self, pages: u64) -> Result<(), Error> {
        fs::write(&self.path, pages.to_string()).map_err(Error::io(&self.path))
    }

    fn put_back(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.is_changed) {
            self.set(self.before)?;
        }
        Ok(())
    }

    /// Reports whether further pages would leave too little to others.
    fn is_too_large(&self, pages: u64) -> bool {
        let info = MemInfo::parse(&Tree::new(&self.root).read("/proc/meminfo").unwrap_or_default());
        let (Some(total), Some(available)) = (info.get("MemTotal"), info.get("MemAvailable"))
        else {
            // Before 3.14 the kernel does not say: nothing is risked.
            return true;
        };
        available.saturating_sub(pages * self.kb) < total * RESERVE_PERCENT / 100
    }

    /// Returns how many pages reclaim freed and how many moved, since boot.
    fn counters(&self) -> [u64; 2] {
        let text = Tree::new(&self.root).read("/proc/vmstat").unwrap_or_default();
        let value = |line: &str| line.split_whitespace().nth(1)?.parse::<u64>().ok();
        let sum = |is: &dyn Fn(&str) -> bool| -> u64 {
            text.lines().filter(|line| is(line)).filter_map(value).sum()
        };
        let freed = |line: &str| {
            ["pgsteal_kswapd", "pgsteal_direct"].iter().any(|key| line.starts_with(key))
        };
        [sum(&freed), sum(&|line| line.starts_with("pgmigrate_success "))]
    }
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
        fs::write(pool.join("nr_hugepages"), "7\n").unwrap();
        (folder, pool.join("nr_hugepages"))
    }

    #[test]
    fn the_pool_is_put_back_however_it_ends() {
        let (folder, file) = machine(900_000);
        let pages = || fs::read_to_string(&file).unwrap().trim().to_owned();
        let open = || Pool::open(folder.path(), 2048).unwrap();
        let tried = open().try_for(100, &|_| false).unwrap();
        assert_eq!((tried.came, tried.end, tried.pool), (100, End::All, 7));
        assert_eq!(pages(), "7");
        // Ctrl-C after some steps.
        let tried = open().try_for(100, &|came| came > 30).unwrap();
        assert!(tried.came > 30 && tried.came < 100, "{tried:?}");
        assert_eq!((tried.end, pages().as_str()), (End::Stopped, "7"));
        // An error on the way.
        let mut pool = open();
        pool.is_changed = true;
        pool.set(50).unwrap();
        assert_eq!(pages(), "50");
        drop(pool);
        assert_eq!(pages(), "7");
    }

    #[test]
    fn a_tenth_of_memory_is_left_to_others() {
        let (folder, file) = machine(100_500);
        let tried = Pool::open(folder.path(), 2048).unwrap().try_for(10, &|_| false).unwrap();
        assert_eq!((tried.came, tried.end), (0, End::Reserve));
        // Nothing was written: the line is as it was.
        assert_eq!(fs::read_to_string(&file).unwrap(), "7\n");
        let error = Pool::open(folder.path(), 4096).unwrap_err().to_string();
        assert!(error.contains("no pool of pages of that size"), "{error}");
    }
}
