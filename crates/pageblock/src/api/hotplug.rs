//! Memory hotplug while the allocator runs.
//!
//! Tables exist for the spans with which the allocator was set up, and never grow. Memory can only be added inside
//! a zone's span, so an embedder that expects more memory sets up zones with larger spans (nine bytes of tables per
//! frame, about one under packed placement, with or without memory). A frame in a span is a hole (no memory),
//! reserved (memory that the allocator does not have), or managed. After setup every frame is reserved.
//!
//! | from | to | by |
//! |---|---|---|
//! | reserved | managed | [`release`](Allocator::release) at boot, [`online`](Allocator::online) later |
//! | managed | reserved | [`offline`](Allocator::offline) |
//! | reserved | hole | [`mark_holes`](Allocator::mark_holes) |
//! | hole | reserved | [`fill_holes`](Allocator::fill_holes) |
//!
//! The owner makes these changes alone. CPUs can make them while others allocate and free: [`Shared::online`],
//! [`Cpu::offline`] (which allocates the targets of moves), [`Shared::mark_holes`] and [`Shared::fill_holes`]. If
//! two calls change the same frames at once, one waits for the other or fails.
//!
//! Source: `online_pages`, `offline_pages` (mm/memory_hotplug.c).
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
//! // Four MiB are removed, and other memory takes their place later.
//! let range = FrameRange::new(1024, 2048);
//! allocator.offline(CpuId(0), range, &mut (), &mut ())?;
//! allocator.mark_holes(range)?;
//! assert_eq!(allocator.zones()[0].managed(), (1 << 15) - 1024);
//! allocator.fill_holes(range)?;
//! allocator.online(range)?;
//! assert_eq!(allocator.zones()[0].free_pages(), 1 << 15);
//!
//! // The same while CPUs work.
//! # pageblock::locks! { struct ParkingLot = parking_lot::Mutex<T>, parking_lot::MutexGuard<'a, T>; }
//! let mut locks = vec![std::mem::MaybeUninit::uninit(); allocator.sharing_size::<ParkingLot>()];
//! let shared: pageblock::sharing::Shared<ParkingLot> = allocator.share(&mut locks).unwrap();
//! let mut cpu = shared.cpu(CpuId(0)).unwrap();
//! let frame = cpu.alloc(&Request::new(0, Gfp::GFP_KERNEL), &mut ()).unwrap();
//! cpu.offline(range, &mut (), &mut ())?;
//! shared.online(range)?;
//! cpu.free(frame, 0, &mut ()).unwrap();
//! # Ok::<(), pageblock::contig::ContigError>(())
//! ```

use crate::access::hotplug::{change, take_away};
use crate::access::local::Owned;
use crate::access::locked::Locked;
use crate::api::alloc::Allocator;
use crate::api::cpu::Cpu;
use crate::api::sharing::Shared;
use crate::base::event::Observer;
use crate::base::frame::FrameRange;
use crate::base::ids::CpuId;
use crate::base::interrupts::{Interrupts, Off};
use crate::base::locks::Locks;
use crate::policy::source::PolicySource;
use crate::zone::Zone;
use crate::zone::contig::{ContigError, Migrate};

#[cfg(doc)]
use crate::base::layout::ZoneSpec;

impl<P: PolicySource> Allocator<'_, P> {
    /// Hands reserved memory of one zone to the allocator, and tunes the zone to its new size
    /// ([`retune`](Self::retune)).
    ///
    /// # Errors
    /// [`ContigError::WrongState`] for a frame that is not reserved, and those of an invalid range;
    /// nothing changes then.
    pub fn online(&mut self, range: FrameRange) -> Result<(), ContigError> {
        change(&self.machine, Owned(self.zones), range, Zone::online)?;
        self.retune();
        Ok(())
    }

    /// Takes memory of one zone from the allocator; allocated blocks are moved away. The range must consist of
    /// whole pageblocks, except at the ends of the zone. The rest of the zone is tuned to its new size.
    /// # Errors
    /// [`ContigError`]; the memory stays then.
    pub fn offline(
        &mut self,
        cpu: CpuId,
        range: FrameRange,
        migrate: &mut impl Migrate,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        take_away(&mut self.range_worker(cpu)?, range, migrate, observer)?;
        self.retune();
        Ok(())
    }

    /// Declares reserved frames of one zone to be holes: there is no memory, or no longer. Frames that the
    /// allocator never had are first taken from those that [`ZoneSpec::present`] left out.
    ///
    /// # Errors
    /// As [`online`](Self::online).
    pub fn mark_holes(&mut self, range: FrameRange) -> Result<(), ContigError> {
        change(&self.machine, Owned(self.zones), range, Zone::mark_holes)
    }

    /// Declares holes of one zone to be memory, which is reserved at first.
    ///
    /// # Errors
    /// [`ContigError::WrongState`] for a frame that is not a hole, and those of an invalid range; nothing changes
    /// then.
    pub fn fill_holes(&mut self, range: FrameRange) -> Result<(), ContigError> {
        change(&self.machine, Owned(self.zones), range, Zone::fill_holes)
    }
}

impl<L: Locks, I: Interrupts, P: PolicySource> Shared<'_, L, I, P> {
    /// [`Allocator::online`] while CPUs work. The zone's lock is held for a time linear in the range. CPUs use the
    /// new limits of their caches from their next call on ([`retune`](Self::retune)).
    ///
    /// # Errors
    /// Those of [`Allocator::online`].
    pub fn online(&self, range: FrameRange) -> Result<(), ContigError> {
        let _off = Off::<I>::now();
        change(&self.machine, Locked::<L, P>(self.zones), range, Zone::online)?;
        self.retune();
        Ok(())
    }

    /// [`Allocator::mark_holes`] while CPUs work. The zone's lock is held for a time linear in the range.
    ///
    /// # Errors
    /// Those of [`Allocator::mark_holes`].
    pub fn mark_holes(&self, range: FrameRange) -> Result<(), ContigError> {
        let _off = Off::<I>::now();
        change(&self.machine, Locked::<L, P>(self.zones), range, Zone::mark_holes)
    }

    /// [`Allocator::fill_holes`] while CPUs work. The zone's lock is held for a time linear in the range.
    ///
    /// # Errors
    /// Those of [`Allocator::fill_holes`].
    pub fn fill_holes(&self, range: FrameRange) -> Result<(), ContigError> {
        let _off = Off::<I>::now();
        change(&self.machine, Locked::<L, P>(self.zones), range, Zone::fill_holes)
    }
}

impl<L: Locks, I: Interrupts, P: PolicySource> Cpu<'_, '_, L, I, P> {
    /// [`Allocator::offline`] while other CPUs work. They are asked to drain their caches; [`Migrate::wait_for`]
    /// waits for them. The zone's lock is held while the range is isolated and, at the end, taken, which takes time
    /// linear in the range; it is not held while content is moved.
    ///
    /// # Errors
    /// As [`alloc_contig_range`](Self::alloc_contig_range), and those of [`Allocator::offline`]; the
    /// memory stays then.
    pub fn offline(
        &mut self,
        range: FrameRange,
        migrate: &mut impl Migrate,
        observer: &mut impl Observer,
    ) -> Result<(), ContigError> {
        take_away(self, range, migrate, observer)?;
        self.shared().retune();
        Ok(())
    }
}
