//! `pageblock replay`: the demands of a recording under any policy.

use anyhow::bail;

use crate::Verdict;
use crate::plan::ReplayPlan;

pub(crate) fn run(plan: &ReplayPlan) -> anyhow::Result<Verdict> {
    bail!("replay {}: not written yet", plan.recording.display())
}
