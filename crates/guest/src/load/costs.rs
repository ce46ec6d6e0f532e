//! What operations cost where this program runs, in nanoseconds: the figures marked **H** (a host) and **E** (a guest by
//! instructions) of the simulation (crates/simulate/src/sim/cost.rs).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::num::NonZeroU64;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use pageblock_simulate::sim::cost::YEAR_2018;
use pageblock_simulate::workload::mixed::{HUGE_PAGES, MESSAGES, PIPE_PAGES};
use rustix::fs::{Advice, fadvise};

use super::{fill, finish, start};
use crate::inside::memory::{Mapping, PAGE};
use crate::inside::state::counter;

/// Rounds; the least of them is what an operation costs.
const ROUNDS: usize = 9;
/// Sockets, pipes, tables, files and regions of a round.
const EACH: u64 = 50;
/// Programs of a round.
const PROGRAMS: u64 = 10;
/// Pages of a file that is written and read.
const FILE_PAGES: u64 = 2048;
/// Pages of the hole that is read to make kswapd work: more than a guest has.
const HOLE_PAGES: u64 = 1 << 18;
/// Pages that stay in memory, and that are dropped, in turn, so that compaction finds pages to move.
const KEPT: u64 = 5;
const DROPPED: u64 = 3;

/// Measures in a folder. `kernel_too`: also what only a kernel of one's own may be asked: to reclaim and to compact.
pub(super) fn measure(folder: &Path, kernel_too: bool) -> io::Result<BTreeMap<String, Vec<u64>>> {
    let mut least = BTreeMap::<&str, u64>::new();
    for _ in 0..ROUNDS {
        let mut round = held()?;
        round.extend(faults()?);
        round.extend(files(folder)?);
        round.push(("program", each(PROGRAMS, || (0..PROGRAMS).try_for_each(|_| program()))?));
        for (what, time) in round {
            least.entry(what).and_modify(|known| *known = time.min(*known)).or_insert(time);
        }
    }
    if kernel_too {
        least.insert("reclaim", reclaim(folder)?);
        least.insert("compact", compact(folder)?);
    }
    Ok(least.into_iter().map(|(what, time)| (what.to_owned(), vec![time])).collect())
}

/// Returns the nanoseconds of each of `count` operations.
fn each(count: u64, run: impl FnOnce() -> io::Result<()>) -> io::Result<u64> {
    let begun = Instant::now();
    run()?;
    Ok(begun.elapsed().as_nanos() as u64 / count)
}

/// Messages in sockets, and pages in pipes.
fn held() -> io::Result<Vec<(&'static str, u64)>> {
    let mut pairs = (0..EACH).map(|_| UnixStream::pair()).collect::<io::Result<Vec<_>>>()?;
    let message = each(EACH * MESSAGES, || {
        pairs.iter_mut().try_for_each(|(from, _)| fill(from, &[0; 640], MESSAGES))
    })?;
    let message_free = each(EACH * MESSAGES, || {
        pairs.clear();
        Ok(())
    })?;
    let mut pipes = (0..EACH).map(|_| io::pipe()).collect::<io::Result<Vec<_>>>()?;
    let pipe_page = each(EACH * PIPE_PAGES, || {
        pipes.iter_mut().try_for_each(|(_, from)| fill(from, &[1; PAGE], PIPE_PAGES))
    })?;
    Ok(vec![("message", message), ("message_free", message_free), ("pipe_page", pipe_page)])
}

/// A fault that needs a table of pages, one that finds it, and one of a huge page.
fn faults() -> io::Result<Vec<(&'static str, u64)>> {
    let mut small = Mapping::new((EACH * HUGE_PAGES) as usize)?;
    small.want_small()?;
    let mut touch = |page: u64| {
        each(EACH, || {
            (0..EACH).for_each(|table| small.touch((table * HUGE_PAGES + page) as usize));
            Ok(())
        })
    };
    let mut times = vec![("table", touch(0)?), ("fault_base", touch(HUGE_PAGES / 2)?)];
    drop(small);
    let mut huge = Mapping::new((EACH * HUGE_PAGES) as usize)?;
    huge.want_huge()?;
    for page in (0..EACH).map(|region| (region * HUGE_PAGES) as usize) {
        let time = each(1, || {
            huge.touch(page);
            Ok(())
        })?;
        if huge.is_there(page + 1)? {
            times.push(("fault_huge", time));
        }
    }
    Ok(times)
}

/// Files that are opened, written and read; what was written is on the disk before the next round.
fn files(folder: &Path) -> io::Result<Vec<(&'static str, u64)>> {
    let path = folder.join("costs");
    let mut file = File::create(&path)?;
    let write_page = each(FILE_PAGES, || fill(&mut file, &[1; PAGE], FILE_PAGES))?;
    file.sync_all()?;
    let mut page = [0; PAGE];
    let mut file = File::open(&path)?;
    let read_page =
        each(FILE_PAGES, || (0..FILE_PAGES).try_for_each(|_| file.read_exact(&mut page)))?;
    let open = each(EACH, || (0..EACH).try_for_each(|_| File::open(&path).map(drop)))?;
    fs::remove_file(&path)?;
    Ok(vec![("write_page", write_page), ("read_page", read_page), ("open", open)])
}

/// Starts this program, which does nothing and ends.
fn program() -> io::Result<()> {
    start("nothing", &[]).and_then(|child| finish("nothing", child)).map_err(io::Error::other)
}

/// Reads a hole larger than memory, and returns the time on a CPU that kswapd took for each page that it reclaimed.
fn reclaim(folder: &Path) -> io::Result<u64> {
    let path = folder.join("hole");
    File::create(&path)?.set_len(HOLE_PAGES * PAGE as u64)?;
    let kswapd = kswapd()?;
    let state = || Ok::<_, io::Error>((on_cpu(&kswapd)?, count("pgsteal_kswapd")?));
    let before = state()?;
    let mut file = File::open(&path)?;
    // Without read-ahead each page is a folio of its own: what the simulation charges for, and what loads write.
    fadvise(&file, 0, None, Advice::Random)?;
    io::copy(&mut file, &mut io::sink())?;
    let after = state()?;
    fs::remove_file(&path)?;
    Ok((after.0 - before.0) / (after.1 - before.1).max(1))
}

/// Fragments memory with pages of a file, has it compacted, and returns the time of all that compaction does, in
/// hundredths of the costs of 2018.
fn compact(folder: &Path) -> io::Result<u64> {
    let path = folder.join("hole");
    File::create(&path)?.set_len(HOLE_PAGES * PAGE as u64 / 4)?;
    let file = File::open(&path)?;
    io::copy(&mut &file, &mut io::sink())?;
    for start in (KEPT..HOLE_PAGES / 4).step_by((KEPT + DROPPED) as usize) {
        fadvise(
            &file,
            start * PAGE as u64,
            NonZeroU64::new(DROPPED * PAGE as u64),
            Advice::DontNeed,
        )?;
    }
    let state = || {
        let scanned = count("compact_migrate_scanned")? + count("compact_free_scanned")?;
        let (isolated, migrated) = (count("compact_isolated")?, count("pgmigrate_success")?);
        Ok::<_, io::Error>(
            scanned * YEAR_2018.compact_scan
                + isolated * YEAR_2018.isolate
                + migrated * YEAR_2018.migrate,
        )
    };
    let before = state()?;
    let time = each(1, || fs::write("/proc/sys/vm/compact_memory", "1"))?;
    let cost = state()? - before;
    fs::remove_file(&path)?;
    Ok(time * 100 / cost.max(1))
}

fn count(name: &str) -> io::Result<u64> {
    counter(name).ok_or_else(|| io::Error::other(format!("/proc/vmstat has no {name}")))
}

/// Returns the folder of the first kswapd in `/proc`.
fn kswapd() -> io::Result<std::path::PathBuf> {
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        if fs::read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("kswapd0")) {
            return Ok(path);
        }
    }
    Err(io::Error::other("/proc: no kswapd0"))
}

/// Returns how long a task was on a CPU, in nanoseconds.
fn on_cpu(task: &Path) -> io::Result<u64> {
    let path = task.join("schedstat");
    let text = fs::read_to_string(&path)?;
    text.split(' ').next().and_then(|first| first.parse().ok()).ok_or_else(|| {
        io::Error::other(format!("{}: it does not begin with a number", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::COSTS;

    #[test]
    fn every_operation_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let measured = measure(folder.path(), false).unwrap();
        // A test program is no load that could be started again, and hosts need not give huge pages.
        let missing: Vec<_> =
            COSTS.into_iter().filter(|&name| !measured.contains_key(name)).collect();
        let hosts = missing
            .iter()
            .all(|name| ["fault_huge", "program", "reclaim", "compact"].contains(name));
        assert!(hosts, "{missing:?}");
        assert!(measured.keys().all(|name| COSTS.contains(&name.as_str())), "{measured:?}");
        assert!(measured.values().flatten().all(|&time| time > 0), "{measured:?}");
    }
}
