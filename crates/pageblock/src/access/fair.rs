//! The fair zone allocator (3.12 to 4.7): which zones a walk skips, and when a new round begins.

use crate::access::local::{Access, Local};
use crate::base::alloc_flags::{AllocFlags, Watermark};
use crate::base::error::AllocError;
use crate::base::ids::ZoneIndex;
use crate::base::request::{Gfp, Request};
use crate::percpu::snapshot::ZoneSnapshot;
use crate::policy::Fair;
use crate::policy::source::PolicySource;

/// The fair pass's verdict on a zone.
pub(crate) enum FairTest {
    Use,
    Skip,
    Stop,
}

impl<'m, Z: Access<'m, P>, P: PolicySource> Local<'_, 'm, Z, P> {
    /// Returns the fair pass's verdict on a zone (docs/linux/fast-path.md#the-fair-zone-allocator).
    pub(crate) fn fair_test(
        &mut self,
        at: ZoneIndex,
        local: bool,
        flags: AllocFlags,
        gfp: Gfp,
    ) -> FairTest {
        let low = flags.watermark() == Some(Watermark::Low);
        let (spent, depleted) =
            self.with(at, |zone, _| (zone.alloc_batch() <= 0, zone.fair_depleted()));
        match self.machine.policy.fair {
            Fair::Off => FairTest::Use,
            Fair::AllZones if low && spent => FairTest::Skip,
            Fair::AllZones if low && self.machine.policy.zone_reclaim_mode != 0 && !local => {
                FairTest::Skip
            }
            Fair::LocalNode if low && local && spent && !gfp.has(Gfp::THISNODE) => FairTest::Skip,
            Fair::AllZones | Fair::LocalNode => FairTest::Use,
            Fair::FairPass | Fair::SpentFlag if !flags.has(AllocFlags::FAIR) => FairTest::Use,
            Fair::FairPass | Fair::SpentFlag if !local => FairTest::Stop,
            Fair::FairPass if spent => FairTest::Skip,
            Fair::SpentFlag if depleted => FairTest::Skip,
            Fair::FairPass | Fair::SpentFlag => FairTest::Use,
        }
    }

    /// Returns whether a fair pass that found nothing is followed by one without fairness, and then starts a new
    /// round of batches. 4.4 does so only if a zone was skipped for its batch.
    pub(crate) fn fair_pass_again(
        &mut self,
        flags: AllocFlags,
        skipped: bool,
        preferred: ZoneIndex,
    ) -> bool {
        if self.machine.policy.fair == Fair::Off || !flags.has(AllocFlags::FAIR) {
            return false;
        }
        let always = self.machine.policy.fair == Fair::FairPass;
        if skipped || always {
            let ZoneSnapshot { node, kind, .. } = self.machine.snapshots[preferred.index()];
            for (at, snapshot) in self.machine.zones() {
                if snapshot.node == node && snapshot.kind <= kind {
                    self.with(at, |zone, _| zone.reset_fair_batch());
                }
            }
        }
        skipped || always || self.machine.nr_nodes > 1
    }

    /// See `Allocator::reset_fair_batches`.
    pub(crate) fn reset_fair_batches(&mut self, request: &Request) -> Result<(), AllocError> {
        let attempt = self.machine.attempt(self.caches.node, request)?;
        let local_only = match self.machine.policy.fair {
            Fair::AllZones => self.machine.policy.zone_reclaim_mode != 0,
            Fair::LocalNode => true,
            Fair::Off | Fair::FairPass | Fair::SpentFlag => return Ok(()),
        };
        // The request can use no zone, so none has a batch to spend.
        let Some(preferred) = self.preferred_zone(&attempt) else { return Ok(()) };
        let snapshots = self.machine.snapshots;
        for at in self.machine.zonelist(&attempt) {
            let local = snapshots[at.index()].node == snapshots[preferred.index()].node;
            if self.eligible(at, &attempt) && (!local_only || local) {
                self.with(at, |zone, _| zone.reset_fair_batch());
            }
        }
        Ok(())
    }
}
