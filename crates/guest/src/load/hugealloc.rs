//! hugealloc: builds one after another, beside a memory cache that serves a network and batches of huge pages.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pageblock_recording::VmStat;
use pageblock_simulate::workload::hugealloc::{HUGE_PAGES, LOOK_EVERY, vmstat_counters};
use rustix::fs::{Advice, fadvise, sync};

use super::{Random, begin, finish, rest, start};
use crate::inside::fallbacks;
use crate::inside::memory::{Mapping, PAGE};
use crate::job::Hugealloc;
use crate::message::Measured;

/// The folders of the files.
const SOURCES: &str = "/data/src";
const HEADERS: &str = "/data/inc";
const OBJECTS: &str = "/data/obj";
/// The cache's reply and buffer, in bytes: a block of order 3, and an object of 1 KiB with its header.
const FRAGMENT: usize = 32 << 10;
const BUFFER: usize = 640;

/// Runs the whole benchmark.
pub(super) fn run(sizes: &Hugealloc, seed: u64) -> Result<Measured, String> {
    begin("planting the tree", 0.0)?;
    plant(sizes).map_err(|error| format!("the tree: {error}"))?;
    sync();
    fs::write("/proc/sys/vm/drop_caches", "3").map_err(|error| format!("drop_caches: {error}"))?;
    let mut cache = Command::new("/proc/self/exe")
        .arg("memory-cache")
        .args(
            [sizes.cache, sizes.amounts.touches, sizes.amounts.turn, seed]
                .map(|number| number.to_string()),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("the memory cache: {error}"))?;
    let filled = cache.stdout.as_mut().map(|out| out.read_exact(&mut [0]));
    filled
        .ok_or("the memory cache has no output")?
        .map_err(|error| format!("the memory cache: {error}"))?;
    let mut measured = Measured::default();
    for number in 0..sizes.builds {
        begin(&format!("build {}", number + 1), (number + 1) as f64 / (sizes.builds + 1) as f64)?;
        let before = counted()?;
        let times = build(sizes, seed.wrapping_mul(1000) + number)?;
        let nanos = times.iter().map(|time| time.as_nanos() as u64);
        measured.samples.entry("hugealloc-time".to_owned()).or_default().extend(nanos);
        for (name, count) in counted()? {
            let of_build = count.saturating_sub(before.get(&name).copied().unwrap_or(0));
            measured.samples.entry(format!("build-{name}")).or_default().push(of_build);
        }
    }
    match cache.try_wait() {
        Ok(None) => {}
        _ => measured.notes.push("Out of memory: the memory cache died.".to_owned()),
    }
    cache
        .kill()
        .and_then(|()| cache.wait())
        .map_err(|error| format!("the memory cache: {error}"))?;
    Ok(measured)
}

/// Returns what is counted for each build, since the boot.
fn counted() -> Result<BTreeMap<String, u64>, String> {
    let text =
        fs::read_to_string("/proc/vmstat").map_err(|error| format!("/proc/vmstat: {error}"))?;
    let stat = VmStat::parse(&text).0;
    let sum = |wanted: &str| {
        let part = |name: &str| name.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('_'));
        stat.get(wanted).copied().unwrap_or_else(|| {
            stat.iter().filter(|(name, _)| part(name)).map(|(_, count)| count).sum()
        })
    };
    // A name with no line of its own is the sum of those that begin with it.
    let sampled = vmstat_counters().chain(["pgfault"]);
    let mut counts: BTreeMap<String, u64> =
        sampled.map(|name| (name.to_owned(), sum(name))).collect();
    counts.insert("mm_page_alloc_extfrag".to_owned(), fallbacks::hits());
    Ok(counts)
}

fn write_file(path: &str, pages: u64) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    let page = [1; PAGE];
    (0..pages).try_for_each(|_| file.write_all(&page))
}

/// Reads the first pages of a file, one at a time: the simulation has no readahead.
fn read_file(path: &str, pages: u64) -> std::io::Result<()> {
    let mut file = File::open(path)?;
    fadvise(&file, 0, None, Advice::Random)?;
    let mut page = [0; PAGE];
    (0..pages).try_for_each(|_| file.read_exact(&mut page))
}

/// Writes the sources and headers, scattered among each other.
fn plant(sizes: &Hugealloc) -> std::io::Result<()> {
    for folder in [SOURCES, HEADERS, OBJECTS] {
        fs::create_dir_all(folder)?;
    }
    for at in 0..sizes.jobs.max(sizes.amounts.headers.0) {
        if at < sizes.jobs {
            write_file(&format!("{SOURCES}/{at}"), sizes.amounts.source_pages)?;
        }
        if at < sizes.amounts.headers.0 {
            write_file(&format!("{HEADERS}/{at}"), sizes.amounts.header_pages)?;
        }
    }
    Ok(())
}

/// Runs one build: make clean and its look at every file, the jobs with the batches beside them, and the link. Returns how
/// long each batch took.
fn build(sizes: &Hugealloc, seed: u64) -> Result<Vec<Duration>, String> {
    let io = |error: std::io::Error| format!("a build: {error}");
    for object in fs::read_dir(OBJECTS).map_err(io)? {
        fs::remove_file(object.map_err(io)?.path()).map_err(io)?;
    }
    (0..sizes.jobs).try_for_each(|at| read_file(&format!("{SOURCES}/{at}"), 0)).map_err(io)?;
    (0..sizes.amounts.headers.0)
        .try_for_each(|at| read_file(&format!("{HEADERS}/{at}"), 0))
        .map_err(io)?;
    let (next, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let times = std::thread::scope(|scope| {
        let batches = scope.spawn(|| batches(sizes, &done));
        let workers: Vec<_> =
            (0..cpus).map(|_| scope.spawn(|| worker(sizes, seed, &next, &done))).collect();
        for worker in workers {
            worker.join().map_err(|_| "a job slot panicked")??;
        }
        batches
            .join()
            .map_err(|_| "the batches panicked".to_owned())?
            .map_err(|error| format!("a batch: {error}"))
    })?;
    link(sizes).map_err(|error| format!("the link: {error}"))?;
    Ok(times)
}

/// Runs a job slot of make.
fn worker(sizes: &Hugealloc, seed: u64, next: &AtomicU64, done: &AtomicU64) -> Result<(), String> {
    loop {
        let job = next.fetch_add(1, Relaxed);
        if job >= sizes.jobs {
            return Ok(());
        }
        for _ in 1..sizes.amounts.programs {
            finish("a program of a job", start("nothing", &[])?)?;
        }
        let amounts = &sizes.amounts;
        let numbers = [
            job,
            amounts.source_pages,
            amounts.headers.0,
            amounts.headers.1,
            amounts.header_pages,
            amounts.job_pages.0,
            amounts.job_pages.1,
            amounts.object_pages,
            seed,
        ];
        finish("a compile job", start("compile", &numbers)?)?;
        done.fetch_add(1, Relaxed);
    }
}

/// Compiles: reads a source and headers, computes in memory, and writes an object.
pub(super) fn compile(numbers: &[u64]) -> Result<(), String> {
    let &[job, source_pages, headers, headers_read, header_pages, least, most, object_pages, seed] =
        numbers
    else {
        return Err("a compile job has nine numbers".to_owned());
    };
    let mut random = Random::new(seed, job);
    let compiled = || -> std::io::Result<()> {
        read_file(&format!("{SOURCES}/{job}"), source_pages)?;
        for _ in 0..headers_read {
            read_file(&format!("{HEADERS}/{}", random.below(headers)), header_pages)?;
        }
        let pages = least + random.below(most - least + 1);
        let mut memory = Mapping::new(pages as usize)?;
        (0..memory.pages()).for_each(|page| memory.touch(page));
        write_file(&format!("{OBJECTS}/{job}"), object_pages)
    };
    let mut compiled = compiled;
    compiled().map_err(|error| format!("compile job {job}: {error}"))
}

/// Requests batches of huge pages, spread evenly over the jobs of the build.
fn batches(sizes: &Hugealloc, done: &AtomicU64) -> std::io::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for number in 0..sizes.batches {
        while done.load(Relaxed) * sizes.batches < number * sizes.jobs {
            rest(Duration::from_nanos(LOOK_EVERY));
        }
        let begun = Instant::now();
        let mut memory = Mapping::new(sizes.batch as usize * HUGE_PAGES as usize)?;
        memory.want_huge()?;
        (0..sizes.batch as usize).for_each(|region| memory.touch(region * HUGE_PAGES as usize));
        drop(memory);
        times.push(begun.elapsed());
    }
    Ok(times)
}

/// Links: reads every object and writes as much, twice.
fn link(sizes: &Hugealloc) -> std::io::Result<()> {
    for job in 0..sizes.jobs {
        read_file(&format!("{OBJECTS}/{job}"), sizes.amounts.object_pages)?;
    }
    (0..2).try_for_each(|at| {
        write_file(&format!("{OBJECTS}/image-{at}"), sizes.jobs * sizes.amounts.object_pages)
    })
}

/// Serves clients from memory until it is killed: long-lived items (popular ones are touched more often) and
/// network buffers in flight.
pub(super) fn memory_cache(numbers: &[u64]) -> Result<(), String> {
    let &[pages, touches, turn, seed] = numbers else {
        return Err("the memory cache has four numbers".to_owned());
    };
    serve(pages, touches, Duration::from_nanos(turn), seed)
        .map_err(|error| format!("the memory cache: {error}"))
}

fn serve(pages: u64, touches: u64, turn: Duration, seed: u64) -> std::io::Result<()> {
    let mut items = Mapping::new(pages as usize)?;
    (0..items.pages()).for_each(|page| items.touch(page));
    let mut random = Random::new(seed, 1);
    let (mut fragments, mut buffers) = (Flight::new(FRAGMENT, 8)?, Flight::new(BUFFER, 64)?);
    let mut out = std::io::stdout();
    out.write_all(b"f")?;
    out.flush()?;
    loop {
        fragments.send()?;
        for _ in 0..8 {
            buffers.send()?;
        }
        for _ in 0..touches {
            let item = random.below(pages) * random.below(pages) / pages;
            items.touch(item as usize);
        }
        rest(turn);
    }
}

/// Messages of one size; a number of them are in flight.
struct Flight {
    ends: (UnixStream, UnixStream),
    message: Vec<u8>,
    most: usize,
    flying: usize,
}

impl Flight {
    fn new(size: usize, most: usize) -> std::io::Result<Self> {
        Ok(Self { ends: UnixStream::pair()?, message: vec![0; size], most, flying: 0 })
    }

    fn send(&mut self) -> std::io::Result<()> {
        if self.flying == self.most {
            self.ends.1.read_exact(&mut self.message)?;
            self.flying -= 1;
        }
        self.ends.0.write_all(&self.message)?;
        self.flying += 1;
        Ok(())
    }
}
