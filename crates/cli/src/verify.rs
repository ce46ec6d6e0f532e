//! `pageblock verify`: guided replay of a recording.

use anyhow::bail;

use crate::Verdict;
use crate::plan::VerifyPlan;

pub(crate) fn run(plan: &VerifyPlan) -> anyhow::Result<Verdict> {
    bail!("verify {}: not written yet", plan.recording.display())
}
