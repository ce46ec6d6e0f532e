//! An app: a process that launches, is used, and waits.

use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::super::{Random, rest};
use super::{FOLDER, read, read_media};
use crate::inside::memory::{HUGE, Mapping, PAGE, dma_buffer};
use pageblock_simulate::workload::apppressure::Amounts;

/// The parts of a launch, each with all kinds of work; and the turns of a use.
const PARTS: u64 = 64;
const TURNS: u64 = 5;
/// The stack of a thread.
const STACK: usize = 32 << 10;
/// The bytes of a binder page's content, and of a small object.
const SMALL: usize = 80;

struct App<'s> {
    sizes: &'s Amounts,
    number: u64,
    random: Random,
    memory: Mapping,
    own_files: u64,
    buffers: Vec<Option<OwnedFd>>,
    /// What it holds until its end.
    tables: Vec<Mapping>,
    small: (std::os::unix::net::UnixDatagram, std::os::unix::net::UnixDatagram),
    pipe: (std::io::PipeReader, std::io::PipeWriter),
    plan: [u64; 5],
}

/// Runs an app, as it is told on its standard input.
pub(in super::super) fn run(arguments: &[&str]) -> Result<(), String> {
    let &[number, seed, sizes] = arguments else {
        return Err("an app has three arguments".to_owned());
    };
    let sizes: Amounts = serde_json::from_str(sizes).map_err(|error| error.to_string())?;
    let number: u64 = number.parse().map_err(|_| "an app has a number".to_owned())?;
    let seed: u64 = seed.parse().map_err(|_| "an app has a seed".to_owned())?;
    serve(&sizes, number, seed).map_err(|error| format!("app {number}: {error}"))
}

fn serve(sizes: &Amounts, number: u64, seed: u64) -> std::io::Result<()> {
    let mut random = Random::new(seed.wrapping_mul(1000) + number, 2);
    let memory = Mapping::new(random.between(sizes.anon) as usize)?;
    memory.want_small()?;
    let mut out = std::io::stdout();
    let pages = memory.pages() as u64;
    out.write_all(&[memory.address().to_le_bytes(), pages.to_le_bytes()].concat())?;
    out.flush()?;
    let buffers = (0..random.between(sizes.buffers)).map(|_| None).collect();
    let own_files = fs::read_dir(format!("{FOLDER}/own/{number}"))?.count() as u64;
    let plan = [sizes.threads, sizes.tables, sizes.areas, sizes.small, sizes.binder]
        .map(|range| random.between(range));
    let small = std::os::unix::net::UnixDatagram::pair()?;
    small.0.set_nonblocking(true)?;
    let tables = Vec::new();
    let pipe = std::io::pipe()?;
    let mut app =
        App { sizes, number, random, memory, own_files, buffers, tables, small, pipe, plan };
    let (mut asked, mut warm) = ([0], false);
    let mut input = std::io::stdin();
    while input.read_exact(&mut asked).is_ok() {
        if asked[0] == b'l' {
            app.launch(warm)?;
            warm = true;
            app.replace_buffer();
        } else {
            app.be_used()?;
        }
        out.write_all(&asked)?;
        out.flush()?;
    }
    Ok(())
}

/// The part of an amount that one part of a launch does.
fn part(at: u64, all: u64) -> std::ops::Range<u64> {
    at * all / PARTS..(at + 1) * all / PARTS
}

impl App<'_> {
    fn launch(&mut self, warm: bool) -> std::io::Result<()> {
        let first = self.random.below(2);
        let pages = self.memory.pages() as u64;
        let shared = self.sizes.shared_pages.div_ceil(256);
        for at in 0..PARTS {
            let think = if warm { self.sizes.think.1 } else { self.sizes.think.0 };
            rest(Duration::from_nanos(think / PARTS));
            if warm {
                for page in part(at, pages / 2) {
                    self.memory.touch((2 * page + first) as usize);
                }
            } else {
                self.grow(at, pages)?;
            }
            for file in part(at, self.own_files).filter(|file| !warm || file % 4 == 0) {
                read(&format!("{FOLDER}/own/{}/{file}", self.number), u64::MAX)?;
            }
            for file in part(at, shared / 2) {
                read(&format!("{FOLDER}/shared/{}", 2 * file + self.random.below(2)), u64::MAX)?;
            }
        }
        Ok(())
    }

    /// Takes what a new app takes, a part of each kind at a time.
    fn grow(&mut self, at: u64, pages: u64) -> std::io::Result<()> {
        let [threads, tables, areas, small, binder] = self.plan;
        for _ in part(at, threads) {
            std::thread::Builder::new().stack_size(STACK).spawn(|| {
                loop {
                    std::thread::park();
                }
            })?;
        }
        for _ in part(at, areas) {
            self.tables.push(Mapping::new(1)?);
        }
        for _ in part(at, tables) {
            let mapping = Mapping::new(HUGE / PAGE)?;
            mapping.look(0);
            self.tables.push(mapping);
        }
        for _ in part(at, small) {
            // A full queue keeps what it has.
            let _ = self.small.0.send(&[1; SMALL]);
        }
        for _ in part(at, binder.min(16)) {
            self.pipe.1.write_all(&[1; PAGE])?;
        }
        for buffer in part(at, self.buffers.len() as u64) {
            self.buffers[buffer as usize] = self.buffer();
        }
        for page in part(at, pages) {
            self.fill(page);
        }
        Ok(())
    }

    /// Writes a page: 8 % of pages hold one value, 2 % cannot be compressed, the others have 200 to 2,600 bytes of content.
    fn fill(&mut self, page: u64) {
        let bytes = match self.random.below(100) {
            0..8 => 1,
            8..10 => PAGE as u64,
            _ => 200 + self.random.below(2401),
        };
        let content: Vec<u8> =
            (0..bytes.div_ceil(8)).flat_map(|_| self.random.next().to_le_bytes()).collect();
        self.memory.write(page as usize, &content[..(bytes as usize).min(content.len())]);
    }

    /// Takes a graphics buffer: from the heap of DMA-BUF, or shared memory in a kernel without it.
    fn buffer(&mut self) -> Option<OwnedFd> {
        let bytes = self.random.between(self.sizes.buffer_pages) * PAGE as u64;
        if let Ok(buffer) = dma_buffer(bytes) {
            return Some(buffer);
        }
        let file = memfd_create("buffer", MemfdFlags::CLOEXEC).ok()?;
        ftruncate(&file, bytes).ok()?;
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes).ok()?;
        Some(file)
    }

    fn replace_buffer(&mut self) {
        let at = self.random.below(self.buffers.len() as u64) as usize;
        self.buffers[at] = None;
        self.buffers[at] = self.buffer();
    }

    fn be_used(&mut self) -> std::io::Result<()> {
        for _ in 0..TURNS {
            for _ in 0..self.sizes.turn_anon {
                let pages = self.memory.pages() as u64;
                let page = self.random.below(pages);
                self.memory.give_back(page as usize, 1)?;
                let page = self.random.below(pages);
                self.fill(page);
            }
            for _ in 0..self.sizes.turn_files.div_ceil(32) {
                read_media(self.sizes, &mut self.random, u64::MAX)?;
            }
            self.replace_buffer();
            rest(Duration::from_nanos(self.sizes.turn));
        }
        Ok(())
    }
}
