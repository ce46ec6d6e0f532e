//! The summary above the tables of a comparison: one screen of 100 columns.

use pageblock_measure::compare::summary::{Judged, Summary, SummaryCell, SummaryRow};

use crate::certificate::{self, supports};
use crate::table::Table;

/// The number of policies up to which intervals are printed, and beside the baseline what is supported.
const WITH_INTERVALS: usize = 2;
/// The number of policies beyond which the columns would not fit.
const SIDE_BY_SIDE: usize = 5;
/// The changes that a sentence names.
const NAMED: usize = 3;
/// The seeds with which a change in all of them passes the test after its correction.
const ENOUGH: usize = 10;

/// Which tables follow a summary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tables {
    /// All of them.
    All,
    /// None.
    None,
    /// Those with this text in their title.
    Titled(String),
}

impl Tables {
    /// Returns the choice that a user names: `all`, `summary`, or a part of a title.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "all" => Self::All,
            "summary" => Self::None,
            title => Self::Titled(title.to_owned()),
        }
    }

    /// Prints a summary and the chosen ones of the printed tables below it.
    #[must_use]
    pub fn below(&self, summary: &Summary, tables: &str) -> String {
        let above = print(summary) + &legend(summary);
        match self {
            Self::All => format!("{above}\n{tables}"),
            Self::None => above,
            Self::Titled(title) => format!("{above}\n{}", titled(tables, title)),
        }
    }
}

/// Returns the tables with a text in their title, or the titles that there are.
fn titled(tables: &str, wanted: &str) -> String {
    let title = |table: &str| table.lines().next().unwrap_or_default().to_owned();
    // What has one line is a note.
    let all = || tables.split("\n\n").filter(|table| is_table(table));
    let fits = |table: &&str| title(table).to_lowercase().contains(&wanted.to_lowercase());
    let found: Vec<&str> = all().filter(fits).map(str::trim_end).collect();
    if !found.is_empty() {
        return found.join("\n\n") + "\n";
    }
    let titles: Vec<String> = all().map(|table| format!("  {}\n", title(table))).collect();
    format!("No table has '{wanted}' in its title. The titles:\n{}", titles.concat())
}

fn is_table(text: &str) -> bool {
    let is_note = |line: &str| {
        ["Note: ", "Certificate: ", "Calibration: ", "Kernels: ", "Percentages: "]
            .iter()
            .any(|start| line.starts_with(start))
    };
    text.lines().count() > 2 && !text.lines().next().is_some_and(is_note)
}

/// Prints a summary: what was compared, a row for each measure, and a sentence for each policy beside the baseline.
/// Policies are letters, which the first lines explain.
#[must_use]
pub fn print(summary: &Summary) -> String {
    let mut text = heading(summary);
    for (at, policy) in summary.policies.iter().enumerate() {
        let base = if at == summary.baseline { "   (baseline)" } else { "" };
        text += &format!("{} {policy}{base}\n", letter(at));
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
    for others in others.chunks(SIDE_BY_SIDE - 1) {
        text += &table(summary, others);
        text.push('\n');
    }
    for &at in &others {
        text += &sentence(summary, at);
    }
    text
}

fn heading(summary: &Summary) -> String {
    let Summary { subject, seeds, .. } = summary;
    let mut text: String = summary.ended.iter().map(|line| format!("{line}\n")).collect();
    if let Some(certified) = &summary.certificate {
        text += &format!("Certificate: {}\n", certificate::line(certified));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text + &match seeds {
        0 => format!("{subject}\n"),
        1 => format!("{subject}, one seed\n"),
        _ => format!("{subject}, {seeds} seeds\n"),
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
    if summary.seeds > 1 {
        table = table.number("lowest").number("highest");
    }
    for measure in &summary.measures {
        let cell = &measure.cells[summary.baseline];
        let mut row = vec![measure.name.to_owned(), number(cell.mean)];
        if summary.seeds > 1 {
            row.extend([number(cell.range.0), number(cell.range.1)]);
        }
        table.row(row);
    }
    table.print()
}

fn table(summary: &Summary, others: &[usize]) -> String {
    let graded =
        others.len() <= WITH_INTERVALS && summary.measures.iter().any(|m| m.support.is_some());
    let intervals = summary.policies.len() <= WITH_INTERVALS
        && summary.measures.iter().flat_map(|m| &m.cells).any(|cell| cell.interval.is_some());
    let mut table = Table::new().text("").number(&letter(summary.baseline));
    for &at in others {
        table = table.number(&letter(at)).number("change");
    }
    if intervals {
        table = table.number("95 % interval").number("p");
    }
    if graded {
        table = table.text("supported");
    }
    for measure in &summary.measures {
        let mut row = vec![measure.name.to_owned(), number(measure.cells[summary.baseline].mean)];
        for &at in others {
            let cell = &measure.cells[at];
            row.extend([number(cell.mean), change(cell)]);
            if intervals {
                row.extend(certainty(cell));
            }
        }
        if graded {
            row.push(measure.support.map_or("not graded".to_owned(), supports));
        }
        table.row(row);
    }
    table.print()
}

/// Returns a change in percent, marked where it is more than chance.
#[must_use]
pub fn change(cell: &SummaryCell) -> String {
    let mark = match cell.verdict {
        Judged::Better => " +",
        Judged::Worse => " -",
        Judged::Open | Judged::Chance => "  ",
    };
    plain_change(cell) + mark
}

/// Returns a change in percent, without a mark; `-` where there is none.
#[must_use]
pub fn plain_change(cell: &SummaryCell) -> String {
    cell.change.map_or("-".to_owned(), percent)
}

/// Returns the interval of a change and its p; empty where there is none.
#[must_use]
pub fn certainty(cell: &SummaryCell) -> [String; 2] {
    let finite = cell.interval.filter(|(low, high)| low.is_finite() && high.is_finite());
    let interval = finite.map(|(low, high)| format!("{} to {}", percent(low), percent(high)));
    let p = cell.p.map(|p| if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") });
    [interval.unwrap_or_default(), p.unwrap_or_default()]
}

/// Returns what is better and worse under a policy, in words.
#[must_use]
pub fn sentence(summary: &Summary, at: usize) -> String {
    let name = letter(at);
    let of = |verdict| changes(summary, at, verdict);
    let (better, worse, chance) = (of(Judged::Better), of(Judged::Worse), of(Judged::Chance));
    if better.len() + worse.len() + chance.len() == 0 {
        return match summary.seeds {
            0 => format!("{name} cannot be judged: the recording supports nothing of this\n"),
            1 => format!(
                "{name} is not judged: one seed cannot tell a change from chance ({ENOUGH} can)\n"
            ),
            seeds => format!(
                "{name} is not judged: {seeds} seeds cannot tell a change from chance ({ENOUGH} can)\n"
            ),
        };
    }
    let than = if summary.seeds == 0 { "the replay's own error" } else { "chance" };
    let chance = match chance.len() {
        0 => None,
        1 => Some(format!("1 change no more than {than}")),
        more => Some(format!("{more} changes no more than {than}")),
    };
    let lines = [named("better", &better), named("worse", &worse), chance];
    let indent = " ".repeat(name.len());
    let mut text = String::new();
    for line in lines.into_iter().flatten() {
        text += &format!("{} {line}\n", if text.is_empty() { &name } else { &indent });
    }
    text
}

/// Returns the measures that a policy changes like this, the largest change first.
fn changes(summary: &Summary, at: usize, verdict: Judged) -> Vec<(&SummaryRow, f64)> {
    let judged = summary.measures.iter().filter(|measure| measure.cells[at].verdict == verdict);
    let change = |measure: &SummaryRow| measure.cells[at].change.unwrap_or(f64::INFINITY);
    let mut found: Vec<(&SummaryRow, f64)> = judged.map(|m| (m, change(m))).collect();
    found.sort_by(|a, b| size(b.1).total_cmp(&size(a.1)));
    found
}

fn named(way: &str, found: &[(&SummaryRow, f64)]) -> Option<String> {
    let named: Vec<String> = found.iter().take(NAMED).map(|(m, c)| words(m, *c)).collect();
    let more = match found.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!found.is_empty()).then(|| format!("{way}: {}{more}", named.join(", ")))
}

/// Returns how large a change is on a scale on which halving and doubling are alike.
fn size(change: f64) -> f64 {
    (1.0 + change).max(1e-6).ln().abs()
}

fn words(measure: &SummaryRow, change: f64) -> String {
    let name = measure.name.split(" [").next().unwrap_or(measure.name);
    let mut letters = name.chars();
    let first = letters.next().map(|c| c.to_ascii_lowercase()).into_iter();
    let name: String = first.chain(letters).collect();
    if change.is_finite() { format!("{name} {}", percent(change)) } else { name }
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
    let verdicts = || summary.measures.iter().flat_map(|m| &m.cells).map(|cell| cell.verdict);
    let is_judged = verdicts().any(|verdict| verdict != Judged::Open);
    let marks = match summary.seeds {
        _ if !is_judged => "",
        0 => {
            "+ better and - worse, by more than the replay's own error under the recorded kernel.\n"
        }
        _ => {
            "+ better and - worse, by more than chance: changes are medians over paired seeds, p that of \
             Wilcoxon's\nsigned-rank test after Holm's correction for all changes of this table, below 0.05.\n"
        }
    };
    units.to_owned() + marks
}

#[cfg(test)]
mod tests {
    use pageblock_measure::Run;
    use pageblock_measure::compare::common::Options;

    use super::*;

    fn runs(policy: &str, stalls: u64) -> Vec<Run> {
        let run = |seed| {
            let mut run = Run { policy: policy.into(), seed, ..Run::default() };
            run.workload = "thpfioscale".into();
            run.counters.set("allocstall_normal", stalls + seed);
            run.counters.set("pgsteal_kswapd", 700);
            run
        };
        (1..=12).map(run).collect()
    }

    fn summary(policies: &[(&str, u64)]) -> Summary {
        let runs: Vec<Run> = policies.iter().flat_map(|(name, n)| runs(name, *n)).collect();
        Summary::of_runs(&runs, &Options::default()).unwrap()
    }

    #[test]
    fn the_answer_comes_first() {
        let summary = summary(&[("linux-4.20", 1000), ("linux-5.0", 500)]);
        let expect = "\
thpfioscale, 12 seeds
A linux-4.20   (baseline)
B linux-5.0

                      A       B   change   95 % interval       p
Allocation stalls  1006  506.50  -50 % +  -50 % to -50 %  <0.001
Pages reclaimed     700     700   +0 %      +0 % to +0 %   1.000

B better: allocation stalls -50 %
  1 change no more than chance
+ better and - worse, by more than chance: changes are medians over paired seeds, p that of Wilcoxon's
signed-rank test after Holm's correction for all changes of this table, below 0.05.
";
        assert_eq!(Tables::None.below(&summary, "title\nhead\nrow\n"), expect);
    }

    #[test]
    fn every_line_fits_100_columns() {
        let long = format!("linux-6.12,{}", "pcp_high=auto,".repeat(12));
        let policies: Vec<String> = (0..7).map(|at| format!("{long}boost={at}")).collect();
        let policies: Vec<(&str, u64)> = policies.iter().map(|name| (name.as_str(), 70)).collect();
        let text = print(&summary(&policies));
        let table = text.split("\n\n").skip(1).flat_map(str::lines);
        assert!(table.clone().all(|line| line.chars().count() <= 100), "{text}");
        assert!(table.count() > 5, "{text}");
    }

    #[test]
    fn tables_are_chosen_by_title() {
        let tables = "Note: a\n\nUnusable free space (%)\nhead\nrow 1\n\nBlocks\nhead\nrow 2\n";
        let summary = summary(&[("a", 1)]);
        let chosen = |name: &str| Tables::parse(name).below(&summary, tables);
        assert!(chosen("all").ends_with(tables));
        assert!(chosen("unusable").ends_with("\nUnusable free space (%)\nhead\nrow 1\n"));
        assert!(!chosen("summary").contains("row 1"));
        let none = chosen("pictures");
        assert!(none.ends_with("The titles:\n  Unusable free space (%)\n  Blocks\n"), "{none}");
    }
}
