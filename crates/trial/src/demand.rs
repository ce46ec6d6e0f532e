//! Tries settings on the demand of a recording: an allocator with other settings serves its requests again.
//!
//! The loop is open: reclaim and compaction do what they did in the recording. This shows what a setting changes in
//! the allocator's decisions, but not what it makes kswapd free.

use pageblock::frame::ORDER_LIMIT;
use pageblock::policy::{Boost, Nofragment, Policy, WmarkGap};
use pageblock_doctor::interfaces::has_sysctl;
use pageblock_measure::Run;
use pageblock_measure::value::names;
use pageblock_recording::Recording;
use pageblock_replay::demand::Demands;
use pageblock_replay::machine::recorded_kernel;
use pageblock_replay::open_loop;
use serde::Serialize;

use crate::error::Error;
use crate::remedy::Verdict;

/// The effect of settings on the demand of a recording.
#[derive(Clone, Debug, Serialize)]
pub struct DemandTrials {
    /// The recording.
    pub recording: String,
    /// The number of its requests and frees.
    pub requests: u64,
    /// The order of a pageblock.
    pub pageblock_order: u8,
    /// The rows; the first has the recorded settings.
    pub rows: Vec<DemandTrial>,
}

/// The effect of one setting.
#[derive(Clone, Debug, Serialize)]
pub struct DemandTrial {
    /// The setting, such as `vm.watermark_boost_factor=0`; the first row is `as recorded`.
    pub setting: String,
    /// Whether the setting helps, judged by the events that mix pageblocks and by the large blocks that are free at
    /// the end.
    pub verdict: Verdict,
    /// Requests that took a block from a pageblock of another type and left it mixed.
    pub fragmenting: u64,
    /// Requests that the fast path did not serve.
    pub slow: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Free blocks of the pageblock order at the end; a larger block counts as several.
    pub free_blocks: u64,
    /// The reason why the row says little, if there is one.
    pub limits: Option<&'static str>,
}

const RECLAIM: &str = "reclaim is as recorded: what the setting makes kswapd free is not in it";

/// A setting, its policy, and the limits of its trial.
type Variant = (String, Policy, Option<&'static str>);

/// Returns a policy with a change.
fn with(own: &Policy, change: impl FnOnce(&mut Policy)) -> Policy {
    let mut policy = *own;
    change(&mut policy);
    policy
}

/// Returns the settings to try on a kernel.
fn variants(own: &Policy) -> Vec<Variant> {
    let mut all = vec![("as recorded".to_owned(), *own, None)];
    if own.boost != Boost::Off {
        for value in [0, 30_000] {
            if value != own.watermark_boost_factor {
                let policy = with(own, |policy| policy.watermark_boost_factor = value);
                all.push((format!("vm.watermark_boost_factor={value}"), policy, Some(RECLAIM)));
            }
        }
    }
    if own.wmark_gap == WmarkGap::Scale {
        let value = own.watermark_scale_factor.max(50) * 2;
        let policy = with(own, |policy| policy.watermark_scale_factor = value);
        all.push((format!("vm.watermark_scale_factor={value}"), policy, Some(RECLAIM)));
    }
    all
}

/// Returns the settings that depend on the recorded machine's values.
fn of_machine(own: &Policy, recording: &Recording) -> Vec<Variant> {
    let mut all = Vec::new();
    let min: u64 = recording.start.zones.iter().map(|zone| zone.wmark.min).sum();
    if let Ok(kbytes) = u32::try_from(min * 4 * 2)
        && kbytes > 0
    {
        let policy = with(own, |policy| policy.min_free_kbytes = kbytes);
        all.push((format!("vm.min_free_kbytes={kbytes}"), policy, Some(RECLAIM)));
    }
    if has_sysctl(Some(&recording.kernel), "defrag_mode")
        && own.nofragment != Nofragment::DefragMode
    {
        let policy = with(own, |policy| policy.nofragment = Nofragment::DefragMode);
        all.push(("vm.defrag_mode=1".to_owned(), policy, Some(RECLAIM)));
    }
    all
}

/// Tries settings on the demand of a recording. `progress` is called with the setting, the number of requests done,
/// and their total, and returns whether to continue; if not, the result is `None`.
///
/// # Errors
/// If the recording cannot be replayed.
pub fn demand_trials(
    recording: &Recording,
    demands: &Demands,
    progress: &mut dyn FnMut(&str, u64, u64) -> bool,
) -> Result<Option<DemandTrials>, Error> {
    let own = &recorded_kernel(recording).allocator;
    let mut rows: Vec<DemandTrial> = Vec::new();
    let variants = variants(own).into_iter().chain(of_machine(own, recording));
    for (setting, policy, limits) in variants {
        let watch = &mut |done, all| progress(&setting, done, all);
        let replayed = open_loop::replay(recording, demands, (&setting, &policy), 0, watch)?;
        let Some(replayed) = replayed else { return Ok(None) };
        let mut row = row(&setting, &replayed.run, limits);
        if let Some(first) = rows.first() {
            row.verdict = verdict(first, &row);
        }
        rows.push(row);
    }
    Ok(Some(DemandTrials {
        recording: recording.name.clone(),
        requests: demands.count,
        pageblock_order: recording.pageblock_order,
        rows,
    }))
}

fn row(setting: &str, run: &Run, limits: Option<&'static str>) -> DemandTrial {
    let order = usize::from(run.pageblock_order());
    let blocks = |counts: &Vec<u64>| -> u64 {
        let large = counts.iter().enumerate().skip(order);
        large.map(|(at, count)| count << (at - order)).sum()
    };
    let failed =
        (0..=ORDER_LIMIT).filter_map(|order| run.counters.get(&names::alloc_failed(order)));
    DemandTrial {
        setting: setting.to_owned(),
        verdict: Verdict::NotJudged,
        fragmenting: run.extfrag.fragmenting(run.pageblock_order()),
        slow: run.counters.get("alloc_slow").unwrap_or(0),
        failed: failed.sum(),
        free_blocks: run.free_blocks.values().map(blocks).sum(),
        limits,
    }
}

/// The change, in percent, below which two replays count as equal.
const NOISE: u64 = 5;

/// Compares a setting with the recorded one.
fn verdict(own: &DemandTrial, other: &DemandTrial) -> Verdict {
    let change = |own: u64, other: u64| match own.abs_diff(other) * 100 {
        difference if difference <= own.max(other) * NOISE => 0,
        _ if other > own => 1,
        _ => -1,
    };
    match (change(own.fragmenting, other.fragmenting), change(own.free_blocks, other.free_blocks)) {
        (0, 0) => Verdict::GainsNothing,
        (mixing, blocks) if mixing <= 0 && blocks >= 0 => Verdict::Gains,
        (mixing, blocks) if mixing >= 0 && blocks <= 0 => Verdict::Worse,
        _ => Verdict::MayGain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_gains_if_fewer_blocks_mix_or_more_are_free() {
        let of = |fragmenting, free_blocks| DemandTrial {
            setting: String::new(),
            verdict: Verdict::NotJudged,
            fragmenting,
            slow: 0,
            failed: 0,
            free_blocks,
            limits: None,
        };
        let own = of(100, 50);
        assert_eq!(verdict(&own, &of(104, 51)), Verdict::GainsNothing);
        assert_eq!(verdict(&own, &of(50, 50)), Verdict::Gains);
        assert_eq!(verdict(&own, &of(100, 40)), Verdict::Worse);
        assert_eq!(verdict(&own, &of(50, 40)), Verdict::MayGain);
    }
}
