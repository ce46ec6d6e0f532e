//! An allocator of one zone, for unit tests.

use core::mem::MaybeUninit;

pub(crate) use crate::api::alloc::Allocator;
use crate::api::setup::Setup;
use crate::base::frame::FrameRange;
use crate::base::geometry::Geometry;
use crate::base::ids::NodeId;
use crate::base::layout::{ZoneKind, ZoneSpec};
use crate::policy::Policy;

use std::vec;

/// Runs a test on a zone of `pages` pages, all free, with one CPU.
pub(crate) fn with_zone<R>(
    policy: &str,
    geometry: Geometry,
    pages: u64,
    test: impl FnOnce(&mut Allocator<'_>) -> R,
) -> R {
    let span = FrameRange::new(0, pages);
    let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
    let setup =
        Setup { geometry, ..Setup::new(Policy::parse(policy).unwrap(), &zones, &[NodeId(0)]) };
    let mut memory = vec![MaybeUninit::uninit(); setup.metadata_size().unwrap()];
    let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
    allocator.release(span).unwrap();
    test(&mut allocator)
}
