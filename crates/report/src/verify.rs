//! How well a guided replay reproduced a recording, as a table and as one line.

use pageblock_measure::verification::{KindResult, Mismatch, Verification};

use crate::table::Table;

/// The certificate: one line to stand above every what-if of the recording.
#[must_use]
pub fn certificate(verification: &Verification) -> String {
    let total = verification.total();
    let Verification { recording, preset, events, .. } = verification;
    format!(
        "{recording} under {preset}: {} % of {} decisions in {events} events have the recorded \
         shape, {} % are exact; the end state is {}",
        percent(total.shape_permyriad()),
        total.cases,
        percent(total.exact_permyriad()),
        match (verification.end_state_recorded, verification.end_state_equal) {
            (false, _) => "not recorded",
            (true, true) => "equal",
            (true, false) => "not equal",
        },
    )
}

/// The certificate, a table with a row for each kind of decision, notes, and the first
/// `mismatches` mismatches with their context. Percentages are rounded down: 100.00 means all.
#[must_use]
pub fn print(verification: &Verification, mismatches: usize) -> String {
    let mut table =
        Table::new().text("decision").number("cases").number("shape [%]").number("exact [%]");
    let mut row = |name: &str, kind: &KindResult| {
        table.row([
            name.to_owned(),
            kind.cases.to_string(),
            percent(kind.shape_permyriad()),
            percent(kind.exact_permyriad()),
        ]);
    };
    for (name, kind) in &verification.kinds {
        row(name, kind);
    }
    row("all", &verification.total());
    if verification.drains.cases > 0 {
        row("of these: drains of either side", &verification.drains);
    }
    let mut text = format!("{}\n\n{}", certificate(verification), table.print());
    if !verification.notes.is_empty() {
        text.push('\n');
    }
    for note in &verification.notes {
        text += &format!("Note: {note}\n");
    }
    for mismatch in verification.mismatches.iter().take(mismatches) {
        text.push('\n');
        text += &print_mismatch(mismatch);
    }
    text
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
            notes: vec!["310 events were lost on CPU 1".into()],
            ..Verification::default()
        };
        *verification.kind_mut("mm_page_alloc") =
            KindResult { cases: 20_001, shape: 20_000, exact: 15_000 };
        *verification.kind_mut("mm_page_alloc_extfrag") =
            KindResult { cases: 5, shape: 5, exact: 5 };
        verification.kind_mut("compaction");
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
                    events have the recorded shape, 75.00 % are exact; the end state is not equal\n";
        assert_eq!(
            print(&verification, 1),
            [
                head,
                "\n",
                "decision               cases  shape [%]  exact [%]\n",
                "compaction                 0          -          -\n",
                "mm_page_alloc          20001      99.99      74.99\n",
                "mm_page_alloc_extfrag      5     100.00     100.00\n",
                "all                    20006      99.99      75.00\n",
                "\n",
                "Note: 310 events were lost on CPU 1\n",
                "\n",
                "event 7 at 2.000013 s, CPU 1: mm_page_alloc\n",
                "  recorded: pfn 4660 order 0\n",
                "  replayed: pfn 4661 order 0\n",
                "    CPU list: 4661 4660\n",
            ]
            .concat()
        );
    }
}
