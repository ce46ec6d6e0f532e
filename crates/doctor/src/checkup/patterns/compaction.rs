//! Direct compaction, and the source of such requests as far as counters show it.

use pageblock_measure::value::call_sites::{Wait, WaitFor};

use super::{Facts, nothing};
use crate::checkup::finding::{Command, Finding, Severity};
use crate::checkup::rates::Rates;
use crate::class::Confidence;
use crate::interfaces::has_defrag;

/// The share of requests that compact in vain, in percent, from which more compaction is advised only after a trial.
const IN_VAIN: f64 = 80.0;
/// How often a fault, or khugepaged, compacts for one huge page: before it reclaims, and after.
const BY_FAULT: f64 = 2.0;
/// How often a refused request for a hugetlb page compacts: it repeats reclaim and compaction up to 16 times
/// (`MAX_COMPACT_RETRIES`, `MAX_RECLAIM_RETRIES`).
const BY_HUGETLB: f64 = 16.0;

/// A possible source of compaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Faults,
    Khugepaged,
    Hugetlb,
}

/// The pages per second that a source got and did not get.
#[derive(Clone, Copy, Debug)]
struct Asked {
    source: Source,
    got: f64,
    refused: f64,
    /// The largest number of compactions of one refused request.
    times: f64,
}

impl Asked {
    /// Returns the largest number of compacting requests that can come from the source: a served request compacted once with
    /// success at most, a refused one compacted in vain.
    fn most(self, rates: &Rates) -> f64 {
        let in_vain = rates.compact_fail;
        let with_success = (rates.compact_stall - in_vain).max(0.0);
        // What got its page may have compacted in vain before.
        let tries = self.refused * self.times + self.got * (self.times - 1.0);
        with_success.min(self.got) + in_vain.min(tries)
    }

    fn text(self) -> String {
        let Self { got, refused, .. } = self;
        match self.source {
            Source::Faults => {
                format!("{got:.1} faults/s got a huge page or a large folio, {refused:.1} did not")
            }
            Source::Khugepaged => {
                format!("khugepaged made {got:.1} huge pages/s, {refused:.1} had no block")
            }
            Source::Hugetlb => {
                format!("{got:.1} hugetlb pages/s were made, {refused:.1} could not be")
            }
        }
    }
}

/// Returns whether the settings let a fault compact.
fn faults_compact(facts: &Facts<'_>) -> bool {
    let huge = &facts.sample.huge;
    match (huge.enabled.as_deref(), huge.defrag.as_deref()) {
        // `madvise` in either asks the program, which no file tells.
        (Some("always" | "madvise"), Some("always" | "madvise" | "defer+madvise")) => true,
        // Large folios have switches of their own.
        (_, Some("always" | "madvise" | "defer+madvise")) => {
            facts.rates.is_some_and(|rates| rates.folio_alloc + rates.folio_fallback > 0.0)
        }
        _ => false,
    }
}

/// Returns the sources that requested large blocks between the samples.
fn asked(facts: &Facts<'_>, rates: &Rates) -> Vec<Asked> {
    let mut asked = vec![
        Asked {
            source: Source::Khugepaged,
            got: rates.collapse_alloc,
            refused: rates.collapse_failed,
            times: BY_FAULT,
        },
        Asked {
            source: Source::Hugetlb,
            got: rates.hugetlb_made,
            refused: rates.hugetlb_failed,
            times: BY_HUGETLB,
        },
    ];
    if faults_compact(facts) {
        asked.push(Asked {
            source: Source::Faults,
            got: rates.thp_alloc + rates.folio_alloc,
            refused: rates.thp_fallback + rates.folio_fallback,
            times: BY_FAULT,
        });
    }
    asked.retain(|asked| asked.got + asked.refused > 0.0);
    asked
}

/// The source of most compactions.
enum Who {
    /// No other source can have made half of them.
    One(Source),
    /// Several sources can have made half of them.
    Several,
    /// No counter names a source that can have made half of them.
    Unknown,
}

fn who(asked: &[Asked], rates: &Rates) -> Who {
    let half = rates.compact_stall / 2.0;
    let mut able = asked.iter().filter(|asked| asked.most(rates) >= half);
    match (able.next(), able.next()) {
        (Some(one), None) => Who::One(one.source),
        (Some(_), Some(_)) => Who::Several,
        (None, _) => Who::Unknown,
    }
}

/// Returns the command by which page faults compact less.
fn quieter(facts: &Facts<'_>) -> Option<Command> {
    let file = "/sys/kernel/mm/transparent_hugepage/defrag";
    let defrag = facts.sample.huge.defrag.as_deref()?;
    let has = |value| has_defrag(facts.sample.version.as_ref(), value);
    let quieter = match defrag {
        "always" if has("defer+madvise") => "defer+madvise",
        "always" | "madvise" | "defer+madvise" if has("defer") => "defer",
        _ => return None,
    };
    Some(Command {
        run: format!("echo {quieter} > {file}"),
        undo: Some(format!("echo {defrag} > {file}")),
        risk: "fewer huge pages at first; khugepaged makes them later",
    })
}

fn of_khugepaged() -> Command {
    let file = "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag";
    Command {
        run: format!("echo 0 > {file}"),
        undo: Some(format!("echo 1 > {file} (the default)")),
        risk: "khugepaged makes fewer huge pages",
    }
}

fn of_hugetlb() -> Command {
    Command {
        run: "reserve hugetlb pages at boot: hugepages=N on the kernel's command line, or early by sysctl.d".to_owned(),
        undo: Some("remove the parameter".to_owned()),
        risk: "the memory serves nothing else",
    }
}

/// The command that shows which tasks compact and reclaim.
const TRACE: &str =
    "pageblock doctor --trace 10s (as root): who waits, how long, for which order, from where";

/// Names the source of compaction by a trace: the task with at least half of the traced compactions.
pub(in crate::checkup) fn attribute(finding: &mut Finding, waits: &[Wait]) {
    let compacted = || waits.iter().filter(|wait| wait.waited_for == WaitFor::Compaction);
    let all: u64 = compacted().map(|wait| wait.times).sum();
    let Some(most) = compacted().max_by_key(|wait| wait.times) else {
        finding.evidence.push("traced: nobody compacted memory meanwhile".to_owned());
        return;
    };
    let from = most.functions.first().map_or(String::new(), |function| format!(" in {function}"));
    let Wait { process, times, order, .. } = most;
    finding.evidence.push(format!(
        "traced: {times} of {all} requests that compact were of {process}, order {order}{from}"
    ));
    if times * 2 >= all {
        finding.cause = format!("{process} asks for blocks of order {order}{from}");
        finding.confidence = Confidence::High;
        finding.commands.retain(|command| command.run != TRACE);
    }
}

/// Returns the command that shows the source if no counter does.
fn trace() -> Command {
    Command {
        run: TRACE.to_owned(),
        undo: None,
        risk: "a few percent of a CPU meanwhile; tracing is off again afterwards",
    }
}

/// Requests do direct compaction, and wait for it.
pub(super) fn direct_compaction(facts: &Facts<'_>) -> Option<Finding> {
    let rates = facts.rates.filter(|rates| rates.compact_stall >= 1.0)?;
    let fails = 100.0 * rates.compact_fail / rates.compact_stall;
    let mut evidence = vec![format!(
        "{:.1} requests/s compact memory themselves, {fails:.0} % of them in vain",
        rates.compact_stall
    )];
    let asked = asked(facts, rates);
    evidence.extend(asked.iter().map(|asked| asked.text()));
    let huge = &facts.sample.huge;
    if let (Some(enabled), Some(defrag)) = (&huge.enabled, &huge.defrag) {
        evidence.push(format!("transparent_hugepage: enabled={enabled}, defrag={defrag}"));
    }
    let who = who(&asked, rates);
    let mut commands = Vec::new();
    let cause = match who {
        Who::One(Source::Faults) => {
            commands.extend(quieter(facts));
            "page faults compact memory to get huge pages"
        }
        Who::One(Source::Khugepaged) => {
            commands.push(of_khugepaged());
            "khugepaged compacts memory to get huge pages"
        }
        Who::One(Source::Hugetlb) => {
            commands.push(of_hugetlb());
            "hugetlb pages are asked for, and each request compacts memory"
        }
        Who::Several => {
            commands.push(trace());
            "not known: each of those that are named can have made half of it"
        }
        Who::Unknown => {
            commands.push(trace());
            "not known: no counter names who; of those that none counts, slabs and socket buffers of order 3 are the usual"
        }
    };
    if fails >= IN_VAIN {
        let run = "pageblock forecast --remedies (as root): whether more compaction, or less cache, would give blocks";
        commands.insert(0, Command { run: run.to_owned(), undo: None, risk: "none: it reads" });
    }
    // Nobody waits for khugepaged.
    let waits = !matches!(who, Who::One(Source::Khugepaged));
    let hurts = rates.compact_stall >= 20.0 || rates.pressure_some.is_some_and(|some| some >= 5.0);
    Some(Finding {
        name: "direct_compaction",
        severity: match (waits, hurts) {
            (false, _) => Severity::Notice,
            (true, true) => Severity::Critical,
            (true, false) => Severity::Warning,
        },
        confidence: match who {
            Who::One(_) => Confidence::High,
            Who::Several | Who::Unknown => Confidence::Low,
        },
        symptom: if waits {
            "latency spikes: requests wait while they compact memory".to_owned()
        } else {
            "khugepaged uses CPU time to compact memory".to_owned()
        },
        evidence,
        cause: cause.to_owned(),
        commands,
        does_nothing: vec![
            nothing("vm.extfrag_threshold=500", "that is the default"),
            nothing("a larger vm.min_free_kbytes", "it keeps more memory free, not larger blocks"),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(stall: f64, fail: f64, asked: &[(Source, f64, f64)]) -> &'static str {
        let rates = Rates { compact_stall: stall, compact_fail: fail, ..Rates::default() };
        let asked: Vec<Asked> = asked
            .iter()
            .map(|&(source, got, refused)| {
                let times = if source == Source::Hugetlb { BY_HUGETLB } else { BY_FAULT };
                Asked { source, got, refused, times }
            })
            .collect();
        match who(&asked, &rates) {
            Who::One(Source::Faults) => "faults",
            Who::One(Source::Khugepaged) => "khugepaged",
            Who::One(Source::Hugetlb) => "hugetlb",
            Who::Several => "several",
            Who::Unknown => "unknown",
        }
    }

    /// A trace names the compacting task if counters do not.
    #[test]
    fn a_trace_names_the_source() {
        let wait = |process: &str, times| Wait {
            process: process.to_owned(),
            waited_for: WaitFor::Compaction,
            order: 3,
            functions: vec!["alloc_skb_with_frags".to_owned()],
            times,
            in_vain: 0,
            total_us: 5,
            longest_us: 5,
        };
        let finding = || Finding {
            name: "direct_compaction",
            severity: Severity::Warning,
            confidence: Confidence::Low,
            symptom: String::new(),
            evidence: Vec::new(),
            cause: "not known".to_owned(),
            commands: vec![trace()],
            does_nothing: Vec::new(),
        };
        let mut told = finding();
        attribute(&mut told, &[wait("nginx", 9), wait("java", 2)]);
        assert_eq!(told.cause, "nginx asks for blocks of order 3 in alloc_skb_with_frags");
        assert!(told.commands.is_empty() && told.confidence == Confidence::High);
        let mut open = finding();
        attribute(&mut open, &[wait("a", 4), wait("b", 3), wait("c", 3)]);
        assert_eq!((open.cause.as_str(), open.evidence.len()), ("not known", 1));
    }

    #[test]
    fn who_cannot_have_made_half_of_it_is_not_the_cause() {
        use Source::{Faults, Hugetlb, Khugepaged};

        // All in vain, and every fault got its page: it was the request for hugetlb pages.
        assert_eq!(told(58.0, 58.0, &[(Faults, 20.0, 0.0), (Hugetlb, 3.0, 1.0)]), "hugetlb");
        assert_eq!(told(58.0, 58.0, &[(Faults, 20.0, 40.0), (Hugetlb, 0.1, 0.0)]), "faults");
        assert_eq!(told(58.0, 58.0, &[(Faults, 20.0, 40.0), (Hugetlb, 0.0, 4.0)]), "several");
        assert_eq!(told(58.0, 8.0, &[(Faults, 100.0, 0.0)]), "faults");
        assert_eq!(told(58.0, 8.0, &[(Hugetlb, 50.0, 0.0)]), "hugetlb");
        assert_eq!(told(58.0, 30.0, &[(Faults, 2.0, 3.0)]), "unknown");
        assert_eq!(told(10.0, 9.0, &[(Khugepaged, 1.0, 9.0)]), "khugepaged");
        assert_eq!(told(10.0, 9.0, &[]), "unknown");
    }
}
