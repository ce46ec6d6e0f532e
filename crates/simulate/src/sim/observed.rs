//! What watches the allocator of a simulated machine: a tally of its events, and a policy of one's own, if the kernel
//! names one.

use core::fmt;
use core::ops::{Deref, DerefMut};

use pageblock::decide::{
    Block, CpuLists, Decide, Decision, End, Evacuation, Fallback, Kept, Outcome, Pageblock, View,
    Want,
};
use pageblock::event::{Event, Observer};
use pageblock::frame::Pfn;
use pageblock::ids::CpuId;
use pageblock::mobility::Migratetype;
use pageblock::request::Gfp;
use pageblock_kernel::own::Own;
use pageblock_measure::Tally;
use pageblock_measure::certificate::note::Known;

/// A tally, and who decides.
#[derive(Debug)]
pub struct Observed {
    /// The events so far.
    pub tally: Tally,
    decider: Option<Decider>,
}

impl Observed {
    /// Returns what watches a machine whose kernel names this policy.
    #[must_use]
    pub fn new(own: Option<Own>) -> Self {
        let decider = own.map(|own| Decider { own, decide: (own.make)(), refused: 0 });
        Self { tally: Tally::new(), decider }
    }

    /// Returns a note about answers that were refused; `None` if there are none.
    #[must_use]
    pub fn refusals(&self) -> Option<Known> {
        let Decider { own, refused: answers, .. } = self.decider.as_ref()?;
        (*answers > 0).then(|| Known::Refused { policy: own.name.to_owned(), answers: *answers })
    }
}

impl Deref for Observed {
    type Target = Tally;

    fn deref(&self) -> &Tally {
        &self.tally
    }
}

impl DerefMut for Observed {
    fn deref_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }
}

impl Observer for Observed {
    #[inline(always)]
    fn event(&mut self, event: Event) {
        self.tally.event(event);
    }

    fn decider(&mut self) -> Option<impl Decide> {
        self.decider.as_mut()
    }
}

/// A policy at work, and how many of its answers were refused.
struct Decider {
    own: Own,
    decide: Box<dyn Decide>,
    refused: u64,
}

impl fmt::Debug for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.own.fmt(f)
    }
}

impl Decide for Decider {
    fn on(&mut self, cpu: CpuId, gfp: Gfp) {
        self.decide.on(cpu, gfp);
    }

    fn cma_first(&mut self, zone: &dyn View, want: Want, linux: bool) -> bool {
        self.decide.cma_first(zone, want, linux)
    }

    fn owner(&mut self, zone: &dyn View, block: Block, linux: CpuId) -> CpuId {
        self.decide.owner(zone, block, linux)
    }

    fn passes(&mut self, zone: &dyn View, want: Want) -> bool {
        self.decide.passes(zone, want)
    }

    fn serve(&mut self, zone: &dyn View, want: Want, linux: Block) -> Pfn {
        self.decide.serve(zone, want, linux)
    }

    fn fallback(
        &mut self,
        zone: &dyn View,
        want: Want,
        linux: Option<Fallback>,
    ) -> Option<Fallback> {
        self.decide.fallback(zone, want, linux)
    }

    fn claim(&mut self, want: Want, block: Block, holds: Pageblock, linux: Outcome) -> Outcome {
        self.decide.claim(want, block, holds, linux)
    }

    fn boost(&mut self, zone: &dyn View, kind: Migratetype, linux: u64) -> u64 {
        self.decide.boost(zone, kind, linux)
    }

    fn freed_to(&mut self, zone: &dyn View, block: Block, linux: End) -> End {
        self.decide.freed_to(zone, block, linux)
    }

    fn keep(&mut self, zone: &dyn View, block: Block, linux: Kept) -> Kept {
        self.decide.keep(zone, block, linux)
    }

    fn refill(&mut self, lists: CpuLists, linux: u32) -> u32 {
        self.decide.refill(lists, linux)
    }

    fn drain(&mut self, lists: CpuLists, linux: u32) -> u32 {
        self.decide.drain(lists, linux)
    }

    fn evacuate(&mut self, zone: &dyn View) -> Option<Evacuation> {
        self.decide.evacuate(zone)
    }

    fn refused(&mut self, decision: Decision) {
        self.refused += 1;
        self.decide.refused(decision);
    }
}
