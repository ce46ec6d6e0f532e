//! Loads that recordings were made with: a mixture, unmovable memory that swings, and kernel memory that grows and shrinks.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use pageblock_simulate::workload::mixed::{HUGE_PAGES, MESSAGES, PIPE_PAGES, TABLE_PAGES, TABLES};
use rustix::fs::sync;

use super::{Random, begin, fill, finish, rest, start};
use crate::inside::memory::{Mapping, PAGE};
use crate::job::Mixed;
use crate::message::Measured;

/// The folder of the files.
const FOLDER: &str = "/data/files";
/// A page of a huge page, which is looked for.
const LOOKED_AT: u64 = 64;
/// The bytes of a message: an object of 1 KiB with its header.
const MESSAGE: usize = 640;

/// Runs the rounds.
pub(super) fn run(sizes: &Mixed, seed: u64) -> Result<Measured, String> {
    fs::create_dir_all(FOLDER).map_err(|error| format!("{FOLDER}: {error}"))?;
    let mut random = Random::new(seed, 1);
    let mut held = Held::default();
    let mut measured = Measured::default();
    for round in 0..sizes.rounds {
        begin(&format!("round {}", round + 1), round as f64 / sizes.rounds as f64)?;
        let io = |error: std::io::Error| format!("round {}: {error}", round + 1);
        if sizes.files > 0 {
            files(sizes, round, &mut random).map_err(io)?;
        }
        if sizes.small_files > 0 {
            metadata(sizes, round).map_err(io)?;
        }
        processes(sizes, round, seed)?;
        let pages = random.between(sizes.held[round as usize % sizes.held.len()]);
        held.swing_to(pages, &mut random).map_err(io)?;
        if round % sizes.burst_each == sizes.burst_each - 1 {
            burst(sizes.burst, &mut measured).map_err(io)?;
        }
        rest(Duration::from_millis(sizes.pause_ms));
    }
    sync();
    Ok(measured)
}

/// Writes files of 64 KiB and reads others again.
fn files(sizes: &Mixed, round: u64, random: &mut Random) -> std::io::Result<()> {
    let count = sizes.files;
    let folder = |round: u64| format!("{FOLDER}/{}", round % 4);
    let _ = fs::remove_dir_all(folder(round));
    fs::create_dir_all(folder(round))?;
    let block = [1; PAGE];
    // All files grow together.
    let mut open = Vec::new();
    for at in 0..count {
        open.push(File::create(format!("{}/{at}", folder(round)))?);
    }
    for _ in 0..sizes.file_pages {
        open.iter_mut().try_for_each(|file| file.write_all(&block))?;
    }
    drop(open);
    let mut page = [0; PAGE];
    for _ in 0..count {
        let older = random.below(round.min(3) + 1);
        let path = format!("{}/{}", folder(round - older), random.below(count));
        let mut file = File::open(path)?;
        while file.read(&mut page)? > 0 {}
    }
    Ok(())
}

/// Makes many small files in folders, and removes those of two rounds ago: inodes, dentries and blocks of folders.
fn metadata(sizes: &Mixed, round: u64) -> std::io::Result<()> {
    let folder = |round: u64| format!("{FOLDER}/meta-{round}");
    for at in 0..sizes.small_files {
        if at % 64 == 0 {
            fs::create_dir_all(format!("{}/{}", folder(round), at / 64))?;
        }
        File::create(format!("{}/{}/{at}", folder(round), at / 64))?.write_all(b"x")?;
    }
    if round >= 2 {
        fs::remove_dir_all(folder(round - 2))?;
    }
    Ok(())
}

/// Runs processes side by side that touch memory and end.
fn processes(sizes: &Mixed, round: u64, seed: u64) -> Result<(), String> {
    let list: Vec<_> = (0..sizes.processes)
        .map(|at| {
            let seed = seed * 1000 + round * sizes.processes + at;
            start("toucher", &[sizes.process_pages, seed])
        })
        .collect();
    list.into_iter().try_for_each(|process| finish("a process", process?))
}

/// Touches memory in random order, half of it, and ends.
pub(super) fn toucher(numbers: &[u64]) -> Result<(), String> {
    let &[pages, seed] = numbers else { return Err("a process has two numbers".to_owned()) };
    let mut memory = Mapping::new(pages.max(1) as usize).map_err(|error| error.to_string())?;
    memory.want_small().map_err(|error| error.to_string())?;
    let mut random = Random::new(seed, 3);
    (0..pages / 2).for_each(|_| memory.touch(random.below(pages) as usize));
    Ok(())
}

/// Asks for huge pages, and looks which it got.
fn burst(regions: u64, measured: &mut Measured) -> std::io::Result<()> {
    let mut memory = Mapping::new((regions * HUGE_PAGES) as usize)?;
    memory.want_huge()?;
    for first in (0..regions).map(|region| region * HUGE_PAGES) {
        let begun = Instant::now();
        memory.touch(first as usize);
        let time = begun.elapsed().as_nanos() as u64;
        let huge = memory.is_there((first + LOOKED_AT) as usize)?;
        let name = if huge { "burst-huge-1" } else { "burst-base-1" };
        measured.samples.entry(name.to_owned()).or_default().push(time);
    }
    Ok(())
}

/// Kernel memory that is held: messages in sockets, pages in pipes, and tables of pages.
#[derive(Default)]
struct Held {
    list: Vec<(u64, Piece)>,
}

/// One piece of kernel memory, with about its pages.
#[expect(dead_code, reason = "a piece is held until it is dropped")]
enum Piece {
    Messages(UnixStream, UnixStream),
    Pipe(std::io::PipeReader, std::io::PipeWriter),
    Tables(Mapping),
}

impl Held {
    fn pages(&self) -> u64 {
        self.list.iter().map(|(pages, _)| pages).sum()
    }

    /// Holds more or less, until it is about so many pages.
    fn swing_to(&mut self, pages: u64, random: &mut Random) -> std::io::Result<()> {
        while self.pages() > pages && !self.list.is_empty() {
            let at = random.below(self.list.len() as u64) as usize;
            self.list.swap_remove(at);
        }
        let mut held = self.pages();
        while held < pages {
            let piece = match random.below(4) {
                0 => tables()?,
                1 => pipe()?,
                _ => messages()?,
            };
            held += piece.0;
            self.list.push(piece);
        }
        Ok(())
    }
}

fn messages() -> std::io::Result<(u64, Piece)> {
    let (mut from, to) = UnixStream::pair()?;
    fill(&mut from, &[0; MESSAGE], MESSAGES)?;
    Ok((MESSAGES / 4, Piece::Messages(from, to)))
}

fn pipe() -> std::io::Result<(u64, Piece)> {
    let (to, mut from) = std::io::pipe()?;
    fill(&mut from, &[1; PAGE], PIPE_PAGES)?;
    Ok((PIPE_PAGES, Piece::Pipe(to, from)))
}

/// Maps memory with one page for each table of pages.
fn tables() -> std::io::Result<(u64, Piece)> {
    let mut memory = Mapping::new((TABLES * TABLE_PAGES) as usize)?;
    memory.want_small()?;
    (0..TABLES).for_each(|at| memory.touch((at * TABLE_PAGES) as usize));
    Ok((2 * TABLES, Piece::Tables(memory)))
}
