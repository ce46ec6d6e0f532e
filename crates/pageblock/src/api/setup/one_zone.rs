//! The setup of one zone, for those who have one range of frames.

use crate::policy::source::PolicySource;
use core::mem::MaybeUninit;

use crate::api::alloc::Allocator;
use crate::api::setup::{MAX_CPUS, Setup, SetupError};
use crate::base::frame::FrameRange;
use crate::base::geometry::Geometry;
use crate::base::ids::NodeId;
use crate::base::layout::{ZoneKind, ZoneSpec};
use crate::policy::Policy;

/// One zone of one node: the default policy, one CPU and pages of 4 KiB, or what is set.
///
/// ```
/// use std::mem::MaybeUninit;
/// use pageblock::prelude::*;
///
/// let zone = OneZone::new(FrameRange::new(0, 16 * 1024));
/// let mut memory = vec![MaybeUninit::uninit(); zone.metadata_size()?];
/// let mut allocator = zone.build(&mut memory)?;
/// let pfn = allocator.alloc(CpuId(0), &Request::movable(9), &mut ())?;
/// allocator.free(CpuId(0), pfn, 9, &mut ())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct OneZone {
    /// The frames.
    pub span: FrameRange,
    /// The number of CPUs; 1 by default.
    pub cpus: usize,
    /// The policy; [`Policy::default`] by default.
    pub policy: Policy,
    /// The pageblock order, the largest order and the page size.
    pub geometry: Geometry,
}

impl OneZone {
    /// Returns the setup of a range of frames, with defaults that can be set.
    #[must_use]
    pub fn new(span: FrameRange) -> Self {
        Self { span, cpus: 1, policy: Policy::default(), geometry: Geometry::default() }
    }

    /// Returns the same for a number of CPUs.
    #[must_use]
    pub fn cpus(self, cpus: usize) -> Self {
        Self { cpus, ..self }
    }

    /// Returns the same under another policy.
    #[must_use]
    pub fn policy(self, policy: Policy) -> Self {
        Self { policy, ..self }
    }

    fn zones(&self) -> [ZoneSpec; 1] {
        [ZoneSpec::full(NodeId(0), ZoneKind::Normal, self.span)]
    }

    fn setup<'z>(&self, zones: &'z [ZoneSpec]) -> Result<Setup<'z>, SetupError> {
        static NODES: [NodeId; MAX_CPUS] = [NodeId(0); MAX_CPUS];
        let nodes = NODES.get(..self.cpus).ok_or(SetupError::CpuCount(self.cpus))?;
        Ok(Setup { geometry: self.geometry, ..Setup::new(self.policy, zones, nodes) })
    }

    /// See [`Setup::metadata_size`].
    ///
    /// # Errors
    /// Those of [`Allocator::new`].
    pub fn metadata_size(&self) -> Result<usize, SetupError> {
        self.setup(&self.zones())?.metadata_size()
    }

    /// Makes the allocator, and hands all frames to it.
    ///
    /// # Errors
    /// Those of [`Allocator::new`].
    pub fn build<'m>(
        &self,
        memory: &'m mut [MaybeUninit<u8>],
    ) -> Result<Allocator<'m>, SetupError> {
        self.build_fixed(memory)
    }

    /// [`build`](Self::build) for a policy that the compiler may know ([`Fixed`](crate::policy::Fixed)).
    ///
    /// # Errors
    /// Those of [`Allocator::new_fixed`].
    pub fn build_fixed<'m, P: PolicySource>(
        &self,
        memory: &'m mut [MaybeUninit<u8>],
    ) -> Result<Allocator<'m, P>, SetupError> {
        let mut allocator = Allocator::new_fixed(memory, &self.setup(&self.zones())?)?;
        let released = allocator.release(self.span);
        debug_assert_eq!(released, Ok(()), "a new zone is not reserved as a whole");
        allocator.retune();
        Ok(allocator)
    }
}
