//! thpfioscale, as mmtests' fio jobs and its program thpfioscale do it.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise, sync};

use super::{Random, begin, finish, rest, start};
use crate::inside::memory::{HUGE, Mapping, PAGE};
use crate::job::Thpfioscale;
use crate::message::Measured;

/// The folder of the files.
const FOLDER: &str = "/data/thpfilescale";
/// Pages of a huge page.
const HUGE_PAGES: usize = HUGE / PAGE;
/// A page of a region by which the benchmark tells whether the region got a huge page.
const LOOKED_AT: usize = 64;
/// How much of a run lies before each phase: fio takes most of it.
const PHASES: [f64; 3] = [0.0, 0.45, 0.9];

/// Runs the whole benchmark.
pub(super) fn run(sizes: &Thpfioscale, seed: u64) -> Result<Measured, String> {
    begin("creating files", PHASES[0])?;
    let begun = Instant::now();
    let numbers = |job| [job, sizes.files, sizes.file_pages, sizes.files_a_heap_page, seed];
    let writers: Vec<_> = (0..sizes.jobs).map(|job| start("fio-writer", &numbers(job))).collect();
    for writer in writers {
        finish("a writer of fio", writer?)?;
    }
    sync();
    let init = begun.elapsed();
    begin("reading", PHASES[1])?;
    let readers: Vec<_> = (0..sizes.jobs).map(|job| start("fio-reader", &numbers(job))).collect();
    let mut readers = readers.into_iter().collect::<Result<Vec<_>, _>>()?;
    rest(init);
    begin("faulting", PHASES[2])?;
    let faulted = fault(sizes);
    for reader in &mut readers {
        reader
            .kill()
            .and_then(|()| reader.wait())
            .map_err(|error| format!("a reader of fio: {error}"))?;
    }
    let mut measured = faulted?;
    measured.counters.insert("real_init_ms".to_owned(), init.as_millis() as u64);
    measured.counters.insert("real_elapsed_ms".to_owned(), begun.elapsed().as_millis() as u64);
    Ok(measured)
}

/// The arguments of a process of fio.
struct Process {
    job: u64,
    files: u64,
    pages: u64,
    heap: Mapping,
    seed: u64,
}

impl Process {
    fn new(numbers: &[u64]) -> Result<Self, String> {
        let &[job, files, pages, files_a_heap_page, seed] = numbers else {
            return Err("a process of fio has five numbers".to_owned());
        };
        // What fio itself keeps of each file.
        let mut heap =
            Mapping::new(files.div_ceil(files_a_heap_page) as usize).map_err(|e| e.to_string())?;
        heap.want_small().map_err(|e| e.to_string())?;
        (0..heap.pages()).for_each(|page| heap.touch(page));
        Ok(Self { job, files, pages, heap, seed })
    }

    fn path(&self, file: u64) -> String {
        format!("{FOLDER}/{}/workfile.{file}", self.job)
    }
}

/// Writes block 0 of every file, then block 1, and so on: `readwrite=write`, `create_on_open=1`, `fallocate=none`.
pub(super) fn writer(numbers: &[u64]) -> Result<(), String> {
    let process = Process::new(numbers)?;
    let folder = format!("{FOLDER}/{}", process.job);
    fs::create_dir_all(&folder).map_err(|error| format!("{folder}: {error}"))?;
    let mut files: Vec<File> = Vec::with_capacity(process.files as usize);
    let block = [1; PAGE];
    for page in 0..process.pages {
        for at in 0..process.files {
            if page == 0 {
                let path = process.path(at);
                files.push(File::create(&path).map_err(|error| format!("{path}: {error}"))?);
            }
            let written = files[at as usize].write_all(&block);
            written.map_err(|error| format!("{}: {error}", process.path(at)))?;
        }
    }
    drop(process.heap);
    Ok(())
}

/// Picks files at random and reads each one's blocks in random order, until it is killed: `readwrite=randread`,
/// `file_service_type=random:16`.
pub(super) fn reader(numbers: &[u64]) -> Result<(), String> {
    let process = Process::new(numbers)?;
    let mut random = Random::new(process.seed, 2 + process.job);
    let mut files: Vec<Option<File>> = (0..process.files).map(|_| None).collect();
    let mut block = [0; PAGE];
    loop {
        let at = random.below(process.files);
        let path = || process.path(at);
        let file = match &mut files[at as usize] {
            Some(file) => file,
            closed => {
                let file = File::open(path()).map_err(|error| format!("{}: {error}", path()))?;
                fadvise(&file, 0, None, Advice::Random)
                    .map_err(|error| format!("{}: {error}", path()))?;
                closed.insert(file)
            }
        };
        let mut order: Vec<u64> = (0..process.pages).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, random.below(last as u64 + 1) as usize);
        }
        for page in order {
            file.read_exact_at(&mut block, page * PAGE as u64)
                .map_err(|error| format!("{}: {error}", path()))?;
        }
    }
}

/// Runs the threads that fault, and collects how long each region took.
fn fault(sizes: &Thpfioscale) -> Result<Measured, String> {
    let threads: Vec<_> = (0..sizes.threads)
        .map(|_| {
            let (regions, madvise) = (sizes.regions as usize, sizes.madvise);
            std::thread::spawn(move || fault_regions(regions, madvise))
        })
        .collect();
    let mut measured = Measured::default();
    for thread in threads {
        let regions = thread.join().map_err(|_| "a thread that faults panicked")?;
        for (huge, time) in regions.map_err(|error| format!("faults: {error}"))? {
            let kind = if huge { "huge" } else { "base" };
            let name = format!("fault-{kind}-{}", sizes.threads);
            measured.samples.entry(name).or_default().push(time.as_nanos() as u64);
        }
    }
    Ok(measured)
}

/// For each region touches the first byte, looks whether the page is huge, and touches the rest.
fn fault_regions(regions: usize, madvise: bool) -> std::io::Result<Vec<(bool, Duration)>> {
    let mut mapping = Mapping::new(regions * HUGE_PAGES)?;
    if madvise {
        mapping.want_huge()?;
    }
    let mut times = Vec::with_capacity(regions);
    for region in 0..regions {
        let first = region * HUGE_PAGES;
        let begun = Instant::now();
        mapping.touch(first);
        let huge = mapping.is_there(first + LOOKED_AT)?;
        mapping.fill(first, HUGE_PAGES);
        times.push((huge, begun.elapsed()));
    }
    Ok(times)
}
