//! Policies that the compiler knows decide as the same policies that are chosen.

use pageblock::alloc::Allocator;
use pageblock::frame::{Order, Pfn};
use pageblock::ids::{CpuId, NodeId};
use pageblock::layout::ZoneKind;
use pageblock::locks::Std;
use pageblock::policy::{Chosen, Fixed, FixedPolicy, Policy, PolicySource, preset};
use pageblock::request::{Gfp, Request};
use pageblock::setup::{Setup, SetupError};

use crate::machine::{Log, table_memory, zone_spec};

const FRAMES: u64 = 1 << 14;

#[derive(Clone, Copy, Debug)]
struct Packed;

impl FixedPolicy for Packed {
    const POLICY: Policy = Policy::EMBEDDED;
}

#[derive(Clone, Copy, Debug)]
struct Linked;

impl FixedPolicy for Linked {
    const POLICY: Policy = match preset::find("linux-6.12") {
        Some(preset) => preset.policy,
        None => panic!("no such preset"),
    };
}

/// The oldest, which has mechanisms that 6.12 does not.
#[derive(Clone, Copy, Debug)]
struct Oldest;

impl FixedPolicy for Oldest {
    const POLICY: Policy = preset::PRESETS[0].policy;
}

/// What allocates and frees next, by a number at random.
fn next(random: &mut u64) -> (bool, Order, Gfp, u64) {
    *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    let bits = *random >> 16;
    let gfp = [Gfp::GFP_KERNEL, Gfp::GFP_HIGHUSER_MOVABLE, Gfp::GFP_ATOMIC][bits as usize % 3];
    (bits >> 2 & 1 == 0, [0, 0, 0, 1, 2, 3, 3, 9][bits as usize >> 4 & 7], gfp, bits >> 8)
}

/// Runs calls at random, by one owner and by the handles of two CPUs, and returns every event.
fn events<P: PolicySource>(policy: Policy) -> Vec<pageblock::event::Event> {
    let zones = [zone_spec(0, ZoneKind::Normal, 0, FRAMES)];
    let setup = Setup::new(policy, &zones, &[NodeId(0), NodeId(0)]);
    let mut memory = table_memory(&setup);
    let mut allocator = Allocator::<P>::new_fixed(&mut memory, &setup).unwrap();
    allocator.release(zones[0].span).unwrap();
    allocator.retune();
    let (mut log, mut random) = (Log::default(), 1);
    let mut used: Vec<(Pfn, Order)> = Vec::new();
    for n in 0..20_000 {
        let (allocates, order, gfp, bits) = next(&mut random);
        if allocates {
            let taken = allocator.alloc(CpuId(n % 2), &Request::new(order, gfp), &mut log);
            used.extend(taken.ok().map(|pfn| (pfn, order)));
        } else if !used.is_empty() {
            let (pfn, order) = used.swap_remove(bits as usize % used.len());
            allocator.free(CpuId(n % 2), pfn, order, &mut log).unwrap();
            allocator.free(CpuId(n % 2), pfn, order, &mut log).unwrap_err();
        }
        let beyond = Pfn(FRAMES + bits);
        allocator.free(CpuId(0), beyond, order, &mut log).unwrap_err();
    }
    allocator.check().unwrap();
    let mut locks = vec![std::mem::MaybeUninit::uninit(); allocator.sharing_size::<Std>()];
    let shared = allocator.share::<Std, ()>(&mut locks).unwrap();
    let mut cpus = [CpuId(0), CpuId(1)].map(|cpu| shared.cpu(cpu).unwrap());
    for n in 0..20_000 {
        let (allocates, order, gfp, bits) = next(&mut random);
        let cpu = &mut cpus[n % 2];
        if allocates {
            let taken = cpu.alloc(&Request::new(order, gfp), &mut log);
            used.extend(taken.ok().map(|pfn| (pfn, order)));
        } else if !used.is_empty() {
            let (pfn, order) = used.swap_remove(bits as usize % used.len());
            cpu.free(pfn, order, &mut log).unwrap();
            cpu.free(pfn, order, &mut log).unwrap_err();
        }
    }
    drop(cpus);
    shared.check_zones().unwrap();
    log.events
}

#[track_caller]
fn check<F: FixedPolicy>() {
    let (chosen, fixed) = (events::<Chosen>(F::POLICY), events::<Fixed<F>>(F::POLICY));
    assert!(chosen.len() > 20_000, "{}", chosen.len());
    let first = chosen.iter().zip(&fixed).position(|(a, b)| a != b);
    assert_eq!((first, chosen.len()), (None, fixed.len()), "{:?}", F::POLICY);
}

#[test]
fn a_policy_that_the_compiler_knows_decides_as_the_same_one_that_is_chosen() {
    check::<Packed>();
    check::<Linked>();
    check::<Oldest>();
}

#[test]
fn a_setup_with_another_policy_than_the_fixed_one_is_refused() {
    let zones = [zone_spec(0, ZoneKind::Normal, 0, FRAMES)];
    let setup = Setup::new(Linked::POLICY, &zones, &[NodeId(0)]);
    let mut memory = table_memory(&setup);
    let made = Allocator::<Fixed<Packed>>::new_fixed(&mut memory, &setup);
    assert_eq!(made.err(), Some(SetupError::NotFixed));
}
