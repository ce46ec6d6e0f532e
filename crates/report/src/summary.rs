//! The answer of a comparison on one screen of 100 columns: what is decided, the primary measures, what else moved.

mod decided;

use pageblock_measure::compare::summary::{Summary, SummaryCell, SummaryRow};
use pageblock_measure::compare::verdict::{Judged, LEVEL, Stopped, runs_needed};
use pageblock_measure::statistics::sequential;

use crate::certificate::{self, supports, supports_what_if};
use crate::placement::{is_placed, placed_at};
use crate::table::Table;

pub use self::decided::sentence;

/// The number of policies beside the baseline up to which it is printed what a recording supports.
const WITH_SUPPORT: usize = 2;
/// The number of policies beyond which the columns would not fit.
const SIDE_BY_SIDE: usize = 5;
/// The changes of exploratory measures that are printed, a policy.
const MOVED: usize = 5;

/// Prints a summary: what was compared and what is decided of each policy; the primary measures; what else moved. Policies
/// are letters, which the first lines explain.
#[must_use]
pub fn print(summary: &Summary) -> String {
    let mut text = heading(summary);
    for (at, policy) in summary.policies.iter().enumerate() {
        let base = if at == summary.baseline { "   (baseline)" } else { "" };
        text += &format!("{} {}{base}\n", letter(at), crate::text::cell(policy));
    }
    text.push('\n');
    if summary.measures.is_empty() {
        return text + "Nothing that decides between them was measured.\n";
    }
    let others: Vec<usize> =
        (0..summary.policies.len()).filter(|&at| at != summary.baseline).collect();
    if others.is_empty() {
        text += &alone(summary);
        return text;
    }
    for &at in &others {
        text += &sentence(summary, at);
    }
    text.push('\n');
    if !is_tested(summary) {
        for others in others.chunks(SIDE_BY_SIDE - 1) {
            text += &side_by_side(summary, others);
        }
        return text;
    }
    let tables = [primary(summary, &others), moved(summary, &others)];
    let some: Vec<&str> =
        tables.iter().map(String::as_str).filter(|table| !table.is_empty()).collect();
    text + &some.join("\n")
}

/// Reports whether there are enough draws of some policy to test anything.
fn is_tested(summary: &Summary) -> bool {
    summary.measures.iter().flat_map(|m| &m.cells).any(|cell| cell.p.is_some())
}

fn heading(summary: &Summary) -> String {
    let Summary { subject, each, runs, .. } = summary;
    let mut text: String = summary.ended.iter().map(|line| format!("{line}\n")).collect();
    if let Some(certified) = &summary.certificate {
        text += &format!("Certificate: {}\n", certificate::line(certified));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    let (least, most) = (runs.iter().min().unwrap_or(&1), runs.iter().max().unwrap_or(&1));
    text += &match (least, most) {
        (1, 1) if *each == "draw" => subject.clone(),
        (1, 1) => format!("{subject}, one {each}"),
        (least, most) if least == most => format!("{subject}, {most} {each}s of each policy"),
        (least, most) => format!("{subject}, {least} to {most} runs of each policy"),
    };
    text += &stopped(summary);
    text.push('\n');
    text
}

/// Says what ended a sequential comparison.
fn stopped(summary: &Summary) -> String {
    let most = summary.looks.last().copied().unwrap_or(0);
    match summary.stopped {
        None => String::new(),
        Some(Stopped::Decided) => format!(" of at most {most}: every primary measure is decided"),
        Some(Stopped::Budget) => ", the most that there may be".to_owned(),
        Some(Stopped::Interrupted) => format!(" of at most {most}: interrupted"),
    }
}

/// Returns the letter that stands for a policy, from 0.
#[must_use]
pub fn letter(at: usize) -> String {
    match u8::try_from(at) {
        Ok(at) if at < 26 => char::from(b'A' + at).to_string(),
        _ => format!("P{at}"),
    }
}

fn alone(summary: &Summary) -> String {
    let mut table = Table::new().text("").number(&letter(summary.baseline));
    if summary.runs[summary.baseline] > 1 {
        table = table.number("lowest").number("highest");
    }
    for measure in &summary.measures {
        let cell = &measure.cells[summary.baseline];
        let mut row = vec![measure.name.clone(), number(cell.mean)];
        if summary.runs[summary.baseline] > 1 {
            row.extend([number(cell.range.0), number(cell.range.1)]);
        }
        table.row(row);
    }
    table.print()
}

/// Prints all measures side by side, where nothing is tested.
fn side_by_side(summary: &Summary, others: &[usize]) -> String {
    let graded =
        others.len() <= WITH_SUPPORT && summary.measures.iter().any(|m| m.support.is_some());
    let mut table = Table::new().text("").number(&letter(summary.baseline));
    for &at in others {
        table = table.number(&letter(at)).number("change");
    }
    if graded {
        table = table.text("supported");
    }
    let placed: Vec<usize> = others.iter().copied().filter(|&at| is_placed(summary, at)).collect();
    for &at in &placed {
        let letter = if others.len() == 1 { String::new() } else { format!(" ({})", letter(at)) };
        table = table.text(&format!("the real median{letter}"));
    }
    for measure in &summary.measures {
        let mut row = vec![measure.name.clone(), number(measure.cells[summary.baseline].mean)];
        for &at in others {
            let cell = &measure.cells[at];
            row.extend([number(cell.mean), plain_change(cell)]);
        }
        if graded {
            row.push(measure.support.map_or("not graded".to_owned(), supports));
        }
        let places = placed.iter().map(|&at| measure.cells[at].placement);
        row.extend(places.map(|place| place.map_or_else(String::new, |place| placed_at(&place))));
        table.row(row);
    }
    table.print()
}

/// Prints the primary measures, a line for each policy.
fn primary(summary: &Summary, others: &[usize]) -> String {
    if !summary.measures.iter().any(|measure| measure.primary) {
        return String::new();
    }
    let graded = summary.measures.iter().any(|m| m.primary && m.support.is_some());
    let mut table = Table::new().text("primary measure").number(&letter(summary.baseline)).text("");
    table = table.number("mean").number("change").number("interval").number("p").number("needs");
    if graded {
        table = table.text("supported");
    }
    for measure in summary.measures.iter().filter(|measure| measure.primary) {
        for (row, &at) in others.iter().enumerate() {
            let cell = &measure.cells[at];
            let base = number(measure.cells[summary.baseline].mean);
            let [name, base] =
                if row == 0 { [measure.name.clone(), base] } else { Default::default() };
            let [interval, p] = certainty(cell);
            let needs = cell.level.map(probability).unwrap_or_default();
            let mut cells =
                vec![name, base, letter(at), number(cell.mean), change(cell), interval, p, needs];
            if graded {
                cells.push(supports_what_if(measure.support, cell.least_ratio));
            }
            table.row(cells);
        }
    }
    table.print()
}

/// Prints the changes of other measures that are most likely none of chance, the largest of each policy first.
fn moved(summary: &Summary, others: &[usize]) -> String {
    let mut table = Table::new().text("what else moved").number(&letter(summary.baseline)).text("");
    table = table.number("mean").number("change").number("95 % interval").number("p adjusted");
    let (mut shown, mut more) = (0, 0);
    for &at in others {
        let moves = |measure: &&SummaryRow| {
            !measure.primary && measure.cells[at].p.is_some_and(|p| p < LEVEL)
        };
        let mut found: Vec<&SummaryRow> = summary.measures.iter().filter(moves).collect();
        let change = |measure: &SummaryRow| measure.cells[at].change.unwrap_or(f64::INFINITY);
        found.sort_by(|a, b| size(change(b)).total_cmp(&size(change(a))));
        more += found.len().saturating_sub(MOVED);
        for measure in found.into_iter().take(MOVED) {
            let cell = &measure.cells[at];
            let base = number(measure.cells[summary.baseline].mean);
            let [interval, p] = certainty(cell);
            table.row([
                measure.name.clone(),
                base,
                letter(at),
                number(cell.mean),
                plain_change(cell),
                interval,
                p,
            ]);
            shown += 1;
        }
    }
    match (shown, more) {
        (0, _) => String::new(),
        (_, 0) => table.print(),
        (_, more) => format!("{}and {more} more\n", table.print()),
    }
}

/// Returns a change in percent, marked where it is decided.
#[must_use]
pub fn change(cell: &SummaryCell) -> String {
    let mark = match cell.verdict {
        Judged::Better => " +",
        Judged::Worse => " -",
        Judged::Unchanged => " =",
        Judged::Open | Judged::Undecided | Judged::Identical => "  ",
    };
    plain_change(cell) + mark
}

/// Returns a change in percent, without a mark; `-` where there is none.
#[must_use]
pub fn plain_change(cell: &SummaryCell) -> String {
    match cell.verdict {
        Judged::Identical => "same".to_owned(),
        _ => cell.change.map_or("-".to_owned(), percent),
    }
}

/// Returns the interval of a change and its p; empty where there is none.
#[must_use]
pub fn certainty(cell: &SummaryCell) -> [String; 2] {
    let finite = cell.interval.filter(|(low, high)| low.is_finite() && high.is_finite());
    let interval = finite.map(|(low, high)| format!("{} to {}", percent(low), percent(high)));
    [interval.unwrap_or_default(), cell.p.map(probability).unwrap_or_default()]
}

fn probability(p: f64) -> String {
    match p {
        p if p < 0.0001 => "<0.0001".to_owned(),
        p if p < 0.01 => format!("{p:.4}"),
        p => format!("{p:.3}"),
    }
}

/// Returns how large a change is on a scale on which halving and doubling are alike.
fn size(change: f64) -> f64 {
    (1.0 + change).max(1e-6).ln().abs()
}

fn percent(change: f64) -> String {
    match change {
        change if !change.is_finite() => "inf".to_owned(),
        change if change >= 9.995 => format!("x{:.0}", change + 1.0),
        change => format!("{:+.0} %", 100.0 * change),
    }
}

/// Returns a value as a summary prints it.
#[must_use]
pub fn number(value: f64) -> String {
    if value.abs() >= 1000.0 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}

/// Returns the lines that explain what is printed of the changes.
#[must_use]
pub fn legend(summary: &Summary) -> String {
    let units = match summary.measures.iter().any(|measure| measure.units_differ) {
        true => {
            "Fallbacks without a change: an event is a block before Linux 6.10 and a page from then on.\n"
        }
        false => "",
    };
    let marks = match is_tested(summary) {
        false => "",
        true => {
            "+ better, - worse, = within 5 %: decided where p (exact rank sums) is at most what it needs (Holm, \
             and the look).\nA change is the median of the ratios of all pairs of runs; measures that are not \
             primary decide nothing.\n"
        }
    };
    units.to_owned() + marks
}

/// Says before it runs what the seeds of a comparison can decide; `None` of one policy.
#[must_use]
pub fn can_decide(policies: usize, primary: usize, seeds: usize) -> Option<String> {
    let tests = policies.saturating_sub(1) * primary;
    let needed = runs_needed(tests);
    let level = LEVEL / tests.max(1) as f64;
    let least = pageblock_measure::statistics::rank_sum::least_p(seeds, seeds);
    let many = if primary == 1 { "" } else { "s" };
    let what = format!("{seeds} seeds for {policies} policies and {primary} primary measure{many}");
    match (tests, seeds >= needed) {
        (0, _) => None,
        (_, true) => Some(format!(
            "{what}: a p of {} is needed, {} is the least",
            probability(level),
            probability(least)
        )),
        (_, false) => Some(format!(
            "{what} decide nothing: at best p {}, {} is needed; {needed} seeds can",
            probability(least),
            probability(level)
        )),
    }
}

/// Says before it runs when a sequential comparison is looked at.
#[must_use]
pub fn will_look(most: usize) -> String {
    let looks: Vec<String> = sequential::looks(most).iter().map(ToString::to_string).collect();
    format!(
        "seeds are added until the primary measures are decided, at most {most}: looks after {}",
        looks.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use pageblock_measure::certificate::{Certified, Loop, Reproduced, Taken};
    use pageblock_measure::compare::common::Options;
    use pageblock_measure::{Origin, Run};

    use super::*;

    fn runs(policy: &str, stalls: u64, seeds: u64) -> Vec<Run> {
        let run = |seed| {
            let mut run = Run { policy: policy.into(), seed, ..Run::default() };
            run.workload = "thpfioscale".into();
            run.event_hash = format!("{policy} {seed}");
            run.counters.set("allocstall_normal", stalls + seed);
            run.counters.set("pgsteal_kswapd", 700 + 2 * stalls);
            run
        };
        (1..=seeds).map(run).collect()
    }

    fn summary(policies: &[(&str, u64)], seeds: u64) -> Summary {
        let runs: Vec<Run> = policies.iter().flat_map(|(name, n)| runs(name, *n, seeds)).collect();
        Summary::of_runs(&runs, &Options::default()).unwrap()
    }

    #[test]
    fn the_answer_comes_first() {
        let summary = summary(&[("linux-4.20", 1000), ("linux-5.0", 500)], 8);
        let expect = "\
thpfioscale, 8 seeds of each policy
A linux-4.20   (baseline)
B linux-5.0

B better: allocation stalls -50 %

primary measure       A       mean   change        interval       p  needs
Allocation stalls  1004  B  504.50  -50 % +  -50 % to -50 %  0.0002  0.050

what else moved     A     mean  change   95 % interval  p adjusted
Pages reclaimed  2700  B  1700   -37 %  -37 % to -37 %      0.0002
";
        let text = print(&summary) + &legend(&summary);
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed(&text).starts_with(&squeezed(expect)), "{text}");
        assert!(text.ends_with("decide nothing.\n"), "{text}");
    }

    #[test]
    fn one_seed_is_not_judged_and_says_how_many_can() {
        let text = print(&summary(&[("linux-4.20", 1000), ("linux-5.0", 500)], 1));
        assert!(
            text.contains(
                "B is not judged: one seed cannot tell a change from chance; 4 can (--seeds 4)"
            ),
            "{text}"
        );
        assert!(text.contains("Pages reclaimed    2700  1700   -37 %"), "{text}");
    }

    #[test]
    fn no_number_of_draws_is_asked_for_where_none_decides() {
        let draws = |policy| {
            let origin = pageblock_measure::Origin::Replayed;
            let mut run = runs(policy, 100, 1).remove(0);
            run.counters.set(pageblock_measure::value::names::TYPE_MISMATCH_PAGES, 50);
            [Run { origin, workload: "recording".into(), ..run }]
        };
        let runs: Vec<Run> = ["linux-6.9", "linux-6.10"].map(draws).concat();
        let text = print(&Summary::of_runs(&runs, &Options::default()).unwrap());
        assert!(text.contains(&format!("B is not judged: {}\n", certificate::NOT_SHOWN)), "{text}");
    }

    #[test]
    fn draws_that_are_alike_are_not_judged() {
        let taken = Taken { taken: Loop::Closed, as_asked: true, grade: None, other: None };
        let reproduced = Reproduced { taken: Some(taken), ..Reproduced::default() };
        let certificate = Some(Certified::Reproduced(Box::new(reproduced)));
        let draws = |policy| -> Vec<Run> {
            let mut draws = runs(policy, 100, 4);
            for run in &mut draws {
                run.counters = Run::default().counters;
                run.counters.set(pageblock_measure::value::names::TYPE_MISMATCH_PAGES, 50);
                (run.origin, run.workload) = (Origin::Replayed, "recording".into());
            }
            draws
        };
        let runs = ["linux-6.9", "linux-6.9,watermark_boost_factor=0"].map(draws).concat();
        let options = Options { certificate, ..Options::default() };
        let text = print(&Summary::of_runs(&runs, &options).unwrap());
        let alike = "B is not judged: its draws are alike, which tells nothing of chance\n";
        assert!(text.contains(alike), "{text}");
    }

    #[test]
    fn what_seeds_can_decide_is_said_before() {
        let said = can_decide(3, 2, 4).unwrap();
        assert_eq!(
            said,
            "4 seeds for 3 policies and 2 primary measures decide nothing: at best p 0.029, 0.013 is needed; 5 seeds can"
        );
        assert!(
            can_decide(3, 2, 8).unwrap().ends_with("a p of 0.013 is needed, 0.0002 is the least")
        );
        assert_eq!(can_decide(1, 2, 8), None);
        assert!(will_look(12).ends_with("looks after 5, 8, 12"));
    }

    #[test]
    fn every_line_fits_100_columns() {
        let long = format!("linux-6.12,{}", "pcp_high=auto,".repeat(12));
        let policies: Vec<String> = (0..7).map(|at| format!("{long}boost={at}")).collect();
        let policies: Vec<(&str, u64)> =
            policies.iter().zip(0..).map(|(name, at)| (name.as_str(), 70 + at)).collect();
        for seeds in [1, 8] {
            let text = print(&summary(&policies, seeds));
            let table = text.split("\n\n").skip(1).flat_map(str::lines);
            assert!(table.clone().all(|line| line.chars().count() <= 100), "{text}");
            assert!(table.count() > 5, "{text}");
        }
    }
}
