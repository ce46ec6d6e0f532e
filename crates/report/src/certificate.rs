//! What can be concluded from a recording, as text.

use pageblock_measure::certificate::{Certificate, FEW, Grade, Part, Support};

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

/// Prints the grade, how far a free replay is from the recording, and what that supports.
#[must_use]
pub fn print(certificate: &Certificate, policy: &str) -> String {
    let mut text = grade(certificate);
    text[..1].make_ascii_uppercase();
    text.push('\n');
    text += &format!("Lost events: {}; the start state is ", certificate.lost);
    text += if certificate.start_inferred { "inferred from events\n" } else { "recorded\n" };
    if certificate.distances.is_empty() {
        return text;
    }
    let mut table = Table::new().text("measure").number("recorded").number("replayed");
    table = table.number("distance [%]").text("which distance");
    for distance in &certificate.distances {
        table.row([
            distance.measure.name().to_owned(),
            distance.recorded.to_string(),
            distance.replayed.to_string(),
            percent(Some(distance.permyriad)),
            distance.measure.kind().name().to_owned(),
        ]);
    }
    text += &format!("\nFree replay under {policy} beside the recording\n{}", table.print());
    let mut table = Table::new().text("part of a what-if").text("what it supports");
    for part in Part::ALL {
        table.row([part.name().to_owned(), supports(certificate.support(part))]);
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
        Support::Rare => format!("nothing tests it: fewer than {FEW} here"),
        Support::Unknown => "nothing: not recorded".to_owned(),
    }
}
