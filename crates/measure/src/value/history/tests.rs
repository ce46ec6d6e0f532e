use std::mem::MaybeUninit;

use pageblock::alloc::Allocator;
use pageblock::event::Extfrag;
use pageblock::frame::FrameRange;
use pageblock::ids::{CpuId, NodeId};
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::policy::Policy;
use pageblock::request::{Gfp, Request};
use pageblock::setup::Setup;
use pageblock::zone::Geometry;

use pageblock::mobility::Migratetype::{Movable, Unmovable};

use super::*;

/// The requests of these tests say themselves which type they are.
fn with_machine(body: impl FnOnce(&mut Allocator<'_>)) {
    let span = FrameRange::new(0, 1 << 13);
    let zone = ZoneSpec {
        node: NodeId(0),
        kind: ZoneKind::Normal,
        span,
        present: 1 << 13,
        managed: 1 << 13,
    };
    let setup = Setup {
        policy: Policy::parse("linux-6.12").unwrap(),
        geometry: Geometry::default(),
        zones: &[zone],
        cpu_nodes: &[NodeId(0)],
        distances: &[],
    };
    let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    allocator.release(FrameRange::new(512, 1 << 13)).unwrap();
    allocator.retune();
    body(&mut allocator);
}

fn sample(builder: &mut HistoryBuilder, time_us: u64, allocator: &Allocator<'_>, stalls: u64) {
    let requested = |_, _| Unmovable;
    builder.sample(
        time_us,
        allocator,
        requested,
        [("allocstall", stalls), ("thp_fault_alloc", 7), ("pgfault", stalls)],
    );
}

#[test]
fn blocks_are_what_their_pages_are() {
    with_machine(|allocator| {
        let mut builder = HistoryBuilder::new(allocator);
        sample(&mut builder, 10, allocator, 3);
        let movable = Request::new(9, Gfp::GFP_HIGHUSER_MOVABLE);
        let huge = allocator.alloc(CpuId(0), &movable, &mut ()).unwrap();
        let kernel = Request::new(3, Gfp::GFP_KERNEL);
        let slab = allocator.alloc(CpuId(0), &kernel, &mut ()).unwrap();
        let taken = Extfrag {
            pfn: slab,
            alloc_order: 3,
            fallback_order: 10,
            alloc_migratetype: Unmovable,
            fallback_migratetype: Movable,
            change_ownership: true,
        };
        builder.fallback(&taken, "tar", None);
        sample(&mut builder, 20, allocator, 5);
        let history = builder.finish();
        assert_eq!(history.times_us, [10, 20]);
        assert_eq!(history.counters["allocstall"], [0, 2]);
        assert!(!history.counters.contains_key("pgfault"), "no picture shows it");
        assert!(!history.counters.contains_key("thp_fault_alloc"));
        assert_eq!(history.fallbacks_until, [0, 1]);
        let cells = history.cells().unwrap();
        assert_eq!(cells[0][0].content, Content::Reserved);
        assert!(cells[0][1..].iter().all(|cell| cell.content == Content::Free));
        assert!(cells[0][1..].iter().all(|cell| cell.free_eighths == 8 && cell.stuck == 0));
        let at = |pfn: pageblock::frame::Pfn| cells[1][(pfn.0 >> 9) as usize];
        assert_eq!((at(huge).content, at(huge).free_eighths), (Content::Movable, 0));
        assert_eq!((at(slab).content, at(slab).stuck), (Content::Unmovable, 8));
        assert_eq!(at(slab).free_eighths, 7);
        let free: u64 = (0..).zip(&history.zones[0].free).map(|(o, f)| f[0] << o).sum();
        assert_eq!(free, (1 << 13) - 512);
        let taker = &history.takers[0];
        assert_eq!((taker.command.as_str(), taker.claims, taker.blocks), ("tar", 1, 1));
        assert_eq!((taker.lost, taker.stuck), (1, 8));
        let count = &history.fallbacks[0];
        assert_eq!((count.effect.as_str(), count.events, count.blocks), ("claims", 1, 1));
        let json = serde_json::to_string(&history).unwrap();
        assert_eq!(serde_json::from_str::<History>(&json).unwrap(), history);
    });
}

/// What is not initialised is no memory, until a page of it is seen to be free or to move; what was reserved at boot stays.
#[test]
fn memory_that_is_not_initialised_is_a_hole() {
    with_machine(|allocator| {
        let kernel = Request::new(9, Gfp::GFP_KERNEL);
        let taken = allocator.alloc(CpuId(0), &kernel, &mut ()).unwrap();
        let mut builder = HistoryBuilder::new(allocator);
        builder.leave_out(0..1 << 13);
        sample(&mut builder, 0, allocator, 0);
        allocator.free(CpuId(0), taken, 9, &mut ()).unwrap();
        sample(&mut builder, 1, allocator, 0);
        let cells = builder.finish().cells().unwrap();
        let block = (taken.0 >> 9) as usize;
        let contents = [0, 1].map(|at| cells[at][block].content);
        assert_eq!(contents, [Content::Hole, Content::Free]);
        assert_eq!(cells[0][0].content, Content::Reserved);
    });
}

/// A block that was empty in between is not the first taker's.
#[test]
fn a_block_that_recovered_is_nobodys() {
    with_machine(|allocator| {
        let mut builder = HistoryBuilder::new(allocator);
        let kernel = Request::new(9, Gfp::GFP_KERNEL);
        let first = allocator.alloc(CpuId(0), &kernel, &mut ()).unwrap();
        let taken = Extfrag {
            pfn: first,
            alloc_order: 9,
            fallback_order: 10,
            alloc_migratetype: Unmovable,
            fallback_migratetype: Movable,
            change_ownership: true,
        };
        builder.fallback(&taken, "tar", Some("getname"));
        sample(&mut builder, 0, allocator, 0);
        allocator.free(CpuId(0), first, 9, &mut ()).unwrap();
        allocator.drain_all(&mut ());
        sample(&mut builder, 1, allocator, 0);
        let again = allocator.alloc(CpuId(0), &kernel, &mut ()).unwrap();
        sample(&mut builder, 2, allocator, 0);
        assert_eq!(first, again);
        assert_eq!(builder.finish().takers[0].lost, 0);
    });
}

#[test]
fn damage_is_named() {
    with_machine(|allocator| {
        let mut builder = HistoryBuilder::new(allocator);
        sample(&mut builder, 0, allocator, 0);
        let history = builder.finish();
        let wrong = |change: fn(&mut History)| {
            let mut history = history.clone();
            change(&mut history);
            history.cells().unwrap_err()
        };
        assert_eq!(wrong(|h| h.layout = 9), "history.layout is 9; this pageblock reads 1");
        assert_eq!(wrong(|h| h.times_us.push(1)), "history: a list has 1 values for 2 samples");
        assert!(wrong(|h| h.cells.truncate(8)).starts_with("history.cells: sample 0: "));
        assert!(wrong(|h| h.cells = "?".into()).starts_with("history.cells: Invalid symbol"));
        assert_eq!(
            wrong(|h| h.zones[0].blocks = u64::MAX),
            "history.zones: allowed: 4194304 pageblocks"
        );
    });
}
