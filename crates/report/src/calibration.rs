//! Prints how a free replay under the recorded policy compares with the recording.

use pageblock_measure::Calibration;

use crate::table::Table;
use crate::verify::percent;

/// Returns a line, to be printed below the certificate, that says how close the free replay comes.
#[must_use]
pub fn line(calibration: &Calibration) -> String {
    let (recorded, replayed) = calibration.total();
    format!(
        "free replay under {}, the recorded policy, has {replayed} fragmentation events where the \
         recording has {recorded}; {} % of {} requests get the recorded frame",
        calibration.policy,
        percent(calibration.same_frame_permyriad()),
        calibration.requests,
    )
}

/// Returns a titled table with a row for each count.
#[must_use]
pub fn print(calibration: &Calibration) -> String {
    let mut table = Table::new().text("events").number("recorded").number("replayed");
    for row in &calibration.rows {
        table.row([row.label.clone(), row.recorded.to_string(), row.replayed.to_string()]);
    }
    let title = "Calibration (mm_page_alloc_extfrag below the pageblock order)";
    format!("{title}: recorded, and replayed under {}\n{}", calibration.policy, table.print())
}

#[cfg(test)]
mod tests {
    use pageblock_measure::certificate::{Certified, Reproduced};
    use pageblock_measure::run::calibration::CalibrationRow;

    use super::*;
    use crate::certificate;

    #[test]
    fn recorded_and_replayed_counts_are_columns() {
        let row = |label: &str, recorded, replayed| CalibrationRow {
            label: label.into(),
            recorded,
            replayed,
        };
        let calibration = Calibration {
            policy: "debian-6.12".into(),
            rows: vec![row("total", 1204, 90), row("for-Movable", 1200, 88)],
            range: None,
            requests: 30_000,
            same_frame: 29_999,
        };
        assert_eq!(calibration.drawn(), None);
        let several = Calibration { range: Some((80, 2000)), ..calibration.clone() };
        let reproduced = Reproduced { drawn: several.drawn(), ..Reproduced::default() };
        let text = "; over the seeds 80 to 2000 fragmentation events under debian-6.12, where 1204 are recorded";
        let said = certificate::line(&Certified::Reproduced(Box::new(reproduced)));
        assert!(said.ends_with(text), "{said}");
        assert_eq!(
            line(&calibration),
            "free replay under debian-6.12, the recorded policy, has 90 fragmentation events where \
             the recording has 1204; 99.99 % of 30000 requests get the recorded frame"
        );
        assert_eq!(
            print(&calibration),
            "Calibration (mm_page_alloc_extfrag below the pageblock order): recorded, and replayed \
             under debian-6.12\n\
             events       recorded  replayed\n\
             total            1204        90\n\
             for-Movable      1200        88\n"
        );
    }
}
