//! Loads that recordings were made with: a mixture, unmovable memory that swings, and kernel memory that grows and shrinks.
//! All amounts are shares of the guest's memory.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::fs::sync;

use super::{Random, begin, finish, rest, start};
use crate::inside::memory::{Mapping, PAGE};
use crate::job::{Mixed, Mixture};
use crate::message::Measured;

/// The folder of the files.
const FOLDER: &str = "/data/files";
/// Pages of a file, and of a huge page.
const FILE_PAGES: u64 = 16;
const HUGE_PAGES: u64 = 512;
/// The bytes of a message: an object of 1 KiB with its header.
const MESSAGE: usize = 640;
/// Messages that a pair of sockets holds.
const MESSAGES: u64 = 64;
/// Pages that a pipe holds, and pages a table of pages maps.
const PIPE_PAGES: u64 = 16;
const TABLE_PAGES: u64 = 512;
/// The time between two rounds, in which kswapd and kcompactd end their work.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs the rounds of a mixture.
pub(super) fn run(sizes: &Mixed, seed: u64) -> Result<Measured, String> {
    fs::create_dir_all(FOLDER).map_err(|error| format!("{FOLDER}: {error}"))?;
    let mut random = Random::new(seed, 1);
    let mut held = Held::default();
    for round in 0..sizes.rounds {
        begin(&format!("round {}", round + 1), round as f64 / sizes.rounds as f64)?;
        let io = |error: std::io::Error| format!("round {}: {error}", round + 1);
        match sizes.mixture {
            Mixture::Mixed => {
                files(sizes, round, &mut random).map_err(io)?;
                processes(sizes, round, seed)?;
                held.swing_to(sizes.pages * (2 + random.below(6)) / 100, &mut random)
                    .map_err(io)?;
            }
            Mixture::Oscillating => {
                // Up to 30 % of memory and back to 3 %.
                let percent = if round % 2 == 0 { 30 } else { 3 };
                files(sizes, round, &mut random).map_err(io)?;
                held.swing_to(sizes.pages * percent / 100, &mut random).map_err(io)?;
            }
            Mixture::Kernel => {
                let percent = [40, 10, 55, 5][round as usize % 4];
                metadata(sizes, round).map_err(io)?;
                held.swing_to(sizes.pages * percent / 100, &mut random).map_err(io)?;
            }
        }
        if sizes.burst_each > 0 && round % sizes.burst_each == sizes.burst_each - 1 {
            burst(sizes).map_err(io)?;
        }
        rest(PAUSE);
    }
    sync();
    Ok(Measured::default())
}

/// Writes files of 64 KiB and reads others again.
fn files(sizes: &Mixed, round: u64, random: &mut Random) -> std::io::Result<()> {
    let count = (sizes.pages / 5 / FILE_PAGES).max(1);
    let folder = |round: u64| format!("{FOLDER}/{}", round % 4);
    let _ = fs::remove_dir_all(folder(round));
    fs::create_dir_all(folder(round))?;
    let block = [1; PAGE];
    // All files grow together.
    let mut open = Vec::new();
    for at in 0..count {
        open.push(File::create(format!("{}/{at}", folder(round)))?);
    }
    for _ in 0..FILE_PAGES {
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
    for at in 0..sizes.pages / 64 {
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
    let list: Vec<_> = (0..8)
        .map(|at| start("toucher", &[sizes.pages / 40, seed * 1000 + round * 8 + at]))
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

/// Asks for huge pages, a tenth of memory.
fn burst(sizes: &Mixed) -> std::io::Result<()> {
    let regions = (sizes.pages / 10 / HUGE_PAGES).max(1);
    let mut memory = Mapping::new((regions * HUGE_PAGES) as usize)?;
    memory.want_huge()?;
    (0..regions).for_each(|region| memory.touch((region * HUGE_PAGES) as usize));
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
    for _ in 0..MESSAGES {
        from.write_all(&[0; MESSAGE])?;
    }
    Ok((MESSAGES / 4, Piece::Messages(from, to)))
}

fn pipe() -> std::io::Result<(u64, Piece)> {
    let (to, mut from) = std::io::pipe()?;
    for _ in 0..PIPE_PAGES {
        from.write_all(&[1; PAGE])?;
    }
    Ok((PIPE_PAGES, Piece::Pipe(to, from)))
}

/// Maps memory of which each table of pages has one page.
fn tables() -> std::io::Result<(u64, Piece)> {
    const TABLES: u64 = 8;
    let mut memory = Mapping::new((TABLES * TABLE_PAGES) as usize)?;
    memory.want_small()?;
    (0..TABLES).for_each(|at| memory.touch((at * TABLE_PAGES) as usize));
    Ok((2 * TABLES, Piece::Tables(memory)))
}
