//! Verification of the whole state against its invariants.
//!
//! ```
//! # use pageblock::{alloc::Allocator, frame::FrameRange, ids::*, layout::{ZoneKind, ZoneSpec}};
//! # use pageblock::{policy::Policy, request::{Gfp, Request}, setup::Setup, zone::Geometry};
//! # let span = FrameRange::new(0, 1 << 15);
//! # let zones = [ZoneSpec::full(NodeId(0), ZoneKind::Normal, span)];
//! # let policy = Policy::parse("linux-6.12").unwrap();
//! # let setup = Setup::new(policy, &zones, &[NodeId(0)]);
//! # let mut memory = vec![std::mem::MaybeUninit::uninit(); setup.metadata_size().unwrap()];
//! # let mut allocator = Allocator::new(&mut memory, &setup).unwrap();
//! # allocator.release(span).unwrap();
//! # allocator.retune();
//! use pageblock::check::Violation;
//! use pageblock::frame::Pfn;
//! use pageblock::mobility::Migratetype::{Movable, Unmovable};
//!
//! let pfn = allocator.alloc(CpuId(0), &Request::new(0, Gfp::GFP_KERNEL), &mut ()).unwrap();
//! allocator.check()?;
//! // The type of a pageblock changes, but its free pages stay on the old list.
//! let (zone, _) = allocator.zone_and_cache(ZoneIndex(0), CpuId(0)).unwrap();
//! zone.impose_block_type(Pfn(4096), Unmovable).unwrap();
//! assert_eq!(allocator.check(), Err(Violation::WrongList(Pfn(4096), Movable)));
//! # Ok::<(), Violation>(())
//! ```

use crate::policy::source::PolicySource;
pub use crate::zone::check::Violation;

use crate::api::alloc::Allocator;
use crate::api::cpu::Cpu;
use crate::base::ids::{CpuId, ZoneIndex};
use crate::base::interrupts::Interrupts;
use crate::base::locks::Locks;

impl<P: PolicySource> Allocator<'_, P> {
    /// Verifies the whole state: every frame accounted for once, lists against blocks, counters
    /// against lists, buddies merged where they must be.
    ///
    /// # Errors
    /// The first [`Violation`] found.
    pub fn check(&self) -> Result<(), Violation> {
        for (at, zone) in ZoneIndex::up_to(self.zones.len()).zip(self.zones()) {
            zone.check()?;
            zone.check_caches(CpuId::up_to(self.cpus()).filter_map(|cpu| self.cache(at, cpu)))?;
        }
        Ok(())
    }
}

impl<L: Locks, I: Interrupts, P: PolicySource> Cpu<'_, '_, L, I, P> {
    /// Verifies this CPU's caches while others work.
    ///
    /// # Errors
    /// The first [`Violation`] found.
    pub fn check(&self) -> Result<(), Violation> {
        for at in ZoneIndex::up_to(self.shared().zones()) {
            let checked =
                |cache| self.shared().with_zone(at, |zone| zone.check_cache(self.number(), cache));
            self.cache(at).and_then(checked).unwrap_or(Ok(0))?;
        }
        Ok(())
    }
}
