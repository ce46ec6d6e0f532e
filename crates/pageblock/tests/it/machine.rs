//! Small machines for tests, and a text language for the state of a zone.
//!
//! A pageblock is a line: the letter of its type (`show_mem`'s: U M E H C I R), then what fills it
//! from its start: `5` is a free block of order 5, `u3` one in use whose content stays, `m3` one
//! whose content can be moved; `5 m5 *6` repeats what the line has so far. A block larger than a
//! pageblock is written where it starts; the lines that it covers say `-`.

use std::mem::MaybeUninit;

use pageblock::alloc::Allocator;
use pageblock::cpu_cache::{CacheLimits, CacheState};
use pageblock::event::{Event, Observer};
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::ids::{CpuId, NodeId, ZoneIndex};
use pageblock::layout::{MAX_NR_ZONES, ZoneKind, ZoneSpec};
use pageblock::mobility::Migratetype;
use pageblock::policy::Policy;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock::tuning::Watermarks;
use pageblock::zone::Zone;

pageblock::locks! {
    /// The locks of tests.
    pub(crate) struct ParkingLot = parking_lot::Mutex<T>, parking_lot::MutexGuard<'a, T>;
}

pub(crate) fn policy(text: &str) -> Policy {
    Policy::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

pub(crate) fn zone_spec(node: u8, kind: ZoneKind, start: u64, end: u64) -> ZoneSpec {
    let span = FrameRange::new(start, end);
    ZoneSpec::full(NodeId(node), kind, span)
}

/// Memory for an allocator's tables.
pub(crate) fn table_memory(setup: &Setup<'_>) -> Vec<MaybeUninit<u8>> {
    vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()]
}

/// Collects what the allocator reports, one line each.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) events: Vec<Event>,
    pub(crate) woken: Vec<(u8, ZoneKind, Order)>,
}

impl Observer for Log {
    fn event(&mut self, event: Event) {
        self.events.push(event);
    }
    fn wake_kswapd(&mut self, node: NodeId, zone: ZoneKind, order: Order) {
        self.woken.push((node.0, zone, order));
    }
}

impl Log {
    /// The fallbacks: `extfrag 512: 0 of 5 U<-M own`.
    pub(crate) fn extfrag(&self) -> String {
        let mut text = String::new();
        for event in &self.events {
            if let Event::Extfrag(x) = event {
                text += &format!(
                    "extfrag {}: {} of {} {}<-{}{}\n",
                    x.pfn,
                    x.alloc_order,
                    x.fallback_order,
                    x.alloc_migratetype.letter(),
                    x.fallback_migratetype.letter(),
                    if x.change_ownership { " own" } else { "" },
                );
            }
        }
        text
    }
}

fn letter(c: char) -> Migratetype {
    Migratetype::ALL.into_iter().find(|mt| mt.letter() == c).unwrap()
}

/// A single zone without watermarks and without pages on CPU lists.
pub(crate) struct Bench<'m> {
    pub(crate) allocator: Allocator<'m>,
    pub(crate) log: Log,
}

/// Gives `test` a zone of the given pageblocks under a policy.
pub(crate) fn with_zone<T>(
    policy_text: &str,
    text: &str,
    test: impl FnOnce(&mut Bench<'_>) -> T,
) -> T {
    let lines: Vec<_> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let zones = [zone_spec(0, ZoneKind::Normal, 0, 512 * lines.len() as u64)];
    let setup = Setup::new(policy(policy_text), &zones, &[NodeId(0)]);
    let mut memory = table_memory(&setup);
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    without_cpu_lists(&mut allocator);
    for (at, line) in lines.iter().enumerate() {
        fill_pageblock(&mut allocator, 512 * at as u64, line);
    }
    let mut bench = Bench { allocator, log: Log::default() };
    bench.check(text);
    let seen = test(&mut bench);
    bench.check(text);
    seen
}

/// Sets every cache to hold nothing, and every watermark to 0.
pub(crate) fn without_cpu_lists(allocator: &mut Allocator<'_>) {
    for at in 0..allocator.zones().len() {
        for cpu in 0..allocator.cpus() {
            let (zone, cache) = allocator.zone_and_cache(ZoneIndex::new(at), CpuId(cpu)).unwrap();
            let limits = CacheLimits { batch: 1, high_min: 0, high_max: 0 };
            cache.impose_state(CacheState { limits, high: 0, ..cache.state() });
            zone.impose_watermarks(Watermarks::default());
            zone.impose_lowmem_reserve([0; MAX_NR_ZONES]);
        }
    }
}

fn fill_pageblock(allocator: &mut Allocator<'_>, start: u64, line: &str) {
    let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
    let (mt, rest) = line.split_at(1);
    let mt = letter(mt.chars().next().unwrap());
    zone.impose_block_type(Pfn(start), mt).unwrap();
    let mut tokens: Vec<&str> = Vec::new();
    for word in rest.split_whitespace() {
        match word.strip_prefix('*') {
            Some(times) => tokens = tokens.repeat(times.parse().unwrap()),
            None => tokens.push(word),
        }
    }
    if tokens == ["-"] {
        return;
    }
    let mut at = start;
    for token in tokens {
        let order: Order = token.trim_start_matches(['u', 'm']).parse().unwrap();
        let pfn = Pfn(at);
        match token.as_bytes()[0] {
            b'u' => zone.impose_allocated(pfn, order, false),
            b'm' => zone.impose_allocated(pfn, order, true),
            _ => zone.impose_free_block(pfn, order, mt),
        }
        .unwrap_or_else(|e| panic!("{line}: {token}: {e}"));
        at += 1 << order;
    }
    assert!(at - start >= 512 && at % 512 == 0, "{line} has {} pages", at - start);
}

impl Bench<'_> {
    pub(crate) fn zone(&self) -> &Zone<'_> {
        // A zone's lifetime is invariant; the shared borrow is as short as the caller's.
        &self.allocator.zones()[0]
    }

    #[track_caller]
    pub(crate) fn check(&self, context: &str) {
        if let Err(violation) = self.allocator.check() {
            panic!("{violation}\n{context}\n{}", self.lists());
        }
    }

    #[track_caller]
    pub(crate) fn alloc(&mut self, order: Order, gfp: Gfp) -> Pfn {
        let request = Request::new(order, gfp);
        let pfn = self.allocator.alloc(CpuId(0), &request, &mut self.log).unwrap();
        self.check("after alloc");
        pfn
    }

    #[track_caller]
    pub(crate) fn free(&mut self, pfn: u64, order: Order) {
        self.allocator.free(CpuId(0), Pfn(pfn), order, &mut self.log).unwrap();
        self.check("after free");
    }

    /// The types of the pageblocks, and the free lists from their heads: `M 5@0 5@64`.
    pub(crate) fn lists(&self) -> String {
        lists(self.zone())
    }
}

/// See [`Bench::lists`].
pub(crate) fn lists(zone: &Zone<'_>) -> String {
    let mut text: String = zone.pageblocks().map(|(_, mt, _)| mt.letter()).collect();
    text += "\n";
    for mt in Migratetype::ALL {
        let mut line = String::new();
        for order in 0..=zone.geometry().max_order {
            for pfn in zone.free_list(order, mt) {
                line += &format!(" {order}@{pfn}");
            }
        }
        if !line.is_empty() {
            text += &format!("{}{line}\n", mt.letter());
        }
    }
    text
}
