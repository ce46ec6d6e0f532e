//! A short recording of this machine with stacks, for who waits and who holds pages.

use anyhow::Context;
use pageblock_files::ScratchFolder;
use pageblock_measure::value::call_sites::CallSites;
use pageblock_recorder::{Error, Plan, Session, Tracefs};
use pageblock_recording::Recording;
use pageblock_replay::call_sites::CallSiteFinder;

use crate::interrupt;

/// Tracing under way. It is off again when this is dropped.
pub(crate) struct Trace {
    session: Session,
    folder: ScratchFolder,
}

impl Trace {
    /// Switches tracing on, in an instance of its own; `None` if that was interrupted.
    pub(crate) fn begin() -> anyhow::Result<Option<Self>> {
        Tracefs::clean()?;
        let folder = ScratchFolder::new().context("the folder for temporary files")?;
        let plan = Plan {
            out: folder.path().join("trace.pbrec"),
            buffer_kib: None,
            all_events: false,
            probes: false,
            stacks: true,
            ring: None,
        };
        match Session::start(plan, &interrupt::requested) {
            Err(Error::Stopped) => Ok(None),
            session => Ok(Some(Self { session: session?, folder })),
        }
    }

    /// Switches tracing off and returns who waited and who holds pages; `None` if that was interrupted.
    pub(crate) fn end(self) -> anyhow::Result<Option<CallSites>> {
        let Self { session, folder: _folder } = self;
        let summary = match session.finish(&interrupt::requested, &mut |_, _| ()) {
            Err(_) if interrupt::requested() => return Ok(None),
            summary => summary?,
        };
        let recording = Recording::open(&summary.out)?;
        Ok(CallSiteFinder::find(&recording, &interrupt::requested)?)
    }

    /// Switches tracing off; nothing is kept.
    pub(crate) fn discard(self) -> anyhow::Result<()> {
        Ok(self.session.discard()?)
    }
}
