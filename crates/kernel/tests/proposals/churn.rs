//! What proposals do under a load, beside Linux: requests of three kinds at random on two CPUs, whose pages live for
//! different times and are freed by any CPU.

use std::collections::VecDeque;
use std::ops::Range;

use pageblock::alloc::Allocator;
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, ZoneIndex};
use pageblock::request::{Gfp, Request};
use pageblock::zone::Zone;

use crate::{FRAMES, MOVABLE, Under, in_zone};

const BLOCK: u64 = 512;
const SEEDS: u64 = 8;

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % below
    }
}

/// A kind of request: its flags, its orders, and how many live at most.
type Kind = (Gfp, Range<u64>, usize);

/// Buffers in flight, a process's memory, what is kept, in orders that CPU lists hold.
const KINDS: [Kind; 3] = [(NOWAIT, 0..3, 40), (ANON, 0..1, 6000), (Gfp::GFP_KERNEL, 0..3, 1200)];
/// The same for orders that go to the zone.
const LARGE: [Kind; 3] = [(NOWAIT, 4..6, 20), (TABLES, 4..6, 120), (Gfp::GFP_KERNEL, 4..6, 120)];

const NOWAIT: Gfp = Gfp::KSWAPD_RECLAIM;
const ANON: Gfp = Gfp(MOVABLE.0 | Gfp::ZERO.0);
const TABLES: Gfp = Gfp(Gfp::GFP_KERNEL.0 | Gfp::ZERO.0);

/// Blocks in use by kind: the first frame and the order.
type Live = [VecDeque<(Pfn, Order)>; 3];

/// Runs the load, ends those kinds of pages that `ends` names, and returns the mean over the seeds of what `measure` finds.
fn mean(
    name: Option<&str>,
    kinds: &[Kind; 3],
    ends: [bool; 3],
    measure: impl Fn(&Allocator<'_>) -> u64,
) -> f64 {
    let one = |seed| {
        in_zone("linux-7.3", |allocator| {
            let (mut under, mut random) = (Under::of(name), Random(seed));
            let mut live = Live::default();
            for _ in 0..60_000 {
                let cpu = CpuId(random.below(2) as usize);
                let at = [0, 1, 1, 1, 2][random.below(5) as usize];
                let (gfp, ref orders, most) = kinds[at];
                let order = (orders.start + random.below(orders.end - orders.start)) as Order;
                if let Ok(pfn) = allocator.alloc(cpu, &Request::new(order, gfp), &mut under) {
                    live[at].push_back((pfn, order));
                }
                while live[at].len() > most {
                    let any = random.below(live[at].len() as u64) as usize;
                    let (pfn, order) = live[at].swap_remove_back(any).unwrap();
                    let cpu = CpuId(random.below(2) as usize);
                    allocator.free(cpu, pfn, order, &mut under).unwrap();
                }
            }
            for (of, _) in live.iter_mut().zip(ends).filter(|(_, ends)| *ends) {
                for (pfn, order) in of.drain(..) {
                    allocator.free(CpuId(0), pfn, order, &mut under).unwrap();
                }
            }
            allocator.drain_all(&mut under);
            measure(allocator)
        })
    };
    (1..=SEEDS).map(one).sum::<u64>() as f64 / SEEDS as f64
}

fn locks(allocator: &Allocator<'_>) -> u64 {
    allocator.counters(ZoneIndex(0)).unwrap().lock_acquired
}

fn pageblocks(zone: &Zone<'_>, is: impl Fn(u64, u64, u64) -> bool) -> Vec<bool> {
    let of = |at| {
        let usage = zone.block_usage(Pfn(at * BLOCK)).unwrap();
        is(usage.movable, usage.unmovable, usage.free)
    };
    (0..FRAMES / BLOCK).map(of).collect()
}

/// Pageblocks without an allocated page.
fn free_pageblocks(allocator: &Allocator<'_>) -> u64 {
    let free = pageblocks(&allocator.zones()[0], |movable, fixed, _| movable + fixed == 0);
    free.into_iter().filter(|free| *free).count() as u64
}

/// The longest run of pageblocks without an unmovable page.
fn longest_movable(allocator: &Allocator<'_>) -> u64 {
    let movable = pageblocks(&allocator.zones()[0], |_, fixed, _| fixed == 0);
    movable.split(|movable| !movable).map(<[bool]>::len).max().unwrap_or(0) as u64
}

#[test]
fn owners_save_locks() {
    let of = |name| mean(name, &KINDS, [false; 3], locks);
    let (linux, owners) = (of(None), of(Some("owners")));
    println!("locks: {linux} {owners}");
    assert!(owners < 0.9 * linux, "{owners} {linux}");
}

#[test]
fn lifetimes_free_whole_pageblocks() {
    let of = |name| mean(name, &LARGE, [true, true, false], free_pageblocks);
    let (linux, lifetimes) = (of(None), of(Some("lifetimes")));
    println!("free pageblocks: {linux} {lifetimes}");
    assert!(lifetimes > linux, "{lifetimes} {linux}");
}

#[test]
fn a_boundary_keeps_movable_memory_in_one_piece() {
    let of = |name| mean(name, &KINDS, [false; 3], longest_movable);
    let (linux, boundary) = (of(None), of(Some("boundary")));
    println!("longest run: {linux} {boundary}");
    assert!(boundary > linux, "{boundary} {linux}");
}

/// Fills memory with blocks of order 4, frees half of them at random, then a tenth of the others again and again for new
/// ones (LLFree's benchmark `frag`). Returns the pageblocks that are free at last, the mean over the seeds.
fn defragmented(name: Option<&str>) -> f64 {
    let one = |seed| {
        in_zone("linux-7.3", |allocator| {
            let (mut under, mut random) = (Under::of(name), Random(seed));
            let request = Request::new(4, MOVABLE);
            let mut live = VecDeque::new();
            while let Ok(pfn) = allocator.alloc(CpuId(0), &request, &mut under) {
                live.push_back(pfn);
            }
            let half = live.len() / 2;
            let mut free =
                |allocator: &mut Allocator<'_>, live: &mut VecDeque<Pfn>, under: &mut _| {
                    let at = random.below(live.len() as u64) as usize;
                    allocator.free(CpuId(0), live.swap_remove_back(at).unwrap(), 4, under).unwrap();
                };
            (0..half).for_each(|_| free(allocator, &mut live, &mut under));
            for _ in 0..60 {
                (0..half / 10).for_each(|_| free(allocator, &mut live, &mut under));
                let taken = (0..half / 10)
                    .map(|_| allocator.alloc(CpuId(0), &request, &mut under).unwrap());
                live.extend(taken.collect::<Vec<_>>());
            }
            free_pageblocks(allocator)
        })
    };
    (1..=SEEDS).map(one).sum::<u64>() as f64 / SEEDS as f64
}

#[test]
fn trees_fill_up_again() {
    let (linux, trees) = (defragmented(None), defragmented(Some("trees")));
    println!("free pageblocks: {linux} {trees}");
    assert!(trees > linux, "{trees} {linux}");
}
