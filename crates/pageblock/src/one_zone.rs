//! An allocator of one zone, for unit tests.

use core::mem::MaybeUninit;
use std::vec;

use crate::alloc::Allocator;
use crate::frame::FrameRange;
use crate::layout::{ZoneKind, ZoneSpec};
use crate::policy::Policy;
use crate::setup::Setup;
use crate::zone::Geometry;

/// Runs a test on a zone of so many pages, all free, with one CPU.
pub(crate) fn with_zone<R>(
    policy: &str,
    geometry: Geometry,
    pages: u64,
    test: impl FnOnce(&mut Allocator<'_>) -> R,
) -> R {
    let span = FrameRange::new(0, pages);
    let zone = ZoneSpec { node: 0, kind: ZoneKind::Normal, span, present: pages, managed: pages };
    let setup = Setup {
        policy: Policy::parse(policy).unwrap(),
        geometry,
        zones: &[zone],
        cpu_nodes: &[0],
        distances: &[],
    };
    let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    allocator.release(span).unwrap();
    test(&mut allocator)
}
