//! Counts the free lists or words of bitmaps that requests look at under superpageblocks, by size of memory.
//!
//! ```text
//! cargo run --release -p pageblock-kernel --example superpageblock_search            # up to 1 TiB, in 3 GiB of tables
//! cargo run --release -p pageblock-kernel --example superpageblock_search -- 4096    # also 4 TiB, in 10 GiB
//! ```
//!
//! Memory is filled with huge pages; a fifth of them is freed at random in every second gigabyte. Then pages of processes and
//! of the kernel come and go in bursts (orders 0 to 3, four of five movable), first under Linux; the last requests are counted,
//! those that CPU lists serve too.

use std::mem::MaybeUninit;

use pageblock::alloc::Allocator;
use pageblock::decide::Decide;
use pageblock::event::{Event, Observer};
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::policy::Policy;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock_kernel::own;

const POLICIES: [Option<&str>; 3] = [None, Some("superpageblocks"), Some("superpageblocks-bitmap")];
const SEEDS: u64 = 5;
/// Requests under Linux, then under the policy without being counted, and those that are.
const REQUESTS: [usize; 3] = [100_000, 50_000, 50_000];
/// Blocks that live before a burst, and those of a burst.
const LIVE: usize = 20_000;
const BURST: usize = 5_000;
const GIB_FRAMES: u64 = 1 << 18;
const HUGE: Order = 9;

struct Under(Option<Box<dyn Decide>>);

impl Observer for Under {
    fn event(&mut self, _: Event) {}

    fn decider(&mut self) -> Option<impl Decide> {
        self.0.as_deref_mut()
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % below
    }
}

/// Takes all memory as huge pages, and frees a tenth of them.
fn open(allocator: &mut Allocator<'_>, random: &mut Random, under: &mut Under) {
    let request = Request::new(HUGE, Gfp::GFP_HIGHUSER_MOVABLE);
    let mut huge = Vec::new();
    while let Ok(pfn) = allocator.alloc(CpuId(0), &request, under) {
        huge.push(pfn);
    }
    for pfn in huge {
        let in_half = (pfn.0 / GIB_FRAMES).is_multiple_of(2);
        if in_half && random.below(5) == 0 {
            allocator.free(CpuId(0), pfn, HUGE, under).expect("it is allocated");
        }
    }
}

/// Returns the looks of each counted request.
fn looks(gib: u64, name: Option<&str>, seed: u64) -> Vec<u64> {
    let span = FrameRange::new(0, gib * GIB_FRAMES);
    let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
    let policy = Policy::parse("linux-7.3").expect("a preset");
    let setup = Setup::new(policy, &zones, &[NodeId(0); 2]);
    let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().expect("a machine")];
    let mut allocator = Allocator::new(&mut memory, &setup).expect("its tables");
    allocator.release(span).expect("its frames");
    allocator.retune();
    let (mut random, mut under) = (Random(seed), Under(None));
    open(&mut allocator, &mut random, &mut under);
    let (mut live, mut counted) = (Vec::new(), Vec::new());
    for at in 0..REQUESTS.iter().sum() {
        if at == REQUESTS[0] {
            under = Under(name.map(|name| (own::find(name).expect("a proposal").make)()));
        }
        let cpu = CpuId(random.below(2) as usize);
        let order = random.below(4) as Order;
        let gfp = if random.below(5) == 0 { Gfp::GFP_KERNEL } else { Gfp::GFP_HIGHUSER_MOVABLE };
        let before = probes(&allocator);
        if let Ok(pfn) = allocator.alloc(cpu, &Request::new(order, gfp), &mut under) {
            live.push((pfn, order));
        }
        if at >= REQUESTS[0] + REQUESTS[1] {
            counted.push(probes(&allocator) - before);
        }
        let ends = if live.len() >= LIVE + BURST { BURST } else { 0 };
        for _ in 0..ends {
            let any = random.below(live.len() as u64) as usize;
            let (pfn, order): (Pfn, Order) = live.swap_remove(any);
            allocator.free(cpu, pfn, order, &mut under).expect("it is allocated");
        }
    }
    counted
}

fn probes(allocator: &Allocator<'_>) -> u64 {
    allocator.counters(ZoneIndex(0)).expect("a zone").list_probes
}

fn main() {
    let largest = std::env::args().nth(1).map_or(1024, |gib| match gib.parse() {
        Ok(gib) => gib,
        Err(_) => panic!("{gib}: a number of GiB"),
    });
    println!(
        "of {} requests, {SEEDS} seeds        looks a request  reach the zone  looks of these  most",
        REQUESTS[2]
    );
    for gib in [16, 64, 256, 1024, 4096].into_iter().filter(|gib| *gib <= largest) {
        for name in POLICIES {
            let mut all: Vec<u64> = (1..=SEEDS).flat_map(|seed| looks(gib, name, seed)).collect();
            all.sort_unstable();
            let sum = all.iter().sum::<u64>() as f64;
            let reach = all.iter().filter(|looks| **looks > 0).count() as f64;
            let (mean, share, each) =
                (sum / all.len() as f64, 100.0 * reach / all.len() as f64, sum / reach);
            let form = name.map_or("linux", |name| name.trim_start_matches("super"));
            let most = all[all.len() - 1];
            println!("{gib:>5} GiB {form:<18} {mean:>15.2} {share:>13.1} % {each:>15.1} {most:>5}");
        }
    }
}
