//! The gaps of a recording, and the figures that they make meaningless.

use std::ops::Range;

use pageblock_measure::Verification;
use pageblock_measure::certificate::verification::{Gap, KindResult};
use pageblock_recording::{Columnar, Record, Recording, What};

use crate::guided::kind;

const ALLOC: &str = "mm_page_alloc";
const FREE: &str = "mm_page_free";
const FREE_BATCHED: &str = "mm_page_free_batched";
const ZONE_LOCKED: &str = "mm_page_alloc_zone_locked";
const DRAIN: &str = "mm_page_pcpu_drain";
const EXTFRAG: &str = "mm_page_alloc_extfrag";

/// Among this many frees some are batched, as every exiting process frees its memory in batches.
const FREES_WITHOUT_BATCH: u64 = 1000;

/// Returns the gaps of a recording that are known without following its events. `followed` are the events that a
/// replay would follow.
pub(crate) fn known(recording: &Recording, columnar: &Columnar, followed: Range<u64>) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let windows = &columnar.windows;
    let marks = |names: [&str; 2]| Gap::MissingMarks { marks: names.map(str::to_owned) };
    if windows.events == 0 {
        return vec![Gap::NoEvents];
    }
    let losses = &columnar.losses;
    if losses.first_event.is_some_and(|first| first < windows.end_event()) {
        for (&cpu, &lost) in &losses.by_cpu {
            let recorded = losses.recorded.get(&cpu).copied().unwrap_or(0);
            gaps.push(Gap::LostEvents { cpu, lost, recorded });
        }
        let events = windows.end_event().saturating_sub(followed.start);
        gaps.push(Gap::Cut { followed: followed.end - followed.start, events });
    }
    if recording.requests_only {
        gaps.push(Gap::RequestsOnly);
    }
    if !recording.start_known {
        let zones_known = recording.start.zones.iter().any(|zone| zone.wmark.high > 0);
        gaps.push(Gap::NoStartState { zones_known });
    } else if windows.start.markers.is_empty() {
        gaps.push(marks(["S1", "S2"]));
    }
    if recording.kernel_assumed {
        let (major, minor) = recording.kernel.row();
        gaps.push(Gap::KernelAssumed { version: format!("{major}.{minor}") });
    }
    if recording.end.is_some() && windows.end.as_ref().is_some_and(|end| end.markers.is_empty()) {
        gaps.push(marks(["E1", "E2"]));
    }
    if gaps.is_empty() && followed.is_empty() {
        gaps.push(Gap::NoEvents);
    }
    gaps
}

/// Removes every figure from a result.
pub(crate) fn nothing_is_judged(result: &mut Verification) {
    let every = kind::ALL.map(str::to_owned);
    result.kinds.clear();
    result.not_judged.extend(every);
    result.drains = KindResult::default();
    result.end_state_equal = None;
    result.mismatches.clear();
}

/// The number of events of each kind, and signs in the state that a kind was not recorded.
#[derive(Clone, Copy, Default)]
pub(crate) struct Seen {
    alloc: u64,
    free: u64,
    free_batched: u64,
    zone_locked: u64,
    drain: u64,
    extfrag: u64,
    not_understood: u64,
    /// Requests that got a block which was free in the model's zone.
    pub(crate) allocated_in_zone: u64,
    /// CPU lists that should have drained, and did not.
    pub(crate) not_drained: u64,
    /// The limits of CPU lists are inferred, and may really be larger.
    pub(crate) limits_are_inferred: bool,
    /// Blocks from the zone that the model still had on a CPU list.
    pub(crate) left_list_unseen: u64,
    /// Blocks from the zone that the model had on another type's list.
    pub(crate) of_another_type: u64,
}

impl Seen {
    #[inline]
    pub(crate) fn push(&mut self, record: &Record) {
        match record.what {
            What::Alloc { .. } => self.alloc += 1,
            What::Free { .. } => self.free += 1,
            What::FreeBatched { .. } => self.free_batched += 1,
            What::ZoneLocked { .. } => self.zone_locked += 1,
            What::Drain { .. } => self.drain += 1,
            What::Extfrag(_) => self.extfrag += 1,
            What::Other(_) => self.not_understood += u64::from(record.what.is_not_understood()),
            _ => {}
        }
    }

    /// Returns the tracepoints that were not recorded: those without an event although other events imply some.
    fn missing(&self) -> impl Iterator<Item = &'static str> + use<> {
        let not_drained = if self.limits_are_inferred { 0 } else { self.not_drained };
        [
            (ALLOC, self.alloc, self.free + self.zone_locked),
            (FREE, self.free, self.alloc),
            (FREE_BATCHED, self.free_batched, self.free / FREES_WITHOUT_BATCH),
            (ZONE_LOCKED, self.zone_locked, self.allocated_in_zone),
            (DRAIN, self.drain, not_drained + self.left_list_unseen),
            (EXTFRAG, self.extfrag, self.of_another_type),
        ]
        .into_iter()
        .filter(|&(_, events, evidence)| events == 0 && evidence > 0)
        .map(|(name, ..)| name)
    }

    /// Removes the figures from a result that are meaningless without a kind of event.
    pub(crate) fn judge(&self, result: &mut Verification) {
        if self.alloc + self.free + self.zone_locked + self.drain + self.extfrag == 0 {
            result.gaps.push(Gap::NoEvents);
            nothing_is_judged(result);
        }
        if self.not_understood > 0 {
            result.gaps.push(Gap::NotUnderstood { events: self.not_understood });
        }
        for event in self.missing() {
            result.gaps.push(Gap::MissingEvent { event: event.to_owned() });
            let meaningless = made_meaningless(event);
            let is_meaningless =
                |name: &str| meaningless.iter().any(|&kind| name.starts_with(kind));
            result.kinds.retain(|name, _| !is_meaningless(name));
            result.mismatches.retain(|mismatch| !is_meaningless(&mismatch.kind));
            result.not_judged.extend(meaningless.iter().map(|&kind| kind.to_owned()));
            if meaningless.contains(&kind::DRAIN_COUNT) {
                // Those figures were inferred from drains.
                result.drains = KindResult::default();
                result.notes.clear();
                result.not_followed.clear();
            }
        }
    }
}

/// Returns the kinds of decision whose figures are wrong if a tracepoint was not recorded.
///
/// Refills, drains, fallbacks and frees that bypass the CPU lists determine the zone's free lists; allocations too
/// determine what is on CPU lists. Batched frees tell the order in which pages reach a list's head, which shows at
/// its tail.
fn made_meaningless(event: &str) -> &'static [&'static str] {
    match event {
        ALLOC => &[kind::CPU_LIST_FRAME, kind::DRAIN_COUNT, kind::DRAIN_FRAME, kind::REFILL_COUNT],
        FREE_BATCHED => &[kind::DRAIN_COUNT, kind::DRAIN_FRAME],
        _ => &kind::ALL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_drain_is_a_sign_only_where_the_limits_of_lists_are_known() {
        let seen = |limits_are_inferred, left_list_unseen| {
            let seen = Seen { limits_are_inferred, left_list_unseen, ..Seen::default() };
            Seen { alloc: 9, free: 9, zone_locked: 9, not_drained: 1, ..seen }
        };
        let missing = |seen: Seen| seen.missing().collect::<Vec<_>>();
        assert_eq!(missing(seen(false, 0)), [DRAIN]);
        assert!(missing(seen(true, 0)).is_empty());
        assert_eq!(missing(seen(true, 1)), [DRAIN]);
    }

    #[test]
    fn what_was_not_understood_is_counted() {
        let parser = &mut pageblock_recording::LineParser::new(pageblock_recording::Decoding {
            numbering: pageblock::mobility::Numbering::Modern,
            cma: false,
        });
        let mut seen = Seen::default();
        for line in ["1 0 7 F 512 0", "1 0 7 F 2097152 18", "1 0 7 E mm_vmscan_kswapd_sleep nid=0"]
        {
            seen.push(&parser.parse(line.as_bytes()).unwrap().unwrap());
        }
        let mut result = Verification::default();
        seen.judge(&mut result);
        assert!(result.gaps.contains(&Gap::NotUnderstood { events: 1 }), "{:?}", result.gaps);
    }
}
