//! Prints predictions beside what real kernels did: the score, then a line each, best first.

use pageblock_measure::compare::noise;
use pageblock_measure::compare::prediction::{
    CERTAIN, Confusion, Null, Prediction, Reliability, Respect, Score,
};
use pageblock_measure::compare::verdict::runs_needed;

use crate::table::Table;

/// Prints a score: beside those of null models, how changes meet, how certain predictions were, then a line each. The columns
/// are named by letters, which the caller explains.
#[must_use]
pub fn print(score: &Score) -> String {
    let all = score.predictions.len();
    let inside = score.predictions.iter().filter(|p| p.in_interval).count();
    let mut text = format!(
        "Predictions: {all}, of {} simulations and {} real runs of each column\n\n",
        score.runs.0, score.runs.1
    );
    text += &skills(score).print();
    let Confusion { hits, wrong_sign, missed, false_alarms, quiet } = score.confusion();
    text += "\n";
    // Fewer than four runs of each side have no interval, and nothing to count here.
    if hits + wrong_sign + missed + false_alarms + quiet > 0 {
        text += &format!(
            "Real changes {}: predicted {hits}, with the wrong sign {wrong_sign}, missed {missed}. No change {}: predicted \
             {quiet}, false alarms {false_alarms}.\n",
            hits + wrong_sign + missed,
            quiet + false_alarms,
        );
    }
    text += &format!("Inside the 95 % interval: {inside} of {all} ({}).\n", share(inside, all));
    for Reliability { from, predicted, mean, came } in score.reliability() {
        text += &format!(
            "Predicted with {} % or more: {predicted}, on the predicted side {came} ({}; {:.0} % expected).\n",
            from * 100.0,
            share(came, predicted),
            mean * 100.0,
        );
    }
    text += &scatter(score);
    text += &format!(
        "\nmedians of ratios; *: a change is predicted, with {:.0} % or more on its side; expected: 95 % of medians of that few \
         real runs, with the noise of guests and the model's error\n\n",
        CERTAIN * 100.0
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
            percent(p.predicted.ratio) + if p.is_change() { "*" } else { " " },
            interval(p.expected),
            percent(p.real.ratio),
            p.real.interval.map_or("-".to_owned(), interval),
            right(p),
        ]);
    }
    text += &table.print();
    for line in &score.unjudged {
        text += &format!("not judged: {line}\n");
    }
    text
}

/// The quantile of the normal distribution that has 2.5 % above it.
const QUANTILE: f64 = 1.96;

/// Says how far chance alone moves a real ratio of so few runs, and whether they can tell a change from none.
fn scatter(score: &Score) -> String {
    let runs = score.runs.1;
    let mut measures: Vec<&str> = score.predictions.iter().map(|p| p.measure).collect();
    measures.sort_unstable();
    measures.dedup();
    if measures.is_empty() || runs == 0 {
        return String::new();
    }
    let mut text = String::new();
    if score.predictions.iter().all(|p| p.real.interval.is_none()) {
        text += &format!(
            "{runs} real runs of a column cannot show that nothing changes: only predicted changes have a direction to be right \
             in. {} can.\n",
            runs_needed(1)
        );
    }
    let columns: Vec<usize> =
        std::iter::once(runs).chain([5, 20].into_iter().filter(|&more| more > runs)).collect();
    let mut table = Table::new().text("chance moves a real ratio by (95 %)");
    for runs in &columns {
        table = table.number(&format!("{runs} runs"));
    }
    for measure in measures {
        let times = |&runs| (QUANTILE * noise::guests(measure, (runs, runs))).exp();
        let cells = columns.iter().map(|runs| format!("{:.2} times", times(runs)));
        table.row(std::iter::once(measure.to_owned()).chain(cells));
    }
    text + "\n" + &table.print()
}

/// Returns the scores beside those of the null models.
fn skills(score: &Score) -> Table {
    let mut table = Table::new().text("").number("cases").number("right").number("null right");
    table = table.number("skill").text("null model");
    for (respect, name) in
        [(Respect::Direction, "direction"), (Respect::FactorOfTwo, "within a factor of two")]
    {
        for (null, words) in
            [(Null::NothingChanges, "nothing changes"), (Null::AsBefore, "as the column before")]
        {
            let skill = score.skill(respect, null);
            if skill.cases > 0 {
                table.row([
                    name.to_owned(),
                    skill.cases.to_string(),
                    share(skill.right, skill.cases),
                    share(skill.null_right, skill.cases),
                    skill.value().map_or("-".to_owned(), |value| format!("{value:.2}")),
                    words.to_owned(),
                ]);
            }
        }
    }
    table
}

fn share(count: usize, all: usize) -> String {
    format!("{} %", (count * 100 + all / 2).checked_div(all).unwrap_or(0))
}

/// Names in what a prediction was right.
fn right(p: &Prediction) -> String {
    let parts = [
        (p.direction == Some(true), "direction"),
        (p.factor_of_two, "factor"),
        (p.in_interval, "interval"),
    ];
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

    fn score(interval: bool) -> Score {
        let change =
            |ratio| Change { ratio, interval: interval.then_some((ratio * 0.9, ratio * 1.1)) };
        let prediction = |column: &str, predicted, real, right| Prediction {
            column: column.into(),
            against: "real-6.1.192".into(),
            measure: "Allocation stalls",
            predicted: change(predicted),
            noise: 0.1,
            expected: (predicted * 0.8, predicted * 1.2),
            certainty: 0.95,
            real: change(real),
            before: None,
            direction: Some(right),
            factor_of_two: right,
            in_interval: false,
        };
        Score {
            runs: (10, if interval { 5 } else { 2 }),
            predictions: vec![prediction("b", 0.5, 0.6, true), prediction("c", 0.5, 12.0, false)],
            unjudged: vec!["d against a: fewer than 2 runs".into()],
        }
    }

    #[test]
    fn two_runs_say_how_wide_they_are() {
        let text = print(&score(false));
        assert!(
            text.contains("2 real runs of a column cannot show that nothing changes"),
            "{text}"
        );
        // exp(1.96 * 0.324) of two runs of each side, whose deviation is that of one.
        assert!(
            text.contains(
                "Allocation stalls                    1.89 times  1.49 times  1.22 times"
            ),
            "{text}"
        );
        assert!(!text.contains("Real changes"), "{text}");
        assert!(!print(&score(true)).contains("cannot show"));
    }

    #[test]
    fn the_score_stands_on_top() {
        let text = print(&score(true));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Predictions: 2, of 10 simulations and 5 real runs of each column");
        assert_eq!(
            lines[3],
            "direction                   2   50 %         0 %   0.50  nothing changes"
        );
        assert!(
            text.contains("Real changes 2: predicted 1, with the wrong sign 1, missed 0."),
            "{text}"
        );
        assert!(text.contains("Inside the 95 % interval: 0 of 2 (0 %).\n"), "{text}");
        assert!(
            text.contains(
                "Predicted with 90 % or more: 2, on the predicted side 1 (50 %; 95 % expected)."
            ),
            "{text}"
        );
        assert!(text.contains("b       real-6.1.192  Allocation stalls           -50*  -60 to -40       -40  -46 to -34  direction factor"), "{text}");
        assert!(
            text.contains("x12") && text.ends_with("not judged: d against a: fewer than 2 runs\n")
        );
    }
}
