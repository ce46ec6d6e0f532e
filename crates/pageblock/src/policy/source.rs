//! Where an allocator has its policy from: a value that is chosen when it is made, or a constant, by which the compiler
//! leaves out what the policy does not use.
//!
//! ```
//! use pageblock::alloc::Allocator;
//! use pageblock::policy::{Fixed, FixedPolicy, Policy};
//! use pageblock::prelude::*;
//! use std::mem::MaybeUninit;
//!
//! /// The default with a reserve for requests that cannot wait.
//! #[derive(Clone, Copy, Debug)]
//! struct Mine;
//!
//! impl FixedPolicy for Mine {
//!     const POLICY: Policy = {
//!         let mut policy = Policy::EMBEDDED;
//!         policy.min_free_kbytes = 1024;
//!         policy
//!     };
//! }
//!
//! let zone = OneZone::new(FrameRange::new(0, 16 * 1024)).policy(Mine::POLICY);
//! let mut memory = vec![MaybeUninit::uninit(); zone.metadata_size()?];
//! let mut allocator: Allocator<'_, Fixed<Mine>> = zone.build_fixed(&mut memory)?;
//! assert!(allocator.alloc(CpuId(0), &Request::movable(9), &mut ()).is_ok());
//! # Ok::<(), pageblock::setup::SetupError>(())
//! ```

use core::fmt::Debug;
use core::marker::PhantomData;
use core::ops::Deref;

use super::{Placement, Policy};

/// The source of a policy: [`Chosen`] or [`Fixed`].
pub trait PolicySource: Deref<Target = Policy> + Copy + Debug + Send + Sync + 'static {
    /// The table of frames; `None` if it is known only when the allocator is made.
    const PLACEMENT: Option<Placement>;

    /// Returns the source of a policy; `None` if that is not the fixed one.
    fn of(policy: &Policy) -> Option<Self>;
}

/// Tells whether frames may have a placement's table: whether the compiler has to keep the code for it.
#[inline(always)]
pub(crate) const fn may_be<P: PolicySource>(placement: Placement) -> bool {
    match (P::PLACEMENT, placement) {
        (None, _) | (Some(Placement::Linux), Placement::Linux) => true,
        (Some(known), Placement::Packed) => matches!(known, Placement::Packed),
        (Some(Placement::Packed), Placement::Linux) => false,
    }
}

/// A policy chosen when the allocator is made.
#[derive(Clone, Copy, Debug)]
pub struct Chosen(Policy);

impl Deref for Chosen {
    type Target = Policy;

    #[inline(always)]
    fn deref(&self) -> &Policy {
        &self.0
    }
}

impl PolicySource for Chosen {
    const PLACEMENT: Option<Placement> = None;

    fn of(policy: &Policy) -> Option<Self> {
        Some(Self(*policy))
    }
}

/// A type that stands for a policy.
pub trait FixedPolicy: Copy + Debug + Send + Sync + 'static {
    /// The policy.
    const POLICY: Policy;
}

/// The policy of a type, known to the compiler. One that [contradicts itself](Policy::check) does not compile.
#[derive(Clone, Copy, Debug)]
pub struct Fixed<F>(PhantomData<F>);

impl<F: FixedPolicy> Deref for Fixed<F> {
    type Target = Policy;

    #[inline(always)]
    fn deref(&self) -> &Policy {
        const { &F::POLICY }
    }
}

impl<F: FixedPolicy> PolicySource for Fixed<F> {
    const PLACEMENT: Option<Placement> = {
        assert!(F::POLICY.check().is_ok(), "the switches of the fixed policy do not go together");
        Some(F::POLICY.placement)
    };

    fn of(policy: &Policy) -> Option<Self> {
        (*policy == F::POLICY).then_some(Self(PhantomData))
    }
}
