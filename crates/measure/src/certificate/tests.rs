use pageblock::mobility::Migratetype::{Movable, Unmovable};

use super::*;
use crate::certificate::{Course, EndState, Loop, Outcome, median};
use crate::value::blocks::TypeCounts;
use crate::value::extfrag::{ExtfragKey, ExtfragMatrix};
use crate::value::names;

/// An outcome with so many steals, mismatched pages, and free pages of order 0 among 10,000.
fn outcome(steals: u64, mismatched: u64, single: u64) -> Outcome {
    let mut extfrag = ExtfragMatrix::new();
    let key = ExtfragKey {
        alloc_mt: Movable,
        fallback_mt: Unmovable,
        alloc_order: 0,
        fallback_order: 3,
        owned: false,
    };
    extfrag.add(key, steals);
    let mut mismatch = crate::Counters::new();
    mismatch.set(names::TYPE_MISMATCH_PAGES, mismatched);
    mismatch.set(names::type_mismatch(Movable, Unmovable), mismatched);
    let mut fallbacks = Course::starting(0);
    (0..steals).for_each(|t| fallbacks.push(t * 1000 / steals));
    let mut end = EndState::default();
    end.add_free(0, Some(Movable), single);
    end.add_free(2, Some(Movable), (10_000 - single) / 4);
    let mut blocks = TypeCounts::default();
    blocks[Movable] = 100;
    end.blocks = Some(blocks);
    let (extfrag, mismatch, end) = (Some(extfrag), Some(mismatch), Some(end));
    Outcome { extfrag, fallbacks, mismatch, failed: 3, mixed: Some(10), end }
}

fn certify(recorded: &Outcome, replayed: &Outcome) -> Certificate {
    let mut decisions = Verification::default();
    decisions.kind_mut("refill frame").cases = 1;
    Certificate::new(&decisions, false, recorded.distances(replayed, 9))
}

#[test]
fn a_replay_that_is_as_recorded_supports_everything() {
    let same = outcome(1000, 500, 4000);
    let certificate = certify(&same, &same);
    assert_eq!(certificate.grade, Grade::A);
    assert!(certificate.distances.iter().all(|d| d.permyriad == 0), "{certificate:?}");
    assert_eq!(certificate.distances.len(), 11);
}

#[test]
fn a_recorded_0_has_no_ratio_to_anything() {
    let certificate = certify(&outcome(1000, 0, 4000), &outcome(1000, 1024, 4000));
    assert_eq!(certificate.support(Part::Mismatch), Support::NoneRecorded);
    let distance = |certificate: &Certificate, measure| {
        certificate.distances.iter().find(|d| d.measure == measure).unwrap().clone()
    };
    assert!(distance(&certificate, Measure::MismatchTotal).has_no_ratio());
    let few = certify(&outcome(1000, 0, 4000), &outcome(1000, 19, 4000));
    assert_eq!(few.support(Part::Mismatch), Support::Rare);
    assert!(!distance(&few, Measure::MismatchTotal).has_no_ratio());
}

#[test]
fn the_times_of_fallbacks_stand_beside_their_own_number() {
    // Fallbacks that claim whole pageblocks fragment nothing.
    let mut recorded = outcome(1000, 0, 4000);
    recorded.extfrag = Some(ExtfragMatrix::new());
    let certificate = certify(&recorded, &recorded.clone());
    let of = |measure| certificate.distances.iter().find(|d| d.measure == measure).unwrap();
    assert_eq!(
        (of(Measure::FallbackTotal).recorded, of(Measure::FallbackTime).recorded),
        (0, 1000)
    );
}

/// A what-if may not show a change that is smaller than the replay's own error, nor anything where that is large.
#[test]
fn each_part_is_supported_by_its_own_distances() {
    let certificate = certify(&outcome(1000, 500, 4000), &outcome(1100, 900, 4000));
    assert_eq!(
        certificate.support(Part::Fragmentation),
        Support::Supported { margin_permyriad: 1000 }
    );
    assert_eq!(
        certificate.support(Part::Mismatch),
        Support::LargeChanges { margin_permyriad: 8000 }
    );
    assert_eq!(certificate.grade, Grade::B);
    // Off by a factor of two downwards.
    let certificate = certify(&outcome(1000, 500, 4000), &outcome(499, 260, 4000));
    let unsupported = |margin_permyriad| Support::Unsupported { margin_permyriad };
    assert_eq!(certificate.support(Part::Fragmentation), unsupported(5010));
    assert_eq!(
        certificate.support(Part::Mismatch),
        Support::LargeChanges { margin_permyriad: 4800 }
    );
    let certificate = certify(&outcome(1000, 500, 4000), &outcome(3100, 500, 9000));
    assert_eq!(certificate.support(Part::Fragmentation), unsupported(21_000));
    assert_eq!(certificate.support(Part::FreePages), unsupported(5000));
    assert_eq!(certificate.grade, Grade::C);
}

#[test]
fn what_was_rare_is_not_tested_and_raises_no_grade() {
    let certificate = certify(&outcome(2, 500, 4000), &outcome(5, 500, 4000));
    assert_eq!(certificate.support(Part::Fragmentation), Support::Rare);
    // Half of the parts are too few for a good grade.
    assert_eq!((tested(&certificate.parts), certificate.grade), (3, Grade::C));
    let certificate = certify(&outcome(1000, 3, 4000), &outcome(1000, 5, 4000));
    assert_eq!((tested(&certificate.parts), certificate.grade), (4, Grade::A));
    let certificate = certify(&outcome(2, 500, 4000), &outcome(23, 500, 4000));
    let unsupported = Support::Unsupported { margin_permyriad: 10_500 };
    assert_eq!(certificate.support(Part::Fragmentation), unsupported);
}

#[test]
fn mixed_pageblocks_are_a_part_of_their_own() {
    let with = |mixed| Outcome { mixed, ..outcome(1000, 500, 4000) };
    let support =
        |recorded, replayed| certify(&with(recorded), &with(replayed)).support(Part::Mixed);
    let large = Support::LargeChanges { margin_permyriad: 5000 };
    assert_eq!(support(Some(40), Some(60)), large);
    assert_eq!(support(Some(40), Some(19)), Support::Unsupported { margin_permyriad: 5250 });
    assert_eq!(support(Some(10), Some(12)), Support::Rare);
    assert_eq!(support(None, Some(12)), Support::Unknown);
}

#[test]
fn what_was_not_recorded_is_unknown() {
    let replayed = outcome(1000, 500, 4000);
    let recorded = Outcome { extfrag: None, end: None, ..replayed.clone() };
    let certificate = certify(&recorded, &replayed);
    for part in [Part::Fragmentation, Part::Effects, Part::Blocks, Part::FreePages] {
        assert_eq!(certificate.support(part), Support::Unknown);
    }
    assert_eq!(certificate.grade, Grade::C);
    let mut decisions = Verification::default();
    assert_eq!(Certificate::new(&decisions, false, Vec::new()).grade, Grade::F);
    decisions.kind_mut("refill frame").cases = 1;
    assert_eq!(Certificate::new(&decisions, false, Vec::new()).grade, Grade::D);
}

#[test]
fn types_of_free_pages_are_compared_where_they_are_known() {
    let (recorded, mut replayed) = (outcome(9, 9, 4000), outcome(9, 9, 4000));
    let end = replayed.end.as_mut().unwrap();
    end.free_pages = [("0 Unmovable".into(), 4000), ("2 Movable".into(), 6000)].into();
    let distance = |of: Measure, recorded: &Outcome| {
        let distances = recorded.distances(&replayed, 9);
        distances.iter().find(|d| d.measure == of).map(|d| d.permyriad)
    };
    assert_eq!(distance(Measure::FreeByOrder, &recorded), Some(0));
    assert_eq!(distance(Measure::FreeByType, &recorded), Some(4000));
    let mut unknown = recorded;
    unknown.end.as_mut().unwrap().free_pages = [("0 ?".into(), 4000), ("2 ?".into(), 6000)].into();
    assert_eq!(distance(Measure::FreeByOrder, &unknown), Some(0));
    assert_eq!(distance(Measure::FreeByType, &unknown), None);
}

/// The loop with the better grade is taken; of one grade that with fewer restrictions, and the open one if they are equal.
#[test]
fn the_loop_that_supports_more_is_the_better_one() {
    let recorded = outcome(1000, 500, 4000);
    let graded = |open: &Outcome, closed: &Outcome| Grades {
        open: certify(&recorded, open),
        closed: Some(certify(&recorded, closed)),
    };
    let (near, far, wrong) =
        (outcome(1100, 520, 4000), outcome(1400, 520, 4000), outcome(2500, 520, 4000));
    assert_eq!(graded(&near, &near).better(), Loop::Open);
    assert_eq!(graded(&far, &near).better(), Loop::Closed);
    assert_eq!(graded(&near, &far).better(), Loop::Open);
    assert_eq!(graded(&wrong, &far).better(), Loop::Closed);
    let alone = Grades { closed: None, ..graded(&wrong, &near) };
    assert_eq!(alone.better(), Loop::Open);
    assert_eq!(alone.of(Loop::Closed), &alone.open);
}

/// The same demand gives far more events with one draw than with another: neither is the recording's distance.
#[test]
fn a_grade_is_of_the_median_draw() {
    let recorded = outcome(1000, 500, 4000);
    let draws = [outcome(1000, 500, 4000), outcome(1300, 500, 4000), outcome(9000, 500, 4000)];
    let distances = median(draws.iter().map(|draw| recorded.distances(draw, 9)).collect());
    let of = |measure| distances.iter().find(|d| d.measure == measure).unwrap();
    let total = of(Measure::FallbackTotal);
    assert_eq!((total.recorded, total.replayed, total.permyriad), (1000, 1300, 3000));
    assert_eq!(of(Measure::MismatchTotal).permyriad, 0);
    assert_eq!(distances.len(), recorded.distances(&draws[1], 9).len());
    assert_eq!(median(Vec::new()), []);
}
