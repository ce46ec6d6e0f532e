//! Memory that is fragmented to order before a load begins: what `pageblock fragment` does to a machine that runs.
//!
//! Free pageblocks are taken as huge pages, split, and given back in part, chosen at random: what is free afterwards is
//! scattered, and what is kept is anonymous memory of a program that does not run, on the LRU lists. One page of some of
//! them belongs to a driver, as if a device had pinned it.

mod goal;

pub use goal::{Goal, Share, Spread, Step, share_out};

use pageblock::alloc_flags::Watermark;
use pageblock::frame::{Order, Pfn};
use pageblock::request::{Gfp, Request};
use pageblock_vm::Vm;
use pageblock_vm::page::Owner;

use super::observed::Observed;
use super::world::Random;
use crate::error::Error;

/// The share of memory that stays free above the watermarks: a hundredth.
const RESERVE: u64 = 100;
/// The rounds that lead to the state: what CPU lists hold is seen in the next.
const ROUNDS: usize = 8;
/// The part of memory, one in so many pages, by which the state may miss its goal.
const MISS: u64 = 200;
/// What separates these random numbers from those of the load.
const PURPOSE: u64 = 0x6672_6167;

/// Pages of a program that does not run, without reclaim.
const KEPT: Gfp = Gfp(Gfp::GFP_HIGHUSER_MOVABLE.0 & !Gfp::RECLAIM.0 | Gfp::NOWARN.0);

/// A machine on its way to the state.
struct Fragmenter<'v, 'm> {
    vm: &'v mut Vm<'m, Observed>,
    order: Order,
    random: Random,
    /// The pages of each pageblock that was taken and not given back.
    kept: Vec<Vec<Pfn>>,
    /// Pages that were taken one by one.
    filled: Vec<Pfn>,
}

/// Leads a machine's free memory to a goal. What that took is in no counter of the run.
///
/// # Errors
/// If the machine cannot have that state: with the share that it has.
pub(crate) fn fragment(vm: &mut Vm<'_, Observed>, goal: &Goal, seed: u64) -> Result<(), Error> {
    let order = vm.allocator().geometry().pageblock_order;
    let random = Random::new(seed, PURPOSE);
    let mut of = Fragmenter { vm, order, random, kept: Vec::new(), filled: Vec::new() };
    let now = of.now();
    let zones = of.vm.allocator().zones();
    let high: u64 = zones.iter().map(|zone| zone.watermark(Watermark::High)).sum();
    if let Some(why) = goal.obstacle(&now, 1 << order, high + now.managed / RESERVE) {
        return Err(Error::Workload(format!("[fragment]: {why}")));
    }
    let reached = (0..ROUNDS).any(|_| of.step(goal));
    if !reached || !of.pin(goal.unmovable) {
        let now = of.now();
        return Err(Error::Workload(format!(
            "[fragment]: not reached: {} is free, {} of that in smaller blocks",
            now.free_share(),
            now.spread()
        )));
    }
    of.keep();
    // No task of the machine spends its time on this; counts begin later, with the workload (`start_counting`).
    vm.take_work();
    Ok(())
}

impl Fragmenter<'_, '_> {
    /// Returns how free memory is spread.
    fn now(&mut self) -> Spread {
        self.vm.drain_all();
        let mut spread = Spread::default();
        for zone in self.vm.allocator().zones() {
            spread.managed += zone.managed();
            for order in 0..=zone.geometry().max_order {
                let pages = zone.nr_free(order) << order;
                let part =
                    if order < self.order { &mut spread.scattered } else { &mut spread.whole };
                *part += pages;
            }
        }
        spread
    }

    /// Goes a step towards the goal. Returns whether it is reached.
    fn step(&mut self, goal: &Goal) -> bool {
        let now = self.now();
        let step = goal.step(&now, 1 << self.order);
        let off = step.release.max(step.fill) + ((step.take + step.give) << self.order);
        if off * MISS <= now.managed {
            return true;
        }
        self.give(step.give);
        (0..step.take).all(|_| self.take());
        self.release(step.release);
        for _ in 0..step.fill {
            self.filled.extend(self.vm.try_alloc(0, &Request::new(0, KEPT)));
        }
        false
    }

    /// Takes a free pageblock and splits it. Returns whether there was one.
    fn take(&mut self) -> bool {
        let Some(first) = self.vm.try_alloc(0, &Request::new(self.order, KEPT)) else {
            return false;
        };
        self.vm.split_page(first, self.order);
        self.kept.push((0..1 << self.order).map(|at| first.plus(at)).collect());
        true
    }

    /// Gives up to `count` pageblocks back that have all their pages, the last ones first.
    fn give(&mut self, count: u64) {
        for _ in 0..count {
            let whole = self.kept.iter().rposition(|pages| pages.len() == 1 << self.order);
            let Some(at) = whole else { return };
            for pfn in self.kept.remove(at) {
                self.vm.disown(0, pfn);
            }
        }
    }

    /// Gives `count` pages back, chosen at random, about as many of each pageblock as it has; each keeps one at least.
    fn release(&mut self, count: u64) {
        let spare: Vec<u64> = self.kept.iter().map(|pages| pages.len() as u64 - 1).collect();
        for (pages, share) in self.kept.iter_mut().zip(share_out(&spare, count)) {
            for _ in 0..share {
                let at = self.random.below(pages.len() as u64) as usize;
                self.vm.disown(0, pages.swap_remove(at));
            }
        }
    }

    /// Leaves a page of so many pageblocks to the driver that the goal's share does not move. Returns whether there were
    /// enough.
    fn pin(&mut self, unmovable: Share) -> bool {
        let (mut all, mut fixed) = (0, 0);
        for zone in self.vm.allocator().zones() {
            all += zone.pageblocks().count() as u64;
            for (first, ..) in zone.pageblocks() {
                let usage = zone.block_usage(first);
                fixed += u64::from(usage.is_some_and(|of| of.unmovable + of.reserved > 0));
            }
        }
        let more = unmovable.of(all).saturating_sub(fixed) as usize;
        // At random, so that they lie everywhere.
        for at in 0..more.min(self.kept.len()) {
            let other = at + self.random.below((self.kept.len() - at) as u64) as usize;
            self.kept.swap(at, other);
            let pages = &mut self.kept[at];
            let pinned = pages.swap_remove(self.random.below(pages.len() as u64) as usize);
            self.vm.own(pinned, 0, Owner::Driver, 0);
        }
        more <= self.kept.len()
    }

    /// Makes what is kept anonymous memory.
    fn keep(self) {
        let pages: Vec<Pfn> = self.kept.into_iter().flatten().chain(self.filled).collect();
        let space = self.vm.create_mapping(pages.len() as u32);
        for (index, pfn) in (0..).zip(pages) {
            self.vm.add_page(space, index, pfn, 0);
        }
        self.vm.drain_all();
    }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;

    use pageblock::FrameState;
    use pageblock::alloc::Allocator;
    use pageblock::frame::FrameRange;
    use pageblock::ids::NodeId;
    use pageblock::layout::{ZoneKind, ZoneSpec};
    use pageblock::setup::Setup;
    use pageblock_kernel::Named;
    use pageblock_vm::config::Config;

    use super::*;

    /// Fragments a machine of 256 MiB. Returns the free share, that of it in small blocks, that of pageblocks with a page
    /// that does not move, and which frames of the first pageblock are in use.
    fn fragmented(goal: [&str; 3], seed: u64) -> Result<([Share; 3], Vec<bool>), Error> {
        let kernel = Named::parse("linux-6.12").unwrap().kernel;
        let span = FrameRange::new(0, 1 << 16);
        let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
        let setup = Setup::new(kernel.allocator, &zones, &[NodeId(0); 2]);
        let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
        let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
        allocator.release(span).unwrap();
        allocator.retune();
        let mut vm = Vm::new(allocator, &kernel, Config::default(), Observed::new(None));
        let mut asked = Goal::default();
        for (key, share) in Goal::KEYS.iter().zip(goal) {
            asked.set(key, share).unwrap();
        }
        fragment(&mut vm, &asked, seed)?;
        vm.check().unwrap();
        let zone = &vm.allocator().zones()[0];
        let pinned = |first: Pfn| {
            (first.0..first.0 + 512).any(|pfn| vm.pages().get(Pfn(pfn)).kind() == Owner::Driver)
        };
        let fixed: Vec<bool> = zone
            .pageblocks()
            .map(|(first, ..)| pinned(first) || zone.block_usage(first).unwrap().unmovable > 0)
            .collect();
        let is_used = |pfn| matches!(zone.state(Pfn(pfn)), Some(FrameState::Allocated { .. }));
        let used: Vec<bool> = (0..512).map(is_used).collect();
        let spread = Fragmenter {
            vm: &mut vm,
            order: 9,
            random: Random::new(1, PURPOSE),
            kept: Vec::new(),
            filled: Vec::new(),
        }
        .now();
        let unmovable = fixed.iter().filter(|fixed| **fixed).count() as u64;
        let unmovable = Share::part(unmovable, fixed.len() as u64);
        Ok(([spread.free_share(), spread.spread(), unmovable], used))
    }

    #[test]
    fn memory_is_in_the_state_that_was_asked_for() {
        for goal in [["30%", "5%", "0.8"], ["60%", "50%", "0.3"], ["50%", "0", "1"]] {
            let (state, used) = fragmented(goal, 1).unwrap();
            for (is, goal) in state.iter().zip([goal[0], goal[2], goal[1]]) {
                let off = is.distance(goal.parse().unwrap());
                assert!(off < "2%".parse().unwrap(), "{goal} asked for, {is} there");
            }
            let other = fragmented(goal, 2).unwrap();
            assert_ne!(used, other.1, "another seed scatters otherwise");
            assert_eq!(used, fragmented(goal, 1).unwrap().1);
        }
    }

    #[test]
    fn what_a_machine_cannot_have_is_said() {
        let why = |goal| fragmented(goal, 1).unwrap_err().to_string();
        assert!(why(["99.9%", "0", "1"]).contains("is free, and nothing here can free more"));
        assert!(why(["0.1%", "0", "1"]).contains("this kernel reclaims"));
        // Of memory that stays free in whole pageblocks none can be held.
        assert!(why(["90%", "50%", "0"]).starts_with("[fragment]: not reached: 90"));
    }
}
