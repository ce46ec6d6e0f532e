//! How well a guided replay reproduced a recording, as a table and as one line.

use pageblock_measure::certificate::Reproduced;
use pageblock_measure::certificate::verification::{
    DRAINS, Gap, KindResult, Mismatch, Verification,
};
use pageblock_measure::{Certificate, Grades};

use crate::certificate;
use crate::table::Table;

/// Returns the certificate: one line to be printed above every what-if of the recording.
#[must_use]
pub fn certificate(verification: &Verification, certificate: Option<&Certificate>) -> String {
    certificate::reproduced_in_words(&Reproduced::new(verification, certificate))
}

/// Returns a line with what a recording lacks, and what that makes meaningless.
#[must_use]
pub fn gap(gap: &Gap) -> String {
    match gap {
        Gap::NoEvents => "the recording has no events after its start snapshot".to_owned(),
        Gap::LostEvents { cpu, lost, recorded } => {
            let all = lost.saturating_add(*recorded);
            let share = (u128::from(*lost) * 10_000).checked_div(all.into());
            let share = percent(share.and_then(|share| u64::try_from(share).ok()));
            let of = match cpu {
                Some(cpu) => format!("CPU {cpu} lost"),
                None => "the recorder lost, on unnamed CPUs,".to_owned(),
            };
            format!("{of} {lost} of {all} events ({share} %)")
        }
        Gap::Cut { followed: 0, .. } => {
            "no event is known to precede the first loss: nothing can be judged".to_owned()
        }
        Gap::Cut { followed, events } => {
            format!("only the {followed} of {events} events before the first loss are replayed")
        }
        Gap::NotUnderstood { events } => {
            let have = if *events == 1 { "event was" } else { "events were" };
            format!(
                "{events} {have} not understood and not replayed (such as the free of a 1 GiB page): \
                 what it moved stays where it was in the replay"
            )
        }
        Gap::MissingEvent { event } => {
            let what = match event.as_str() {
                "mm_page_alloc" => "the contents of per-CPU lists are unknown",
                "mm_page_free_batched" => {
                    "the order in which pages reach a per-CPU list is unknown, and drains cannot be \
                     judged"
                }
                "mm_page_alloc_zone_locked" => {
                    "refills cannot be judged, nor anything that depends on what they take"
                }
                "mm_page_pcpu_drain" => {
                    "drains cannot be judged, nor anything that depends on what they free"
                }
                "mm_page_alloc_extfrag" => {
                    "fallbacks cannot be judged, nor anything that depends on what they take"
                }
                _ => "nothing can be judged",
            };
            format!("no {event} was recorded: {what}")
        }
        Gap::RequestsOnly => {
            "there are only requests and frees, and no event of what CPU lists and zones \
             do: no decision can be judged, and a replay has nothing to be compared with"
                .to_owned()
        }
        Gap::NoStartState { zones_known } => {
            let zones = match zones_known {
                true => "the zones and limits are those of --proc",
                false => {
                    "the zones are x86-64's, of the frames named, without watermarks (--proc \
                          FOLDER gives them)"
                }
            };
            format!(
                "no start state: it is inferred from what the events take and give back; memory \
                 that no event names is left out; {zones}"
            )
        }
        Gap::KernelAssumed { version } => {
            format!(
                "the kernel's version is not in the file: {version} is assumed (--kernel names another)"
            )
        }
        Gap::MissingMarks { marks } if marks[0] == "S1" => {
            "no marks S1 and S2: the first event after the start snapshot is unknown, and nothing \
             can be judged"
                .to_owned()
        }
        Gap::MissingMarks { marks: [first, second] } => format!(
            "no marks {first} and {second}: the last event before the end snapshot is unknown, and \
             the end state is not compared"
        ),
    }
}

/// Prints the certificate, what the recording lacks, a table with a row for each kind of decision, notes, the
/// grade with its reasons, and the first `mismatches` mismatches with their context. Percentages are rounded
/// down: 100.00 means all.
#[must_use]
pub fn print(verification: &Verification, graded: Option<&Grades>, mismatches: usize) -> String {
    let better = graded.map(|grades| grades.of(grades.better()));
    let mut text = format!("{}\n\n", certificate(verification, better));
    for found in &verification.gaps {
        text += &format!("Missing: {}\n", gap(found));
    }
    let table = table(verification);
    if !verification.gaps.is_empty() && !table.is_empty() {
        text.push('\n');
    }
    text += &table;
    let not_followed = verification.not_followed.iter();
    let not_followed = not_followed
        .map(|(change, count)| format!("{count} recorded changes could not be imposed: {change}"));
    let notes: Vec<String> = verification.notes.iter().cloned().chain(not_followed).collect();
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in &notes {
        text += &format!("Note: {note}\n");
    }
    let drift = verification.drift.iter().map(|tenth| percent(tenth.exact_permyriad()));
    let drift: Vec<String> = drift.collect();
    if !drift.is_empty() && !verification.is_void() {
        let tenths = drift.join(" ");
        text += &format!("\nExact decisions in each tenth of the events [%]: {tenths}\n");
    }
    if let Some(graded) = graded {
        text += &format!("\n{}", certificate::print(graded, &verification.preset));
    }
    for mismatch in verification.mismatches.iter().take(mismatches) {
        text.push('\n');
        text += &print_mismatch(mismatch);
    }
    text
}

/// Returns a table with a row for each kind of decision; empty if nothing is judged.
fn table(verification: &Verification) -> String {
    if verification.is_void() {
        return String::new();
    }
    let mut table = Table::new().text("decision").number("cases");
    table = table.number("shape [%]").number("exact [%]").number("explained");
    let mut rows: Vec<(&str, Option<&KindResult>)> =
        verification.kinds.iter().map(|(name, kind)| (name.as_str(), Some(kind))).collect();
    rows.extend(verification.not_judged.iter().map(|name| (name.as_str(), None)));
    rows.sort_unstable_by_key(|&(name, _)| name);
    let total = verification.total();
    rows.push(("all", Some(&total)));
    let drains = format!("of these: {DRAINS}");
    if verification.drains.cases > 0 {
        rows.push((&drains, Some(&verification.drains)));
    }
    for (name, kind) in rows {
        let cells = match kind {
            Some(kind) => [
                kind.cases.to_string(),
                percent(kind.shape_permyriad()),
                percent(kind.exact_permyriad()),
                kind.explained.to_string(),
            ],
            None => ["not judged", "-", "-", "-"].map(str::to_owned),
        };
        let [cases, shape, exact, explained] = cells;
        table.row([name.to_owned(), cases, shape, exact, explained]);
    }
    table.print()
}

fn print_mismatch(mismatch: &Mismatch) -> String {
    let Mismatch { event_index, t_us, cpu, kind, expected, actual, context } = mismatch;
    let seconds = t_us / 1_000_000;
    let micros = t_us % 1_000_000;
    let mut text = format!(
        "event {event_index} at {seconds}.{micros:06} s, CPU {cpu}: {kind}\n  \
         recorded: {expected}\n  replayed: {actual}\n"
    );
    for line in context {
        text += &format!("    {line}\n");
    }
    text
}

pub(crate) fn percent(permyriad: Option<u64>) -> String {
    permyriad.map_or("-".to_owned(), |share| format!("{}.{:02}", share / 100, share % 100))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_with_the_first_mismatches() {
        let mut verification = Verification {
            recording: "qemu-6.1-osc640-s31".into(),
            preset: "debian-6.1".into(),
            events: 30_000,
            end_state_recorded: true,
            end_state_equal: Some(false),
            notes: vec!["drains: 7 in both".into()],
            ..Verification::default()
        };
        *verification.kind_mut("mm_page_alloc") =
            KindResult { cases: 20_001, shape: 20_000, exact: 15_000, explained: 8 };
        *verification.kind_mut("mm_page_alloc_extfrag") =
            KindResult { cases: 5, shape: 5, exact: 5, explained: 0 };
        verification.kind_mut("compaction");
        verification.not_followed.insert("blocks freed to the zone".into(), 2);
        for event_index in [7, 8] {
            verification.mismatches.push(Mismatch {
                event_index,
                t_us: 2_000_013,
                cpu: 1,
                kind: "mm_page_alloc".into(),
                expected: "pfn 4660 order 0".into(),
                actual: "pfn 4661 order 0".into(),
                context: vec!["CPU list: 4661 4660".into()],
            });
        }
        let head = "qemu-6.1-osc640-s31 under debian-6.1: 99.99 % of 20006 decisions in 30000 \
                    events have the recorded shape, 75.00 % are exact; the worst kind is \
                    mm_page_alloc, 74.99 % of 20001 exact; the end state is not equal\n";
        assert_eq!(
            print(&verification, None, 1),
            [
                head,
                "\n",
                "decision               cases  shape [%]  exact [%]  explained\n",
                "compaction                 0          -          -          0\n",
                "mm_page_alloc          20001      99.99      74.99          8\n",
                "mm_page_alloc_extfrag      5     100.00     100.00          0\n",
                "all                    20006      99.99      75.00          8\n",
                "\n",
                "Note: drains: 7 in both\n",
                "Note: 2 recorded changes could not be imposed: blocks freed to the zone\n",
                "\n",
                "event 7 at 2.000013 s, CPU 1: mm_page_alloc\n",
                "  recorded: pfn 4660 order 0\n",
                "  replayed: pfn 4661 order 0\n",
                "    CPU list: 4661 4660\n",
            ]
            .concat()
        );
    }

    /// Figures that a gap makes meaningless are not printed, and the gap is printed above the table.
    #[test]
    fn gaps_are_printed_above_the_table_instead_of_figures() {
        let mut verification = Verification {
            recording: "field".into(),
            preset: "linux-6.18".into(),
            events: 900,
            gaps: vec![
                Gap::LostEvents { cpu: Some(1), lost: 100, recorded: 1900 },
                Gap::Cut { followed: 900, events: 4000 },
                Gap::MissingEvent { event: "mm_page_free_batched".into() },
            ],
            ..Verification::default()
        };
        *verification.kind_mut("refill frame") =
            KindResult { cases: 10, shape: 10, exact: 10, explained: 0 };
        verification.not_judged.insert("drain frame".into());
        assert_eq!(
            print(&verification, None, 0),
            concat!(
                "field under linux-6.18: 100.00 % of 10 decisions in 900 events have the recorded ",
                "shape, 100.00 % are exact; not judged: drain frame; the end state is not recorded\n",
                "\n",
                "Missing: CPU 1 lost 100 of 2000 events (5.00 %)\n",
                "Missing: only the 900 of 4000 events before the first loss are replayed\n",
                "Missing: no mm_page_free_batched was recorded: the order in which pages reach a per-CPU ",
                "list is unknown, and drains cannot be judged\n",
                "\n",
                "decision           cases  shape [%]  exact [%]  explained\n",
                "drain frame   not judged          -          -          -\n",
                "refill frame          10     100.00     100.00          0\n",
                "all                   10     100.00     100.00          0\n",
            )
        );
        let void = Verification {
            gaps: vec![Gap::MissingMarks { marks: ["S1".into(), "S2".into()] }],
            ..verification
        };
        let void = Verification { kinds: [].into(), ..void };
        let text = print(&void, None, 0);
        assert!(text.starts_with("field under linux-6.18: not judged: no marks S1 and S2: "));
        assert!(!text.contains(" % ") && !text.contains("decision  "), "{text}");
    }
}
