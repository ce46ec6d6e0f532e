//! Adapters beside what they replace, by the same requests through the same trait: single pages, then 1 to 16 pages.
//!
//! Memory is filled until the first refusal, freed at random to a quarter, and turned over at random there; what is free
//! in whole aligned blocks of 2 MiB then has been won back. At last it is filled again. Each in a process of its own.
//!
//! `cargo run --release --example beside [ROUNDS]`; one alone, for callgrind: `beside --child NAME MIB LOAD TURNS`.

#[path = "../tests/host/mod.rs"]
mod host;

use std::alloc::Layout;
use std::env;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::process::Command;
use std::ptr::null_mut;
use std::time::Instant;

use adapter::arceos::Pages as OldPages;
use adapter::ax_alloc::Kernel;
use adapter::{asterinas, hermit};
use ax_alloc::{AllocatorOps, UsageKind};
use ax_allocator::{BaseAllocator, BitmapPageAllocator, PageAllocator};
use ax_sync::SpinLock;
use buddy_slab_allocator::BuddyAllocator;
use free_list::{FreeList, PageLayout, PageRange};
use ostd::mm::frame::GlobalFrameAllocator;
use pageblock::frame::FrameRange;
use pageblock::policy::Policy;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};

const PAGE: usize = 4096;
const MIB: usize = 1 << 20;
const HUGE: usize = 512;
const TURNS: usize = 20;

/// What allocates pages.
trait Pages {
    fn take(&mut self, pages: usize, align: usize) -> Option<usize>;
    fn give(&mut self, start: usize, pages: usize);
    /// What is kept for later is free.
    fn flush(&mut self) {}
    /// Bytes of its tables now.
    fn tables(&self) -> usize;
}

/// A global allocator of Asterinas, and the bytes that it adds.
struct Global(&'static dyn GlobalFrameAllocator, fn(), usize);

impl Pages for Global {
    fn take(&mut self, pages: usize, align: usize) -> Option<usize> {
        self.0.alloc(Layout::from_size_align(pages * PAGE, align * PAGE).expect("a layout"))
    }
    fn give(&mut self, start: usize, pages: usize) {
        self.0.dealloc(start, pages * PAGE);
    }
    fn flush(&mut self) {
        self.1();
    }
    fn tables(&self) -> usize {
        self.2
    }
}

/// `ax-alloc`'s pages today, behind its lock.
struct Buddy(SpinLock<BuddyAllocator<PAGE>>, usize);

impl Pages for Buddy {
    fn take(&mut self, pages: usize, align: usize) -> Option<usize> {
        self.0.lock_irqsave().alloc_pages(pages, align * PAGE).ok()
    }
    fn give(&mut self, start: usize, pages: usize) {
        self.0.lock_irqsave().dealloc_pages(start, pages);
    }
    fn tables(&self) -> usize {
        self.1
    }
}

/// An allocator of `ax-alloc`.
struct AxAlloc(Kernel);

impl Pages for AxAlloc {
    fn take(&mut self, pages: usize, align: usize) -> Option<usize> {
        self.0.alloc_pages(pages, align * PAGE, UsageKind::VirtMem).ok()
    }
    fn give(&mut self, start: usize, pages: usize) {
        self.0.dealloc_pages(start, pages, UsageKind::VirtMem);
    }
    fn tables(&self) -> usize {
        self.0.tables_size()
    }
}

/// A page allocator of ArceOS as it was.
struct AxOld<P>(P, usize);

impl<P: PageAllocator> Pages for AxOld<P> {
    fn take(&mut self, pages: usize, align: usize) -> Option<usize> {
        self.0.alloc_pages(pages, align * PAGE).ok()
    }
    fn give(&mut self, start: usize, pages: usize) {
        self.0.dealloc_pages(start, pages);
    }
    fn tables(&self) -> usize {
        self.1
    }
}

fn layout(pages: usize, align: usize) -> PageLayout {
    PageLayout::from_size_align(pages * PAGE, align * PAGE).expect("a layout")
}

fn pages(start: usize, pages: usize) -> PageRange {
    PageRange::from_start_len(start, pages * PAGE).expect("a range")
}

impl Pages for FreeList<16> {
    fn take(&mut self, pages: usize, align: usize) -> Option<usize> {
        Some(self.allocate(layout(pages, align)).ok()?.start())
    }
    fn give(&mut self, start: usize, count: usize) {
        // SAFETY: nobody uses this memory.
        unsafe { self.deallocate(pages(start, count)) }.expect("pages in use");
    }
    fn tables(&self) -> usize {
        self.iter().count().max(16) * size_of::<PageRange>()
    }
}

/// Hermit's adapter.
struct Hermit(hermit::PageList<'static>, usize);

impl Pages for Hermit {
    fn take(&mut self, pages: usize, align: usize) -> Option<usize> {
        Some(self.0.allocate(layout(pages, align)).ok()?.start())
    }
    fn give(&mut self, start: usize, count: usize) {
        self.0.deallocate(pages(start, count)).expect("pages in use");
    }
    fn tables(&self) -> usize {
        self.1
    }
}

fn random(state: &mut u64) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 20) as usize
}

/// The sizes that are asked for.
fn size(load: &str, state: &mut u64) -> usize {
    if load == "1" { 1 } else { 1 + random(state) % 16 }
}

/// Nanoseconds of each of so many operations.
fn nanoseconds(operations: usize, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_nanos() as f64 / operations as f64
}

/// Runs a load; prints numbers, in the order of `COLUMNS`.
fn run(mut of: impl Pages, mib: usize, load: &str, turns: usize) {
    let total = mib * MIB / PAGE;
    let (mut state, mut live, mut used) = (0x9e37_79b9_7f4a_7c15, Vec::with_capacity(total), 0);
    let start = Instant::now();
    loop {
        let count = size(load, &mut state);
        let Some(start) = of.take(count, 1) else { break };
        live.push((start, count));
        used += count;
    }
    let fill = start.elapsed().as_nanos() as f64 / live.len() as f64;
    let filled = used as f64 / total as f64 * 100.0;
    let mut freed = Vec::with_capacity(live.len());
    while used > total / 4 {
        let at = random(&mut state) % live.len();
        used -= live[at].1;
        freed.push(live.swap_remove(at));
    }
    let free = nanoseconds(freed.len(), || {
        freed.iter().for_each(|&(start, count)| of.give(start, count));
    });
    let pairs = turns * live.len();
    let mut refused = 0;
    let turn = nanoseconds(pairs, || {
        for _ in 0..pairs {
            if live.is_empty() {
                break;
            }
            let at = random(&mut state) % live.len();
            let (start, count) = live[at];
            of.give(start, count);
            let count = size(load, &mut state);
            match black_box(of.take(count, 1)) {
                Some(start) => live[at] = (start, count),
                None => {
                    live.swap_remove(at);
                    refused += 1;
                }
            }
        }
    });
    of.flush();
    let used: usize = live.iter().map(|&(_, count)| count).sum();
    let tables = of.tables() as f64 / total as f64;
    let huge: Vec<_> = std::iter::from_fn(|| of.take(HUGE, HUGE)).collect();
    let won = huge.len();
    huge.into_iter().for_each(|start| of.give(start, HUGE));
    let mut again = used;
    loop {
        let count = size(load, &mut state);
        if of.take(count, 1).is_none() {
            break;
        }
        again += count;
    }
    let again = again as f64 / total as f64 * 100.0;
    let possible = (total - used) / HUGE;
    let refused = f64::from(refused) / pairs as f64 * 100.0;
    let won = won as f64 / possible as f64 * 100.0;
    let numbers = [filled, fill, free, turn, refused, won, again, tables];
    println!("{}", numbers.map(|number| number.to_string()).join(" "));
}

const COLUMNS: [&str; 8] =
    ["filled %", "ns take", "ns free", "ns pair", "refused %", "won %", "again %", "B/page"];

/// Memory that nothing is written to but tables.
fn memory(bytes: usize) -> &'static mut [u8] {
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: a new mapping, which stays to the end of the process.
    let start = unsafe { mmap_anonymous(null_mut(), bytes + 2 * MIB, access, flags) };
    let start = start.expect("memory").cast::<u8>();
    let start = start.wrapping_add(start.align_offset(2 * MIB));
    // SAFETY: the range is in the mapping.
    unsafe { std::slice::from_raw_parts_mut(start, bytes) }
}

fn tables(bytes: usize) -> &'static mut [MaybeUninit<u8>] {
    Box::leak(Box::new_uninit_slice(bytes))
}

fn child(name: &str, mib: usize, load: &str, turns: usize) {
    static FRAMES: asterinas::Frames<{ 1 << 19 }> = asterinas::Frames::new();
    let bytes = mib * MIB;
    let global = |frames: &'static dyn GlobalFrameAllocator, flush: fn(), tables| {
        ostd::host::boot(bytes, 1);
        frames.add_free_memory(0, bytes);
        run(Global(frames, flush, tables), mib, load, turns);
    };
    match name {
        "osdk-frame-allocator" => global(&osdk_frame_allocator::FrameAllocator, || (), 0),
        "for Asterinas" => global(&FRAMES, || FRAMES.drain(), tables_of(bytes)),
        "buddy-slab-allocator" => {
            let mut buddy = BuddyAllocator::new();
            // SAFETY: memory of its own.
            unsafe { buddy.init(memory(bytes)) }.expect("memory");
            let tables = bytes - buddy.managed_bytes();
            run(Buddy(SpinLock::new(buddy), tables), mib, load, turns);
        }
        "for ax-alloc" => {
            let start = memory(bytes).as_ptr().addr();
            let kernel = Kernel::new(start, start + bytes, start + bytes);
            kernel.init(start, bytes).expect("memory");
            run(AxAlloc(kernel), mib, load, turns);
        }
        "bitmap-allocator" => {
            let mut bitmap = BitmapPageAllocator::<PAGE>::new();
            bitmap.init(1 << 30, bytes);
            run(AxOld(bitmap, size_of::<BitmapPageAllocator<PAGE>>()), mib, load, turns);
        }
        "for ArceOS" => {
            let span = FrameRange::new(1 << 18, (1 << 18) + (bytes / PAGE) as u64);
            let size = OldPages::tables_size(span, Policy::default()).expect("a zone");
            let pages = OldPages::new(tables(size), span, Policy::default());
            let mut pages = pages.expect("a zone");
            pages.init(1 << 30, bytes);
            run(AxOld(pages, size), mib, load, turns);
        }
        "free-list" => {
            let mut list = FreeList::<16>::new();
            // SAFETY: nobody uses this memory.
            unsafe { list.deallocate(pages(2 * MIB, bytes / PAGE)) }.expect("new memory");
            run(list, mib, load, turns);
        }
        "for Hermit" => {
            let span = pages(2 * MIB, bytes / PAGE);
            let size = hermit::PageList::tables_size(span).expect("a zone");
            let mut list = hermit::PageList::new(tables(size), span).expect("a zone");
            list.deallocate(span).expect("new memory");
            run(Hermit(list, size), mib, load, turns);
        }
        _ => panic!("{name}: nobody"),
    }
}

/// Bytes that one zone on one CPU needs.
fn tables_of(bytes: usize) -> usize {
    Kernel::new(0, bytes, bytes).tables_size()
}

fn main() {
    let args: Vec<String> = env::args().collect();
    let number = |at: usize| args[at].parse().expect("a number");
    if let [_, flag, name, _, load, _] = &args[..] {
        assert_eq!(flag, "--child");
        return child(name, number(3), load, number(5));
    }
    let rounds = if args.len() > 1 { number(1) } else { 5 };
    let pairs = [
        ("osdk-frame-allocator", "for Asterinas", 1024),
        ("buddy-slab-allocator", "for ax-alloc", 1024),
        ("bitmap-allocator", "for ArceOS", 1024),
        ("free-list", "for Hermit", 16),
        ("free-list", "for Hermit", 64),
    ];
    println!("medians of {rounds}; a pair is a free and an allocation at a quarter in use");
    println!(
        "{:<22}{:>5}{:>6}{}",
        "",
        "MiB",
        "pages",
        COLUMNS.map(|c| format!("{c:>10}")).concat()
    );
    for (theirs, ours, mib) in pairs {
        for load in ["1", "1-16"] {
            let mut samples = [Vec::new(), Vec::new()];
            for _ in 0..rounds {
                for (name, samples) in [theirs, ours].iter().zip(&mut samples) {
                    let mut run = Command::new(env::current_exe().expect("a path"));
                    run.args(["--child", name, &mib.to_string(), load, &TURNS.to_string()]);
                    let out = run.output().expect("it runs");
                    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
                    let text = String::from_utf8(out.stdout).expect("numbers");
                    let numbers = text.split_whitespace().map(|n| n.parse().expect("a number"));
                    samples.push(numbers.collect::<Vec<f64>>());
                }
            }
            for (name, samples) in [theirs, ours].iter().zip(&samples) {
                let median = |at: usize| {
                    let mut column: Vec<f64> = samples.iter().map(|sample| sample[at]).collect();
                    column.sort_by(f64::total_cmp);
                    let (digits, median) = (if at == 7 { 2 } else { 1 }, column[column.len() / 2]);
                    format!("{median:>10.digits$}")
                };
                let numbers: String = (0..COLUMNS.len()).map(median).collect();
                println!("{name:<22}{mib:>5}{load:>6}{numbers}");
            }
        }
    }
}
