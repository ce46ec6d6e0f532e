//! Prints predictions beside what real kernels did: the score, then a line each, best first.

use pageblock_measure::compare::prediction::{Prediction, Score};

use crate::table::Table;

/// Prints a score. The columns are named by letters, which the caller explains.
#[must_use]
pub fn print(score: &Score) -> String {
    let all = score.predictions.len();
    let share = |name: &str, count: usize| {
        let percent = (count * 100 + all / 2).checked_div(all).unwrap_or(0);
        format!("{name} {count} ({percent} %)")
    };
    let mut text = format!(
        "Predictions: {all} made, {}, {}, {}\n",
        share("direction right", score.count(|p| p.direction)),
        share("within a factor of two", score.count(|p| p.factor_of_two)),
        share("within the stated interval", score.count(|p| p.in_interval)),
    );
    let certain = |p: &&Prediction| p.predicted.is_one();
    let changes: Vec<_> = score.predictions.iter().filter(certain).collect();
    let both: Vec<_> = changes.iter().filter(|p| p.real.is_one()).collect();
    text += &format!(
        "{} of them predicted a change: {} in the right direction; of the {} that are changes on the real kernel too, {}\n",
        changes.len(),
        changes.iter().filter(|p| p.direction).count(),
        both.len(),
        both.iter().filter(|p| p.direction).count(),
    );
    text += &format!(
        "medians of ratios; *: more than chance in the simulations; expected: 95 % of medians of that few real runs; {} simulations and {} real runs \
         of each column\n\n",
        score.runs.0, score.runs.1
    );
    let mut table = Table::new()
        .text("column")
        .text("against")
        .text("measure")
        .number("predicted [%]")
        .number("expected")
        .number("real [%]")
        .number("interval")
        .text("right");
    for p in &score.predictions {
        table.row([
            p.column.clone(),
            p.against.clone(),
            p.measure.trim_end_matches(" [%]").to_owned(),
            format!("{}{}", percent(p.predicted.ratio), if certain(&p) { "*" } else { " " }),
            interval(p.expected),
            percent(p.real.ratio),
            interval((p.real.least, p.real.most)),
            right(p),
        ]);
    }
    text += &table.print();
    for line in &score.unjudged {
        text += &format!("not judged: {line}\n");
    }
    text
}

/// Names in what a prediction was right.
fn right(p: &Prediction) -> String {
    let parts =
        [(p.direction, "direction"), (p.factor_of_two, "factor"), (p.in_interval, "interval")];
    let right: Vec<_> = parts.iter().filter_map(|(right, name)| right.then_some(*name)).collect();
    if right.is_empty() { "-".to_owned() } else { right.join(" ") }
}

fn percent(ratio: f64) -> String {
    if ratio >= 10.0 { format!("x{ratio:.0}") } else { format!("{:+.0}", (ratio - 1.0) * 100.0) }
}

fn interval((least, most): (f64, f64)) -> String {
    format!("{} to {}", percent(least), percent(most))
}

#[cfg(test)]
mod tests {
    use pageblock_measure::compare::prediction::Change;

    use super::*;

    #[test]
    fn the_score_stands_on_top() {
        let change = |ratio| Change { ratio, least: ratio * 0.9, most: ratio * 1.1 };
        let prediction = |column: &str, predicted, real, right| Prediction {
            column: column.into(),
            against: "real-6.1.192".into(),
            measure: "Allocation stalls",
            predicted: change(predicted),
            expected: (predicted * 0.8, predicted * 1.2),
            real: change(real),
            direction: right,
            factor_of_two: right,
            in_interval: false,
        };
        let score = Score {
            runs: (10, 5),
            predictions: vec![prediction("b", 0.5, 0.6, true), prediction("c", 0.5, 12.0, false)],
            unjudged: vec!["d against a: fewer than 5 runs".into()],
        };
        let text = print(&score);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "Predictions: 2 made, direction right 1 (50 %), within a factor of two 1 (50 %), within the stated interval 0 (0 %)"
        );
        assert!(lines[1].starts_with("2 of them predicted a change: 1 in the right direction"));
        assert_eq!(
            lines[5],
            "b       real-6.1.192  Allocation stalls           -50*  -60 to -40       -40  -46 to -34  direction factor"
        );
        assert!(lines[6].contains("x12") && lines[6].ends_with("  -"));
        assert_eq!(lines[7], "not judged: d against a: fewer than 5 runs");
    }
}
