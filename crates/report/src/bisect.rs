//! Which switch did it: the answer of a bisection.

use pageblock_measure::compare::bisect::{Answer, Bisection, Effect, StepEffect};

use crate::certificate;
use crate::summary::number;
use crate::table::Table;

/// Prints a bisection: a sentence for each measure, which switches change nothing, then a table for each measure.
#[must_use]
pub fn print(of: &Answer) -> String {
    let Answer { subject, kernels: (from, to), draws, each, runs, .. } = of;
    let many = if *draws == 1 { "" } else { "s" };
    let mut text = String::new();
    if let Some(certified) = &of.certificate {
        text += &format!("Certificate: {}\n\n", certificate::line(certified));
    }
    text += &format!(
        "{subject}: from {from} to {to}, {draws} {each}{many} of each kernel, {runs} runs\n\n"
    );
    let Some(first) = of.measures.first() else {
        return text + "Nothing that was asked for was measured.\n";
    };
    for kernel in &of.unfinished {
        text += &format!("{kernel}: runs did not finish, so that nothing is decided of it\n");
    }
    for measure in &of.measures {
        text += &sentence(measure, *draws);
    }
    text += &inert(first, of.probes);
    for measure in
        of.measures.iter().filter(|measure| measure.steps.iter().any(|step| !step.is_inert))
    {
        text += &format!("\n{}\n{}", measure.measure, table(measure));
    }
    text + LEGEND
}

const LEGEND: &str = "\
adds: in the order of versions, in % of the first kernel's mean; these add up to the whole. *: decided (rank sums, Holm).
alone: on the first kernel without the others. lost without it: what the second kernel has by it.
";

/// Says what the whole difference is, and which switches it consists of.
fn sentence(of: &Bisection, draws: usize) -> String {
    let base = of.means.0;
    let start = format!(
        "{}: {} ({} to {})",
        of.measure,
        share(of.whole.difference, base),
        number(base),
        number(of.means.1)
    );
    if draws == 1 {
        return format!("{start}; one draw, or draws that are alike, cannot tell it from chance\n");
    }
    let mut decided: Vec<&StepEffect> = of.steps.iter().filter(|step| step.is_decided).collect();
    decided.sort_by(|a, b| size(b).total_cmp(&size(a)));
    if decided.is_empty() {
        let why = if of.is_decided { "no single switch is decided" } else { "not decided" };
        return format!("{start}: {why}\n");
    }
    let named: Vec<String> = decided
        .iter()
        .map(|step| format!("{} by {}", bare_points(&step.added, base), step.step.change))
        .collect();
    let rest: f64 =
        of.steps.iter().filter(|step| !step.is_decided).map(|step| step.added.difference).sum();
    let rest = Effect { difference: rest, interval: None, p: None };
    let rest = match of.steps.iter().any(|step| !step.is_decided && !step.is_inert) {
        true => format!("; {} by others, not decided", bare_points(&rest, base)),
        false => String::new(),
    };
    format!("{start}: {}{rest}\n", named.join(", "))
}

/// Names the switches that change no event.
fn inert(of: &Bisection, probes: usize) -> String {
    let inert: Vec<&str> = of
        .steps
        .iter()
        .filter(|step| step.is_inert)
        .map(|step| step.step.change.as_str())
        .collect();
    match inert.as_slice() {
        [] => String::new(),
        some => format!(
            "{} of {} switches change no event under {probes} seeds: {}\n",
            some.len(),
            of.steps.len(),
            some.join(", ")
        ),
    }
}

fn table(of: &Bisection) -> String {
    let base = of.means.0;
    let unit = if base == 0.0 { "" } else { " [%]" };
    let mut table = Table::new()
        .text("switch")
        .text("since")
        .number(&format!("adds{unit}"))
        .text("")
        .number("95 % interval")
        .number("alone")
        .number("lost without it")
        .text("");
    let optional = |effect: &Option<Effect>| {
        effect.as_ref().map_or_else(|| "-".to_owned(), |e| bare_points(e, base))
    };
    for step in of.steps.iter().filter(|step| !step.is_inert) {
        let interval = step.added.interval.filter(|(low, high)| low < high);
        table.row([
            step.step.change.clone(),
            step.step.since.clone().unwrap_or_default(),
            bare_points(&step.added, base),
            if step.is_decided { "*".to_owned() } else { String::new() },
            interval.map_or_else(String::new, |(low, high)| {
                format!("{} to {}", bare(low, base), bare(high, base))
            }),
            optional(&step.alone),
            optional(&step.lost_without),
            if step.interacts { "depends on the others".to_owned() } else { String::new() },
        ]);
    }
    table.print()
}

fn size(step: &StepEffect) -> f64 {
    step.added.difference.abs()
}

/// Returns a difference as percent of a base; as it is where there is none.
fn bare(difference: f64, base: f64) -> String {
    match base == 0.0 {
        true => format!("{difference:+.1}"),
        // No zero with a sign that says nothing.
        false if (difference / base * 100.0).abs() < 0.5 => "0".to_owned(),
        false => format!("{:+.0}", difference / base * 100.0),
    }
}

fn bare_points(effect: &Effect, base: f64) -> String {
    bare(effect.difference, base)
}

/// Returns a difference in percent of a base, with the sign; as it is where the base is 0.
#[must_use]
pub fn share(difference: f64, base: f64) -> String {
    bare(difference, base) + if base == 0.0 { "" } else { " %" }
}

#[cfg(test)]
mod tests {
    use pageblock_measure::compare::bisect::{Drawn, Step, attribute};

    use super::*;

    #[test]
    fn the_answer_comes_first() {
        let step = |change: &str, kernel, alone, without| Step {
            change: change.to_owned(),
            since: Some("linux-6.10".to_owned()),
            kernel,
            kernel_alone: Some(alone),
            kernel_without: Some(without),
        };
        let steps = [step("pcp_type=reread", 1, 1, 0), step("retype=together", 1, 0, 1)];
        let around = |middle: f64| Drawn {
            values: (0..10).map(|at| middle + f64::from(at) - 4.5).collect(),
            unfinished: false,
        };
        let drawn = [around(500.0), around(290.0)];
        let answer = Answer {
            subject: "thpfioscale on m".to_owned(),
            kernels: ("linux-6.9".to_owned(), "linux-6.10".to_owned()),
            draws: 10,
            each: "seed",
            runs: 20,
            probes: 2,
            unfinished: Vec::new(),
            measures: vec![attribute("Pages", &steps, &[0, 1], &drawn, None)],
            certificate: None,
        };
        let text = print(&answer);
        let expect = "\
thpfioscale on m: from linux-6.9 to linux-6.10, 10 seeds of each kernel, 20 runs

Pages: -42 % (500 to 290): -42 by pcp_type=reread
1 of 2 switches change no event under 2 seeds: retype=together

Pages
switch           since       adds [%]     95 % interval  alone  lost without it
pcp_type=reread  linux-6.10       -42  *     -43 to -41    -42              -42
";
        assert!(text.starts_with(expect), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 130), "{text}");
        let unfinished = vec!["linux-6.10".to_owned()];
        let text = print(&Answer { unfinished, ..answer });
        let says = "\nlinux-6.10: runs did not finish, so that nothing is decided of it\n";
        assert!(text.contains(says), "{text}");
    }
}
