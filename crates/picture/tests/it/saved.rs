//! Any bytes as a file of saved runs, compared, printed and drawn, for the tests and for the fuzz target: there are
//! texts and pictures, or one line.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;

use pageblock_measure::Run;
use pageblock_measure::compare::common::Options;
use pageblock_measure::compare::comparable;
use pageblock_measure::compare::full::FullComparison;
use pageblock_measure::run::saved;
use pageblock_picture::page::{Page, PageComparison};
use pageblock_picture::plot::{self, Format, PlotKind};
use pageblock_picture::{Kind, Opened, Subject, plain};
use pageblock_report::full;

const KINDS: [PlotKind; 5] =
    [PlotKind::Map, PlotKind::Orders, PlotKind::Matrix, PlotKind::Timeline, PlotKind::Frontier];
/// The most pageblocks at all samples together that are drawn of one input.
const CELLS: u64 = 4096;

/// Reads the bytes as saved runs, as `compare`, `report` and `plot` do.
pub(crate) fn compare_and_draw(json: &[u8]) {
    let Some(runs) = in_line(saved::parse(Path::new("runs.json"), json)) else { return };
    let runs = comparable_of(runs);
    if runs.is_empty() {
        return;
    }
    // What was read can be written and read again.
    let again = saved::parse(Path::new("runs.json"), saved::to_json(&runs).as_bytes());
    assert_eq!(again.unwrap(), runs);
    let comparison = in_line(FullComparison::of_runs(&runs, &Options::default()));
    let comparisons = comparison.map(|comparison| {
        let tables = full::print(&comparison);
        PageComparison { summary: comparison.summary, tables }
    });
    let subjects: Vec<Subject> = runs.iter().map(subject).collect();
    draw(&subjects, &runs);
    let (title, command) = (runs[0].workload.clone(), runs[0].policy.clone());
    let comparisons = comparisons.into_iter().collect();
    let html = Page { title, command, subjects, comparisons, ..Page::default() }.html();
    assert_eq!(html.matches("<script").count(), 2, "the data and the program");
}

fn draw(subjects: &[Subject], runs: &[Run]) {
    let opened = subjects.iter().filter_map(|subject| in_line(Opened::of(subject)).flatten());
    let opened: Vec<Opened> = opened.collect();
    let points = plot::points(runs);
    for kind in KINDS {
        in_line(plain::text(kind, &opened, &points, 0.5));
        let svg = in_line(plot::draw(kind, Format::Svg, &opened, &points, 0.5));
        let svg = svg.map(|svg| String::from_utf8(svg).expect("an SVG is text"));
        assert!(svg.is_none_or(|svg| !svg.contains(|c: char| c.is_control() && c != '\n')));
    }
}

/// Returns the runs that can be compared with the first: every policy with the same seeds, each once.
fn comparable_of(runs: Vec<Run>) -> Vec<Run> {
    let Some(first) = runs.first().cloned() else { return runs };
    let mut seen = BTreeSet::new();
    let mut kept: Vec<Run> = runs
        .into_iter()
        .filter(|run| comparable::difference(&first, run).is_none())
        .filter(|run| seen.insert((run.seed, run.policy.clone())))
        .filter(|run| run.history.as_ref().is_none_or(is_small))
        .collect();
    let policies: BTreeSet<String> = kept.iter().map(|run| run.policy.clone()).collect();
    kept.retain(|run| policies.iter().all(|policy| seen.contains(&(run.seed, policy.clone()))));
    kept
}

fn is_small(history: &pageblock_measure::History) -> bool {
    let blocks = history.zones.iter().fold(0u64, |sum, zone| sum.saturating_add(zone.blocks));
    blocks.saturating_mul(history.times_us.len() as u64) <= CELLS
}

fn subject(run: &Run) -> Subject {
    Subject {
        name: run.policy.clone(),
        kind: Kind::Simulated,
        workload: run.workload.clone(),
        machine: run.machine.clone(),
        seed: Some(run.seed),
        command: run.policy.clone(),
        certificate: run.certificate.as_ref().map(pageblock_report::certificate::line),
        notes: run.notes.iter().map(pageblock_report::note::words).collect(),
        history: run.history.clone(),
    }
}

fn in_line<T, E: Display>(result: Result<T, E>) -> Option<T> {
    let wrong = result.as_ref().err().map(ToString::to_string);
    assert!(wrong.as_ref().is_none_or(|text| !text.contains('\n')), "{wrong:?}");
    result.ok()
}

/// Calls the driver with every seed, cut at places of a grid and with bytes changed.
#[test]
fn damaged_runs_are_compared_and_drawn_or_refused_in_a_line() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/runs");
    let mut read = 0;
    for seed in std::fs::read_dir(seeds).unwrap() {
        read += 1;
        let bytes = std::fs::read(seed.unwrap().path()).unwrap();
        assert!(saved::parse(Path::new("seed"), &bytes).is_ok());
        compare_and_draw(&bytes);
        for n in 0..40 {
            let place = bytes.len() * n / 40;
            compare_and_draw(&bytes[..place]);
            let digit = bytes[place..].iter().position(u8::is_ascii_digit).map(|at| place + at);
            let mut changed = bytes.clone();
            if let Some(at) = digit {
                changed.splice(at..=at, *b"9999999999");
            }
            compare_and_draw(&changed);
        }
    }
    assert!(read > 0);
}
