//! What can be concluded from a recording, as text.

use std::collections::BTreeMap;

use pageblock_measure::certificate::{
    Certified, DRAWS, Distance, Drawn, FEW, Grade, Grades, Loop, Part, Reproduced, Support, Taken,
    tested,
};

use crate::table::Table;
use crate::verify::{gap, percent};

/// Returns the certificate of a run's recording: one line to be printed above every what-if.
#[must_use]
pub fn line(certified: &Certified) -> String {
    match certified {
        Certified::Reproduced(reproduced) => reproduced_in_words(reproduced),
        Certified::Sentence(sentence) => sentence.trim_end().to_owned(),
    }
}

pub(crate) fn reproduced_in_words(of: &Reproduced) -> String {
    let Reproduced { recording, preset, events, .. } = of;
    let Some(total) = of.decisions else {
        let gap = of.gap.as_ref().map(gap).unwrap_or_default();
        return format!("{recording} under {preset}: not judged: {gap}") + &replayed(of);
    };
    let grade =
        of.grade.map_or(String::new(), |letter| format!("{}; ", recorded_grade(of, letter)));
    let mut text = format!(
        "{recording} under {preset}: {grade}{} % of {} decisions in {events} events have the recorded \
         shape, {} % are exact",
        percent(total.shape_permyriad()),
        total.cases,
        percent(total.exact_permyriad()),
    );
    if let Some((name, kind)) = &of.worst {
        let exact = percent(kind.exact_permyriad());
        text += &format!("; the worst kind is {name}, {exact} % of {} exact", kind.cases);
    }
    if !of.not_judged.is_empty() {
        text += &format!("; not judged: {}", of.not_judged.join(", "));
    }
    text += match (of.end_state_recorded, of.end_state_equal) {
        (false, _) => "; the end state is not recorded",
        (true, Some(true)) => "; the end state is equal",
        (true, Some(false)) => "; the end state is not equal",
        (true, None) => "; the end state is not compared block by block",
    };
    text + &replayed(of)
}

/// Returns the grade of the recording; with what it means if the loop that was taken has it.
fn recorded_grade(of: &Reproduced, letter: Grade) -> String {
    let of_taken = of.taken.and_then(|taken| taken.grade);
    match of.taken {
        Some(taken) if of_taken.is_some_and(|own| own != letter) => {
            format!("grade {letter:?} (the {})", taken.taken.other().name())
        }
        _ => grade(letter, &of.parts),
    }
}

/// Says which loop was taken and why, and what the seeds give.
fn replayed(of: &Reproduced) -> String {
    let taken = of.taken.map_or(String::new(), |loop_| {
        let own = loop_.grade.filter(|own| of.grade.is_some_and(|whole| whole != *own));
        let own = own.map_or(String::new(), |own| format!(": {}", grade(own, &of.parts)));
        format!("; {}{own}", taken(loop_))
    });
    let drawn = of.drawn.as_ref().map_or(String::new(), |of| {
        let Drawn { policy, recorded, fewest, most } = of;
        format!(
            "; over the seeds {fewest} to {most} fragmentation events under {policy}, where {recorded} are recorded"
        )
    });
    taken + &drawn
}

/// Returns the grade with what it means: how many parts of a what-if are tested, and how many of these are supported.
fn grade(letter: Grade, parts: &BTreeMap<Part, Support>) -> String {
    let (tested, all) = (tested(parts), parts.len());
    let supported = parts.values().filter(|part| part.is_supported()).count();
    let means = match letter {
        Grade::F => return "grade F, nothing is judged".to_owned(),
        Grade::D => "decisions are judged, but no part of a what-if is supported".to_owned(),
        // Older versions kept no parts.
        _ if parts.is_empty() => return format!("grade {letter:?}"),
        Grade::A => format!("{tested} of {all} parts of a what-if are tested, all are supported"),
        Grade::B => format!(
            "{tested} of {all} parts of a what-if are tested, all are supported, some for large changes only"
        ),
        Grade::C => {
            format!("{tested} of {all} parts of a what-if are tested, {supported} supported")
        }
    };
    format!("grade {letter:?}, {means}")
}

/// Why no change of a what-if is marked.
pub const NOT_SHOWN: &str =
    "what-ifs of such a change were not shown to be right (docs/fidelity.md#what-ifs)";

/// Returns what a recording and a what-if support of a measure together.
#[must_use]
pub fn supports_what_if(support: Option<Support>, least_ratio: Option<f64>) -> String {
    match (support, least_ratio) {
        (None, _) => "not graded".to_owned(),
        (Some(support), _) if !support.is_supported() => supports(support),
        (Some(_), None) => "nothing: its what-ifs were not right".to_owned(),
        (Some(support), Some(least)) => format!("{}, beyond x{least:.2}", supports(support)),
    }
}

fn taken(of: Taken) -> String {
    let (name, rival) = (of.taken.name(), of.taken.other().name());
    let Some(grade) = of.other else {
        return format!("the {name} is taken: the recording has no other");
    };
    match (of.as_asked, of.taken) {
        (true, _) => format!("the {name} is taken, as asked for (the {rival}: grade {grade:?})"),
        (false, Loop::Open) => {
            format!("the {name} is taken: the {rival} supports no more (grade {grade:?})")
        }
        (false, Loop::Closed) => {
            format!("the {name} is taken: it supports more than the {rival} (grade {grade:?})")
        }
    }
}

/// Prints the better loop's grade, how far both free replays are from the recording, and what that supports.
#[must_use]
pub fn print(grades: &Grades, policy: &str) -> String {
    let better = grades.better();
    let open = &grades.open;
    let taken = grades.of(better);
    let mut text = grade(taken.grade, &taken.parts);
    text[..1].make_ascii_uppercase();
    text.push('\n');
    text += &format!("Lost events: {}; the start state is ", open.lost);
    text += if open.start_inferred { "inferred from events\n" } else { "recorded\n" };
    if open.distances.is_empty() {
        return text;
    }
    let closed = grades.closed.as_ref();
    if let Some(closed) = closed {
        let (open, closed) = (open.grade, closed.grade);
        text += &format!("Open loop: grade {open:?}; closed loop: grade {closed:?}; ");
        text += &format!("a replay takes the {}\n", better.name());
    }
    let mut table = Table::new().text("measure").number("recorded").number("open loop");
    table = table.number("distance [%]");
    if closed.is_some() {
        table = table.number("closed loop").number("distance [%]");
    }
    table = table.text("which distance");
    for distance in &open.distances {
        let mut row = vec![distance.measure.name().to_owned(), distance.recorded.to_string()];
        let mut cells = |distance: Option<&Distance>| {
            row.push(distance.map_or_else(String::new, |d| d.replayed.to_string()));
            row.push(distance.map_or_else(String::new, |d| match d.has_no_ratio() {
                true => "no ratio".to_owned(),
                false => percent(Some(d.permyriad)),
            }));
        };
        cells(Some(distance));
        if let Some(closed) = closed {
            cells(closed.distances.iter().find(|d| d.measure == distance.measure));
        }
        row.push(distance.measure.kind().name().to_owned());
        table.row(row);
    }
    text += &format!(
        "\nFree replays under {policy} beside the recording, the median of {DRAWS} draws\n{}",
        table.print()
    );
    let mut table = Table::new().text("part of a what-if").text("what the open loop supports");
    if closed.is_some() {
        table = table.text("what the closed loop supports");
    }
    for part in Part::ALL {
        let mut row = vec![part.name().to_owned(), supports(open.support(part))];
        row.extend(closed.map(|closed| supports(closed.support(part))));
        table.row(row);
    }
    text + "\n" + &table.print()
}

/// Returns what a part of a what-if supports.
#[must_use]
pub fn supports(support: Support) -> String {
    let margin = |permyriad| percent(Some(permyriad));
    match support {
        Support::Supported { margin_permyriad: 0 } => "every change".to_owned(),
        Support::Supported { margin_permyriad } => {
            format!("changes above {} %", margin(margin_permyriad))
        }
        Support::LargeChanges { margin_permyriad } => {
            format!("large changes only, above {} %", margin(margin_permyriad))
        }
        Support::Unsupported { margin_permyriad } => {
            format!("nothing: the replay is off by {} %", margin(margin_permyriad))
        }
        Support::NoneRecorded => "nothing: none was recorded, and the replay has some".to_owned(),
        Support::Rare => format!("nothing tests it: fewer than {FEW} here"),
        Support::Unknown => "nothing: not recorded".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pageblock_measure::certificate::verification::{Gap, KindResult};

    use super::*;

    #[test]
    fn a_run_says_what_its_recording_supports() {
        let reproduced = Reproduced {
            recording: "r".to_owned(),
            preset: "linux-6.18".to_owned(),
            events: 900,
            decisions: Some(KindResult { cases: 400, shape: 399, exact: 300, explained: 0 }),
            worst: Some((
                "fallbacks".to_owned(),
                KindResult { cases: 200, exact: 100, shape: 100, explained: 0 },
            )),
            not_judged: vec!["drains".to_owned(), "steals".to_owned()],
            end_state_recorded: true,
            end_state_equal: Some(false),
            grade: Some(Grade::C),
            parts: [
                (Part::Mismatch, Support::Supported { margin_permyriad: 900 }),
                (Part::Blocks, Support::Unsupported { margin_permyriad: 4000 }),
                (Part::Failures, Support::Rare),
            ]
            .into(),
            taken: Some(Taken {
                taken: Loop::Closed,
                as_asked: false,
                grade: Some(Grade::C),
                other: Some(Grade::D),
            }),
            drawn: Some(Drawn { policy: "linux-6.18".to_owned(), recorded: 7, fewest: 3, most: 9 }),
            ..Reproduced::default()
        };
        let text = "r under linux-6.18: grade C, 2 of 3 parts of a what-if are tested, 1 supported; 99.75 % of 400 decisions in 900 \
            events have the recorded shape, 75.00 % are exact; the worst kind is fallbacks, 50.00 % of 200 exact; \
            not judged: drains, steals; the end state is not equal; the closed loop is taken: it supports more than the \
            open loop (grade D); over the seeds 3 to 9 fragmentation events under linux-6.18, where 7 are recorded";
        let say = |reproduced| line(&Certified::Reproduced(Box::new(reproduced)));
        assert_eq!(say(reproduced.clone()), text);
        // The other loop is the better one, and the recording has its grade.
        let taken =
            reproduced.taken.map(|taken| Taken { as_asked: true, other: Some(Grade::B), ..taken });
        let other = say(Reproduced { grade: Some(Grade::B), taken, ..reproduced });
        assert!(other.starts_with("r under linux-6.18: grade B (the open loop); 99.75"), "{other}");
        let of_taken = "as asked for (the open loop: grade B): grade C, 2 of 3 parts of a what-if are tested, 1 supported";
        assert!(other.contains(of_taken), "{other}");
        let void = Reproduced {
            recording: "r".to_owned(),
            preset: "linux-6.18".to_owned(),
            gap: Some(Gap::NoEvents),
            taken: Some(Taken { taken: Loop::Open, as_asked: true, grade: None, other: None }),
            ..Reproduced::default()
        };
        let text = "r under linux-6.18: not judged: the recording has no events after its start snapshot; the open loop is \
            taken: the recording has no other";
        assert_eq!(say(void), text);
    }

    #[test]
    fn a_what_if_has_the_error_of_what_ifs_too() {
        let supported = Support::Supported { margin_permyriad: 900 };
        let said = |support, least| supports_what_if(support, least);
        assert_eq!(said(None, Some(2.0)), "not graded");
        assert_eq!(said(Some(Support::Rare), None), supports(Support::Rare));
        assert_eq!(said(Some(supported), None), "nothing: its what-ifs were not right");
        assert_eq!(said(Some(supported), Some(1.5)), "changes above 9.00 %, beyond x1.50");
    }

    /// Versions before saved the sentence itself.
    #[test]
    fn an_old_sentence_is_said_again() {
        let old: Certified = serde_json::from_str("\"r under linux-6.18: grade B\\n\"").unwrap();
        assert_eq!(line(&old), "r under linux-6.18: grade B");
    }
}
