//! What can be concluded from a recording, as text.

use pageblock_measure::Calibration;
use pageblock_measure::certificate::{
    Certificate, DRAWS, Distance, FEW, Grade, Grades, Loop, Part, Support,
};

use crate::table::Table;
use crate::verify::percent;

/// Returns the grade with what it means.
#[must_use]
pub fn grade(certificate: &Certificate) -> String {
    let letter = certificate.grade;
    let means = match letter {
        Grade::A => "every part of a what-if that can be tested is supported",
        Grade::B => {
            "every part of a what-if that can be tested is supported, some for large changes only"
        }
        Grade::C => "some parts of a what-if are supported",
        Grade::D => "decisions are judged, but no part of a what-if is supported",
        Grade::F => "nothing is judged",
    };
    format!("grade {letter:?}, {means}")
}

/// Says which loop was taken and why: by its grade if `by_grade`, else because it was asked for.
#[must_use]
pub fn taken(grades: &Grades, taken: Loop, by_grade: bool) -> String {
    let (name, other) = match taken {
        Loop::Open => (Loop::Open.name(), Loop::Closed),
        Loop::Closed => (Loop::Closed.name(), Loop::Open),
    };
    if grades.closed.is_none() {
        return format!("the {name} is taken: the recording has no other");
    }
    let (rival, grade) = (other.name(), grades.of(other).grade);
    match (by_grade, taken) {
        (false, _) => format!("the {name} is taken, as asked for (the {rival}: grade {grade:?})"),
        (true, Loop::Open) => {
            format!("the {name} is taken: the {rival} supports no more (grade {grade:?})")
        }
        (true, Loop::Closed) => {
            format!("the {name} is taken: it supports more than the {rival} (grade {grade:?})")
        }
    }
}

/// Says between which counts the replays of several seeds under the recorded policy lie; `None` for a single seed.
#[must_use]
pub fn drawn(calibration: &Calibration) -> Option<String> {
    let (fewest, most) = calibration.range?;
    let (recorded, _) = calibration.total();
    Some(format!(
        "; over the seeds {fewest} to {most} fragmentation events under {}, where {recorded} are recorded",
        calibration.policy
    ))
}

/// Prints the better loop's grade, how far both free replays are from the recording, and what that supports.
#[must_use]
pub fn print(grades: &Grades, policy: &str) -> String {
    let better = grades.better();
    let open = &grades.open;
    let mut text = grade(grades.of(better));
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
