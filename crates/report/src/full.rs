//! The complete comparison of runs: the tables that mmtests would print, then the measures over seeds
//! with their changes.

use pageblock_measure::compare::full::FullComparison;

use crate::{monitors, published, seeds, tables};

/// Prints a comparison. Blocks without data are omitted.
#[must_use]
pub fn print(comparison: &FullComparison) -> String {
    let columns = &comparison.over_seeds.columns;
    let mut text = tables::print(columns, &comparison.tables);
    let origin = &comparison.origin;
    let over = match comparison.over_seeds.seeds.len() {
        1 => String::new(),
        seeds => format!(", means over {seeds} seeds"),
    };
    let blocks = [
        (format!("Duration ({origin}, s"), monitors::duration(columns, &comparison.duration)),
        (format!("Counters ({origin}"), monitors::vmstat(columns, &comparison.vmstat)),
    ];
    for (title, block) in blocks {
        if !block.is_empty() {
            text += &format!("{title}{over})\n{block}\n");
        }
    }
    text += &seeds::print(&comparison.over_seeds);
    for line in &comparison.kernels {
        text += &format!("Kernels: {line}\n");
    }
    if let Some(published) = &comparison.published {
        text.push('\n');
        text += &published::print(published);
    }
    text
}

#[cfg(test)]
mod tests {
    use pageblock_measure::Run;
    use pageblock_measure::compare::common::Options;
    use pageblock_measure::value::ended::{EndReason, Ended};

    use super::*;

    #[test]
    fn runs_that_did_not_finish_come_first() {
        let ended = Ended {
            why: EndReason::Livelock,
            task: "user".into(),
            request: "order 0, GFP_NOFS".into(),
            since_ms: 15_900,
            at_ms: 136_600,
        };
        let run = Run { policy: "linux-6.3".into(), ended: Some(ended), ..Run::default() };
        let full = FullComparison::of_runs(&[run], &Options::default()).unwrap();
        let text = crate::chosen::Tables::All.below(&full.summary, &print(&full));
        assert!(
            text.starts_with(
                "linux-6.3 vanilla: 1 of 1 runs did not finish; seed 0: livelock, user (order 0, GFP_NOFS), no \
                 progress since 15.9 s, ended at 136.6 s (simulated)."
            ),
            "{text}"
        );
        assert!(text.contains("Ended livelock"), "{text}");
    }

    #[test]
    fn blocks_follow_each_other_as_in_mmtests() {
        let run = |policy: &str, seed, factor: u64| {
            let mut run = Run { policy: policy.into(), seed, ..Run::default() };
            for (name, count) in [
                ("simulated_user_ms", 1500),
                ("simulated_system_ms", 20_250),
                ("simulated_elapsed_ms", 60_000),
                ("pgscan_kswapd", 1200),
            ] {
                run.counters.set(name, count * factor);
            }
            run
        };
        let runs = [run("linux-6.9", 1, 1), run("linux-6.9", 2, 3), run("linux-6.10", 1, 1)];
        let more = [runs.to_vec(), vec![run("linux-6.10", 2, 1)]].concat();
        let full = FullComparison::of_runs(&more, &Options::default()).unwrap();
        let expect = "\
Duration (simulated, s, means over 2 seeds)
                         linux-6.9        linux-6.10
                           vanilla           vanilla
Duration User                 3.00              1.50
Duration System              40.50             20.25
Duration Elapsed            120.00             60.00

Counters (simulated, means over 2 seeds)
                              linux-6.9     linux-6.10
                                vanilla        vanilla
Ops Kswapd pages scanned        2400.00        1200.00
Ops Kswapd velocity               20.00          20.00

";
        let text = print(&full);
        assert!(text.starts_with(expect), "{text}");
    }
}
