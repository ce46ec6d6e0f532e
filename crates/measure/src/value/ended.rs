//! Runs that ended before their workload was complete: livelock, or memory exhausted for good.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The reason for which a run ended early.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The machine was busy, but a request for memory or all programs made no progress within the time
    /// limits.
    Livelock,
    /// A task that the machine cannot do without got no memory, and no process could be killed to free
    /// some: the kernel panics.
    OutOfMemory,
}

/// The early end of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Ended {
    /// Why it ended.
    pub why: EndReason,
    /// The task that made no progress; empty if no single task is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub task: String,
    /// The request that was not served: its order and flags; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub request: String,
    /// The time of the last progress, in simulated milliseconds since the machine was started.
    pub since_ms: u64,
    /// The time at which the run ended, likewise.
    pub at_ms: u64,
}

fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (since, at) = (seconds(self.since_ms), seconds(self.at_ms));
        match self.why {
            EndReason::Livelock => write!(f, "livelock")?,
            EndReason::OutOfMemory => write!(f, "out of memory")?,
        }
        if !self.task.is_empty() {
            write!(f, ", {}", self.task)?;
        }
        if !self.request.is_empty() {
            write!(f, " ({})", self.request)?;
        }
        match self.why {
            EndReason::Livelock => {
                write!(f, ", no progress since {since:.1} s, ended at {at:.1} s")
            }
            EndReason::OutOfMemory => write!(f, ", ended at {at:.1} s"),
        }
    }
}

impl Ended {
    /// Reads what [`Display`](fmt::Display) printed; times are then those that were printed. `None` if it is something else.
    #[must_use]
    pub fn printed(text: &str) -> Option<Self> {
        let ms = |seconds: &str| Some((seconds.parse::<f64>().ok()? * 1000.0).round() as u64);
        let (rest, at) = text.strip_suffix(" s")?.rsplit_once(", ended at ")?;
        let at_ms = ms(at)?;
        let (why, rest, since_ms) = match rest.strip_prefix("livelock") {
            Some(rest) => {
                let (rest, since) = rest.strip_suffix(" s")?.rsplit_once(", no progress since ")?;
                (EndReason::Livelock, rest, ms(since)?)
            }
            None => (EndReason::OutOfMemory, rest.strip_prefix("out of memory")?, at_ms),
        };
        let (task, request) = match rest.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (")) {
            Some((task, request)) => (task, request),
            None => (rest, ""),
        };
        let task = task.strip_prefix(", ").unwrap_or(task);
        Some(Self { why, task: task.to_owned(), request: request.to_owned(), since_ms, at_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_again() {
        for why in [EndReason::Livelock, EndReason::OutOfMemory] {
            let whole = ended(why);
            let alone = Ended { task: String::new(), request: String::new(), ..whole.clone() };
            for of in [whole, alone] {
                assert_eq!(
                    Ended::printed(&of.to_string()).map(|of| of.to_string()),
                    Some(of.to_string())
                );
            }
        }
        for other in ["", "livelock", "done", "livelock, no progress since x s, ended at 1.0 s"] {
            assert_eq!(Ended::printed(other), None);
        }
    }

    fn ended(why: EndReason) -> Ended {
        let request = "order 2, GFP_KERNEL".into();
        Ended { why, task: "user".into(), request, since_ms: 12_300, at_ms: 132_300 }
    }

    #[test]
    fn an_end_names_the_task_and_the_time() {
        assert_eq!(
            ended(EndReason::Livelock).to_string(),
            "livelock, user (order 2, GFP_KERNEL), no progress since 12.3 s, ended at 132.3 s"
        );
        let all =
            Ended { task: String::new(), request: String::new(), ..ended(EndReason::Livelock) };
        assert_eq!(all.to_string(), "livelock, no progress since 12.3 s, ended at 132.3 s");
        assert_eq!(
            ended(EndReason::OutOfMemory).to_string(),
            "out of memory, user (order 2, GFP_KERNEL), ended at 132.3 s"
        );
    }

    #[test]
    fn an_end_is_saved_and_read() {
        let json = serde_json::to_string(&ended(EndReason::OutOfMemory)).unwrap();
        assert_eq!(
            json,
            r#"{"why":"out_of_memory","task":"user","request":"order 2, GFP_KERNEL","since_ms":12300,"at_ms":132300}"#
        );
        assert_eq!(serde_json::from_str::<Ended>(&json).unwrap(), ended(EndReason::OutOfMemory));
    }
}
