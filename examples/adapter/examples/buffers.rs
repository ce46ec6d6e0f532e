//! Buffers of 256 KiB of a database: 1 GiB is in use, then a quarter of it after frees at random, then a turnover at
//! random. What is resident, in how many huge pages it is, and the time: the adapter's pool, blocks in queues with
//! `MADV_FREE` as DuckDB's `BlockAllocator` has them, and `malloc`. Each in a process of its own, in turn.
//!
//! `cargo run --release --example buffers [ROUNDS]`; another `malloc` by `MALLOC=libjemalloc.so.2`.

use std::collections::{HashSet, VecDeque};
use std::env;
use std::fs;
use std::mem::MaybeUninit;
use std::process::Command;
use std::ptr::null_mut;
use std::time::Instant;

use adapter::buffers::{Buffer, FRAME_SHIFT, Pool, Seat, Tables, zone};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

const BLOCK: usize = 1 << FRAME_SHIFT;
const BLOCKS: usize = 4096;
const PAIRS: usize = 4 * BLOCKS;
const MIB: f64 = (1u64 << 20) as f64;

/// A pool of blocks of 256 KiB.
trait Blocks {
    type Block;
    fn take(&mut self) -> Self::Block;
    fn give(&mut self, block: Self::Block);
    fn bytes(block: &mut Self::Block) -> &mut [MaybeUninit<u8>];
    /// What the pool keeps for later goes back.
    fn flush(&mut self) {}
}

impl<'p> Blocks for Seat<'p, '_> {
    type Block = Buffer<'p>;
    fn take(&mut self) -> Buffer<'p> {
        Seat::take(self, 0).expect("it is large enough")
    }
    fn give(&mut self, block: Buffer<'p>) {
        self.give_back(block).expect("it is this pool's");
    }
    fn bytes<'b>(block: &'b mut Buffer<'p>) -> &'b mut [MaybeUninit<u8>] {
        // SAFETY: nothing but bytes is written to it.
        unsafe { std::slice::from_raw_parts_mut(block.as_mut_ptr().cast(), block.len()) }
    }
    fn flush(&mut self) {
        self.drain();
    }
}

/// DuckDB's scheme: numbers of blocks in queues, first in first out; 512 that were freed are given to the system in
/// runs of neighbours, and can be taken back until then.
struct Queues {
    start: *mut u8,
    untouched: VecDeque<u32>,
    touched: VecDeque<u32>,
    to_free: VecDeque<u32>,
}

impl Queues {
    const THRESHOLD: usize = 512;

    fn new() -> Self {
        let len = (BLOCKS + 8) * BLOCK;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping, which stays to the end of the process.
        let start = unsafe { mmap_anonymous(null_mut(), len, access, flags) }.expect("memory");
        let start = start.cast::<u8>();
        let start = start.wrapping_add(start.align_offset(8 * BLOCK));
        // SAFETY: the range is in the mapping.
        unsafe { madvise(start.cast(), BLOCKS * BLOCK, Advice::LinuxHugepage) }.expect("advice");
        let (touched, to_free) = (VecDeque::new(), VecDeque::new());
        Self { start, untouched: (0..BLOCKS as u32).collect(), touched, to_free }
    }
}

impl Blocks for Queues {
    type Block = (u32, &'static mut [MaybeUninit<u8>]);
    fn take(&mut self) -> Self::Block {
        let Self { untouched, touched, to_free, start } = self;
        let next = to_free.pop_front().or_else(|| touched.pop_front());
        let at = next.or_else(|| untouched.pop_front()).expect("it is large enough");
        // SAFETY: the block is in the mapping, and nobody else has its number.
        let block = unsafe { start.add(at as usize * BLOCK) }.cast();
        // SAFETY: as above.
        (at, unsafe { std::slice::from_raw_parts_mut(block, BLOCK) })
    }
    fn give(&mut self, (at, _): Self::Block) {
        self.to_free.push_back(at);
        if self.to_free.len() >= Self::THRESHOLD {
            self.flush();
        }
    }
    fn bytes(block: &mut Self::Block) -> &mut [MaybeUninit<u8>] {
        block.1
    }
    fn flush(&mut self) {
        let mut freed: Vec<u32> = self.to_free.drain(..).collect();
        freed.sort_unstable();
        for run in freed.chunk_by(|a, b| a + 1 == *b) {
            let start = self.start.wrapping_add(run[0] as usize * BLOCK).cast();
            // SAFETY: the blocks are in the mapping, and nobody has them.
            unsafe { madvise(start, run.len() * BLOCK, Advice::LinuxFree) }.expect("advice");
        }
        self.touched.extend(freed);
    }
}

/// The C library's allocator, or what is preloaded in its place.
struct Malloc;

impl Blocks for Malloc {
    type Block = Box<[MaybeUninit<u8>]>;
    fn take(&mut self) -> Self::Block {
        Box::new_uninit_slice(BLOCK)
    }
    fn give(&mut self, block: Self::Block) {
        drop(block);
    }
    fn bytes(block: &mut Self::Block) -> &mut [MaybeUninit<u8>] {
        block
    }
}

fn random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 20) as usize
}

/// Resident memory in MiB: all, of it in huge pages, and of it what the system may take.
fn resident() -> [f64; 3] {
    let text = fs::read_to_string("/proc/self/smaps_rollup").expect("Linux");
    ["Rss:", "AnonHugePages:", "LazyFree:"].map(|field| {
        let line = text.lines().find_map(|line| line.strip_prefix(field)).expect("a field");
        line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") / 1024.0
    })
}

/// Frees and takes blocks at random; returns the nanoseconds of a pair.
fn turn_over<B: Blocks>(
    pool: &mut B,
    live: &mut [Option<B::Block>],
    state: &mut u64,
    write: bool,
) -> f64 {
    let start = Instant::now();
    for _ in 0..PAIRS {
        let place = &mut live[random(state) % (BLOCKS / 4)];
        pool.give(place.take().expect("each place has one"));
        let block = place.insert(pool.take());
        if write {
            B::bytes(block).fill(MaybeUninit::new(1));
        }
    }
    start.elapsed().as_nanos() as f64 / PAIRS as f64
}

fn run<B: Blocks>(mut pool: B) {
    let (mut state, mut live) = (0x9e37_79b9_7f4a_7c15, Vec::with_capacity(BLOCKS));
    let base = resident()[0];
    for _ in 0..BLOCKS {
        let mut block = pool.take();
        B::bytes(&mut block).fill(MaybeUninit::new(1));
        live.push(Some(block));
    }
    while live.len() > BLOCKS / 4 {
        let at = random(&mut state) % live.len();
        pool.give(live.swap_remove(at).expect("each place has one"));
    }
    pool.flush();
    let dropped = resident();
    let written = turn_over(&mut pool, &mut live, &mut state, true);
    pool.flush();
    let [rss, huge, lazy] = resident();
    let address = |block: &mut Option<B::Block>| {
        B::bytes(block.as_mut().expect("each place has one")).as_ptr().addr() >> 21
    };
    let pages: HashSet<usize> = live.iter_mut().map(address).collect();
    let called = turn_over(&mut pool, &mut live, &mut state, false);
    live.into_iter().flatten().for_each(|block| pool.give(block));
    pool.flush();
    let empty = resident();
    let numbers = [
        dropped[0] - base,
        rss - base,
        lazy,
        huge,
        pages.len() as f64,
        empty[0] - base,
        empty[2],
        called,
        written / 1000.0,
    ];
    println!("{}", numbers.map(|number| number.to_string()).join(" "));
}

fn child(name: &str) {
    match name {
        "the pool" => {
            let (mut tables, mut locks) = (Tables::new(), Tables::new());
            let pool = Pool::new(BLOCKS * BLOCK, 1, &mut tables, &mut locks).expect("memory");
            run(pool.seat(0).expect("the only one"));
        }
        "queues" => run(Queues::new()),
        _ => run(Malloc),
    }
}

fn main() {
    let args: Vec<String> = env::args().collect();
    if let [_, flag, name] = &args[..] {
        assert_eq!(flag, "--child");
        return child(name);
    }
    let rounds = args.get(1).map_or(5, |n| n.parse().expect("a number of rounds"));
    let mut names = vec!["the pool", "queues", "malloc", "malloc, huge"];
    let other = env::var_os("MALLOC");
    names.extend(other.is_some().then_some("another"));
    let mut samples = vec![Vec::new(); names.len()];
    for _ in 0..rounds {
        for (name, samples) in names.iter().zip(&mut samples) {
            let mut run = Command::new(env::current_exe().expect("a path"));
            run.args(["--child", name]);
            match (*name, &other) {
                ("malloc, huge", _) => _ = run.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"),
                ("another", Some(library)) => _ = run.env("LD_PRELOAD", library),
                _ => {}
            }
            let text = String::from_utf8(run.output().expect("it runs").stdout).expect("numbers");
            let numbers = text.split_whitespace().map(|n| n.parse().expect("a number"));
            samples.push(numbers.collect::<Vec<f64>>());
        }
    }
    let tables = zone(BLOCKS * BLOCK, 1).metadata_size().expect("it is sound");
    let used = (BLOCKS / 4 * BLOCK) as f64 / MIB;
    println!("{} MiB, {used} of them stay in use; medians of {rounds}", (BLOCKS * BLOCK) >> 20);
    println!("the pool's tables: {tables} bytes, {} a block", tables as f64 / BLOCKS as f64);
    println!("MiB resident; 2 MiB pages with a block in use (least: {})", BLOCKS / 4 / 8);
    let head =
        ["dropped", "turned", "(lazy)", "huge", "pages", "empty", "(lazy)", "ns", "us+write"];
    println!("{:<14}{}", "", head.map(|word| format!("{word:>10}")).concat());
    for (name, samples) in names.iter().zip(&samples) {
        let median = |at: usize| {
            let mut column: Vec<f64> = samples.iter().map(|sample| sample[at]).collect();
            column.sort_by(f64::total_cmp);
            format!("{:>10.*}", usize::from(at == 8), column[column.len() / 2])
        };
        println!("{name:<14}{}", (0..head.len()).map(median).collect::<String>());
    }
}
