//! The switches: one per mechanism, each an enum or a number. A kernel version is a row of values
//! ([`crate::preset`]); a what-if is one changed switch.
//!
//! A policy's text is `NAME,switch=value,...`, where `NAME` is a preset: `linux-4.20,nofragment=on`.
//!
//! ```
//! use pageblock::policy::{Placement, Policy};
//!
//! let mut policy = Policy::parse("linux-6.12,watermark_scale_factor=100")?;
//! policy.placement = Placement::Packed;
//! let changed: Vec<_> = policy.diff(&Policy::parse("linux-6.12")?).map(|(switch, ..)| switch.name()).collect();
//! assert_eq!(changed, ["placement", "watermark_scale_factor"]);
//! let error = Policy::parse("linux-6.12,placement=sideways").unwrap_err();
//! assert!(error.to_string().contains("sideways"));
//! # Ok::<(), pageblock::policy::PolicyError<'static>>(())
//! ```

#[macro_use]
mod switch;
mod choices;
pub mod notation;
pub mod preset;
pub(crate) mod source;

pub use choices::*;
pub use notation::PolicyError;
pub use source::{Chosen, Fixed, FixedPolicy, PolicySource};
pub use switch::{About, Choice, Group, Setting, Switch, Switches, Value, Values};

/// Every switch, in the order of [`Policy`]'s fields.
pub static SWITCHES: &[Switch] = <Policy as Switches>::SWITCHES;

impl Policy {
    /// Tells whether the list of a free page always has the type of its pageblock. It takes claims and retyping that
    /// move no page without its block, isolation that splits, merges that retype, and drains that ask for the type
    /// again.
    #[must_use]
    pub const fn list_type_strict(&self) -> bool {
        matches!(self.claim_rule, ClaimRule::TypesAgree)
            && matches!(self.retype, Retype::Together)
            && matches!(self.isolation, Isolation::Split)
            && matches!(self.merge_rule, MergeRule::Retype | MergeRule::RetypeAll)
            && matches!(self.pcp_type, PcpType::Reread)
    }

    /// Tells whether packed placement is open to the policy: every free page counts for the type of its pageblock, also
    /// where blocks larger than that are freed, so that four bits a frame are enough.
    #[must_use]
    pub const fn allows_packed(&self) -> bool {
        self.list_type_strict() && matches!(self.split_large, SplitLarge::On)
    }

    /// Tells whether its switches go together.
    ///
    /// # Errors
    /// [`PolicyError::Packed`].
    pub const fn check(&self) -> Result<(), PolicyError<'static>> {
        match self.placement {
            Placement::Packed if !self.allows_packed() => Err(PolicyError::Packed),
            Placement::Packed | Placement::Linux => Ok(()),
        }
    }

    /// Tells whether a block on a CPU list is on that of its remembered type. Up to 4.3 a request can get a block
    /// with the type of the list that it came from.
    pub(crate) const fn remembers_list(&self) -> bool {
        matches!(self.claim_rule, ClaimRule::CompatibleCounts | ClaimRule::TypesAgree)
            || (matches!(self.claim_rule, ClaimRule::RestTakenByBlock)
                && !matches!(self.reserve, Reserve::MigrateReserve))
    }

    /// Tells whether the limits of CPU lists count what was freed in a row.
    #[must_use]
    pub const fn counts_frees(&self) -> bool {
        matches!(
            self.pcp_free,
            PcpFree::FreeCount | PcpFree::FreeCountPastMin | PcpFree::FreeCountWholeBlocks
        )
    }

    /// Reads `NAME,switch=value,...`, where `NAME` is a preset, or `default` ([`Policy::default`]). `fallback_pick=hybrid(3)` sets `hybrid_threshold` too.
    ///
    /// # Errors
    /// See [`PolicyError`]; its text lists what exists.
    pub fn parse(text: &str) -> Result<Self, PolicyError<'_>> {
        let start = |name| match preset::find(name) {
            Some(found) => Ok(found.policy),
            None if name == "default" => Ok(Self::default()),
            None => Err(PolicyError::UnknownPreset(name)),
        };
        let policy = notation::read(text, start, |policy, switch, value| {
            Switch::find(switch).ok_or(PolicyError::UnknownSwitch(switch))?.set(policy, value)
        })?;
        policy.check()?;
        Ok(policy)
    }

    /// Returns the switches in which two policies differ, with both values.
    pub fn diff<'p>(
        &'p self,
        other: &'p Self,
    ) -> impl Iterator<Item = (&'static Switch, Value, Value)> + 'p {
        SWITCHES.iter().map(move |s| (s, s.get(self), s.get(other))).filter(|(_, a, b)| a != b)
    }
}
