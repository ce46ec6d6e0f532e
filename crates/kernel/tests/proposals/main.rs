//! Proposals decide as their sources say, in small zones.

mod churn;
mod owners;
mod placements;
mod superpageblocks;
mod trees;

use std::mem::MaybeUninit;

use pageblock::alloc::Allocator;
use pageblock::decide::Decide;
use pageblock::event::{Event, Observer};
use pageblock::frame::FrameRange;
use pageblock::ids::NodeId;
use pageblock::layout::{ZoneKind, ZoneSpec};
use pageblock::policy::Policy;
use pageblock::request::Gfp;
use pageblock::setup::Setup;
use pageblock_kernel::own;

const MOVABLE: Gfp = Gfp::GFP_HIGHUSER_MOVABLE;

/// The frames of the zone: 32 pageblocks.
const FRAMES: u64 = 1 << 14;

struct Under(Option<Box<dyn Decide>>);

impl Under {
    /// Has a proposal decide; Linux without one.
    fn of(name: Option<&str>) -> Self {
        Self(name.map(|name| (own::find(name).unwrap().make)()))
    }
}

impl Observer for Under {
    fn event(&mut self, _: Event) {}

    fn decider(&mut self) -> Option<impl Decide> {
        self.0.as_deref_mut()
    }
}

/// Runs a test in a zone of 64 MiB with two CPUs.
fn in_zone<R>(policy: &str, test: impl FnOnce(&mut Allocator<'_>) -> R) -> R {
    let span = FrameRange::new(0, FRAMES);
    let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
    let setup = Setup::new(Policy::parse(policy).unwrap(), &zones, &[NodeId(0); 2]);
    let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    allocator.release(span).unwrap();
    allocator.retune();
    let result = test(&mut allocator);
    allocator.check().unwrap();
    result
}
