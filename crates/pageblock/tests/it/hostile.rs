//! A policy that answers at random: half of its answers are possible, and no other harms the allocator.

use std::cell::RefCell;

use pageblock::decide::{
    Block, CpuLists, Decide, Decision, End, Evacuation, Fallback, Kept, Outcome, Pageblock, View,
    Want,
};
use pageblock::event::{Event, Observer};
use pageblock::frame::{FrameRange, Order, Pfn};
use pageblock::ids::CpuId;
use pageblock::mobility::Migratetype;
use pageblock::request::Gfp;

/// Answers at random, and counts what was refused.
#[derive(Default)]
pub(crate) struct Hostile {
    /// 0 asks nothing.
    pub(crate) random: u64,
    /// How often it was asked, and how often its answer was refused.
    pub(crate) asked: [u64; 8],
    pub(crate) refused: [u64; 8],
    /// The CPU that asked last.
    pub(crate) on: Option<CpuId>,
}

const OUTCOMES: [Outcome; 4] =
    [Outcome::ClaimWhole, Outcome::Claim, Outcome::Refile, Outcome::Single];

impl Hostile {
    fn below(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 32) % below
    }

    fn ask(&mut self, decision: Decision) -> u64 {
        self.asked[decision as usize] += 1;
        self.below(4)
    }

    /// Some free block, or none.
    fn some_block(&mut self, zone: &dyn View) -> Option<Block> {
        let order = self.below(u64::from(zone.max_order()) + 2) as Order;
        let kinds = Migratetype::ALL;
        let kind = kinds[self.below(kinds.len() as u64) as usize];
        let most = self.below(4) as usize;
        let random = RefCell::new(self.random | 1);
        let pfn = zone.best((order, kind), most, |pfn| {
            let mut random = random.borrow_mut();
            *random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(pfn.0);
            (*random, zone.pageblock(pfn).map(|held| held.free), zone.free_in_pageblock(pfn))
        })?;
        assert!(zone.free_blocks(order, kind) > 0 && zone.kind_of(pfn).is_some());
        Some(Block { pfn, order, kind })
    }

    fn number(&mut self, linux: u32) -> u32 {
        match self.below(4) {
            0 => linux,
            1 => u32::MAX,
            2 => 0,
            _ => self.below(300) as u32,
        }
    }
}

impl Decide for Hostile {
    fn on(&mut self, cpu: CpuId, _: Gfp) {
        self.on = Some(cpu);
    }

    fn cma_first(&mut self, zone: &dyn View, want: Want, linux: bool) -> bool {
        assert!(want.kind == Migratetype::Movable && zone.max_order() >= want.order);
        match self.below(3) {
            0 => linux,
            other => other == 1,
        }
    }

    fn owner(&mut self, zone: &dyn View, block: Block, linux: CpuId) -> CpuId {
        assert!(!zone.is_free(block));
        zone.free_in_block(block.pfn, &mut |at| {
            assert!(zone.is_free(at) && at.pfn != block.pfn);
            true
        });
        match self.ask(Decision::Owner) {
            0 => linux,
            1 => CpuId::new(usize::MAX),
            other => CpuId::new(other as usize - 1),
        }
    }

    fn passes(&mut self, zone: &dyn View, _: Want) -> bool {
        zone.free_pages() > 0 && self.below(8) == 0
    }

    fn serve(&mut self, zone: &dyn View, _: Want, linux: Block) -> Pfn {
        match self.ask(Decision::Serve) {
            0 => linux.pfn,
            1 => Pfn(self.below(10_000)),
            2 => Pfn(u64::MAX - self.below(2)),
            _ => self.some_block(zone).map_or(Pfn(linux.pfn.0 + 1), |block| block.pfn),
        }
    }

    fn fallback(&mut self, zone: &dyn View, _: Want, linux: Option<Fallback>) -> Option<Fallback> {
        let outcome = OUTCOMES[self.below(4) as usize];
        match self.ask(Decision::Fallback) {
            0 => linux,
            1 => linux.map(|found| Fallback { outcome, ..found }),
            2 => None,
            _ => {
                let Block { pfn, order, kind } = self.some_block(zone)?;
                Some(Fallback { pfn, order, from: kind, outcome })
            }
        }
    }

    fn claim(&mut self, _: Want, block: Block, holds: Pageblock, linux: Outcome) -> Outcome {
        assert!(holds.free >= 1 << block.order, "the block itself is free: {holds:?}");
        match self.ask(Decision::Claim) {
            0 => linux,
            _ => OUTCOMES[self.below(4) as usize],
        }
    }

    fn boost(&mut self, zone: &dyn View, _: Migratetype, linux: u64) -> u64 {
        let managed = zone.managed();
        match self.ask(Decision::Boost) {
            0 => linux,
            1 => self.below(managed + 1),
            2 => u64::MAX,
            _ => self.below(zone.high_watermark() + 1),
        }
    }

    fn freed_to(&mut self, zone: &dyn View, block: Block, linux: End) -> End {
        assert!(zone.free_pages() <= zone.managed() && block.order <= zone.max_order());
        match self.below(3) {
            0 => linux,
            1 => End::Head,
            _ => End::Tail,
        }
    }

    fn keep(&mut self, zone: &dyn View, block: Block, linux: Kept) -> Kept {
        assert!(zone.kind_of(block.pfn).is_some());
        match self.below(4) {
            0 => Kept::Head,
            1 => Kept::Tail,
            2 => Kept::Zone,
            _ => linux,
        }
    }

    fn refill(&mut self, _: CpuLists, linux: u32) -> u32 {
        self.ask(Decision::Refill);
        self.number(linux)
    }

    fn drain(&mut self, lists: CpuLists, linux: u32) -> u32 {
        assert!(lists.count <= 3 * lists.high.max(1000), "the lists grow: {lists:?}");
        self.ask(Decision::Drain);
        self.number(linux)
    }

    fn evacuate(&mut self, zone: &dyn View) -> Option<Evacuation> {
        let (whole, span) = (1 << zone.pageblock_order(), zone.span());
        let start = span.start.0 + self.below(span.end.0 - span.start.0);
        let from = |start, pages| FrameRange::new(start, start + pages);
        let (from, apart) = match self.ask(Decision::Evacuate) {
            0 => (from(start, whole), span),
            1 => (from(span.end.0, whole), FrameRange::new(0, u64::MAX)),
            2 => (from(span.start.0, whole), from(span.start.0 + 1, whole)),
            _ => (from(start - start % whole, whole), span),
        };
        Some(Evacuation { from, apart })
    }

    fn refused(&mut self, decision: Decision) {
        self.refused[decision as usize] += 1;
    }
}

impl Observer for Hostile {
    fn event(&mut self, _: Event) {}

    fn decider(&mut self) -> Option<impl Decide> {
        (self.random != 0).then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use pageblock::alloc::Allocator;
    use pageblock::ids::{NodeId, ZoneIndex};
    use pageblock::layout::{ZoneKind, ZoneSpec};
    use pageblock::policy::{Placement, Policy};
    use pageblock::preset::PRESETS;
    use pageblock::request::Request;
    use pageblock::setup::Setup;
    use pageblock::zone::Geometry;

    use super::*;

    const FRAMES: u64 = 4096;

    /// Fills memory with requests of all types and gives some of it back, again and again.
    fn churn(policy: Policy, hostile: &mut Hostile) {
        let span = FrameRange::new(0, FRAMES);
        let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
        let setup = Setup {
            geometry: Geometry { pageblock_order: 6, max_order: 8, ..Geometry::default() },
            ..Setup::new(policy, &zones, &[NodeId(0); 2])
        };
        let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
        let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
        allocator.reserve_cma(FrameRange::new(FRAMES - 256, FRAMES)).unwrap();
        allocator.release(FrameRange::new(0, FRAMES - 256)).unwrap();
        allocator.release(FrameRange::new(FRAMES - 256, FRAMES)).unwrap();
        allocator.retune();
        let gfps = [
            Gfp::GFP_KERNEL,
            Gfp::GFP_HIGHUSER_MOVABLE,
            Gfp::GFP_ATOMIC,
            Gfp::GFP_KERNEL | Gfp::RECLAIMABLE,
        ];
        let mut used = Vec::new();
        for round in 0..6 {
            let mut failed = 0;
            while failed < 40 {
                let gfp = gfps[hostile.below(4) as usize];
                let order = hostile.below(12).saturating_sub(6) as Order;
                let cpu = CpuId(hostile.below(2) as usize);
                match allocator.alloc(cpu, &Request::new(order, gfp), hostile) {
                    Ok(pfn) => used.push((pfn, order)),
                    Err(_) => failed += 1,
                }
            }
            allocator.check().unwrap();
            let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
            let whole = 1 << zone.geometry().pageblock_order;
            for _ in 0..8 {
                let Some(of) = zone.evacuation(hostile) else { continue };
                assert!(of.from.start.0 % whole == 0 && of.from.end.0 <= zone.span().end.0);
                assert!(of.apart.start <= of.from.start && of.from.end <= of.apart.end);
            }
            let keep = if round == 5 { 0 } else { used.len() / 3 };
            while used.len() > keep {
                let (pfn, order) = used.swap_remove(hostile.below(used.len() as u64) as usize);
                allocator.free(CpuId(0), pfn, order, hostile).unwrap();
            }
            allocator.check().unwrap();
        }
        allocator.drain_all(hostile);
        allocator.check().unwrap();
        assert_eq!(allocator.zones()[0].free_pages(), FRAMES, "every frame is free");
    }

    /// Of each kind of answer some are taken and some refused, under every kernel and both placements.
    #[test]
    fn no_answer_harms_the_allocator() {
        let mut hostile = Hostile { random: 0x9e37_79b9_7f4a_7c15, ..Hostile::default() };
        for preset in PRESETS {
            churn(preset.policy, &mut hostile);
            if preset.policy.allows_packed() {
                let mut packed = preset.policy;
                packed.placement = Placement::Packed;
                churn(packed, &mut hostile);
            }
        }
        for decision in [
            Decision::Serve,
            Decision::Fallback,
            Decision::Claim,
            Decision::Boost,
            Decision::Refill,
            Decision::Drain,
            Decision::Owner,
            Decision::Evacuate,
        ] {
            let at = decision as usize;
            let (asked, refused) = (hostile.asked[at], hostile.refused[at]);
            assert!(0 < refused && refused < asked, "{decision:?}: {refused} of {asked} refused");
        }
    }

    /// Frees go to the CPU that allocated, whoever frees.
    struct Home(CpuId);

    impl Decide for Home {
        fn on(&mut self, cpu: CpuId, _: Gfp) {
            self.0 = cpu;
        }

        fn owner(&mut self, _: &dyn View, _: Block, _: CpuId) -> CpuId {
            self.0
        }
    }

    /// A page that CPU 1 allocates and CPU 0 frees is served next to CPU 1.
    #[test]
    fn a_freed_page_goes_to_its_owner() {
        struct Under(Home);
        impl Observer for Under {
            fn event(&mut self, _: Event) {}
            fn decider(&mut self) -> Option<impl Decide> {
                Some(&mut self.0)
            }
        }
        let span = FrameRange::new(0, FRAMES);
        let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
        let setup = Setup::new(Policy::parse("linux-7.3").unwrap(), &zones, &[NodeId(0); 2]);
        let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
        let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
        allocator.release(span).unwrap();
        allocator.retune();
        let request = Request::new(0, Gfp::GFP_HIGHUSER_MOVABLE);
        let mut under = Under(Home(CpuId(0)));
        let pfn = allocator.alloc(CpuId(1), &request, &mut under).unwrap();
        assert_eq!(under.0.0, CpuId(1));
        allocator.free(CpuId(0), pfn, 0, &mut under).unwrap();
        assert_eq!(allocator.alloc(CpuId(1), &request, &mut under), Ok(pfn));
        allocator.free(CpuId(0), pfn, 0, &mut ()).unwrap();
        assert_eq!(allocator.alloc(CpuId(0), &request, &mut under), Ok(pfn));
        allocator.check().unwrap();
    }

    /// Sends what is freed to one place.
    struct Sends(Kept);

    impl Decide for Sends {
        fn keep(&mut self, _: &dyn View, _: Block, _: Kept) -> Kept {
            self.0
        }
    }

    struct Under(Sends);

    impl Observer for Under {
        fn event(&mut self, _: Event) {}

        fn decider(&mut self) -> Option<impl Decide> {
            Some(&mut self.0)
        }
    }

    /// A freed page is served next from the head of a list, last from its tail, and past the list is free at once.
    #[test]
    fn a_freed_page_goes_where_it_is_sent() {
        let span = FrameRange::new(0, FRAMES);
        let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
        let setup = Setup::new(Policy::parse("linux-6.12").unwrap(), &zones, &[NodeId(0)]);
        let run = |kept: Kept| {
            let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
            let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
            allocator.release(span).unwrap();
            allocator.retune();
            let mut under = Under(Sends(kept));
            let request = Request::new(0, Gfp::GFP_HIGHUSER_MOVABLE);
            let [first, second] =
                [(); 2].map(|()| allocator.alloc(CpuId(0), &request, &mut under).unwrap());
            let free = allocator.zones()[0].free_pages();
            for pfn in [second, first] {
                allocator.free(CpuId(0), pfn, 0, &mut under).unwrap();
            }
            let is_free = allocator.zones()[0].free_pages() - free;
            let next = allocator.alloc(CpuId(0), &request, &mut under).unwrap();
            allocator.check().unwrap();
            (is_free, next == first)
        };
        assert_eq!(run(Kept::Head), (0, true));
        assert_eq!(run(Kept::Tail), (0, false));
        assert_eq!(run(Kept::Zone).0, 2);
    }
}
