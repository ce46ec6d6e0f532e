//! `tests-sysstate`: what the kernel counted while each test of an iteration ran.

use std::collections::BTreeMap;
use std::path::Path;

use pageblock_measure::Counters;
use pageblock_measure::value::names;
use pageblock_recording::{MemInfo, VmStat};

use crate::error::{Place, Result, bail};

/// One test of an iteration.
#[derive(Debug, Default)]
pub(super) struct Test {
    /// Its name: `thpchallenge`.
    pub(super) name: String,
    /// What was counted while it ran, with the times that it took.
    pub(super) counters: Counters,
    /// The memory of the machine in MiB; `None` if it was not logged.
    pub(super) memory_mib: Option<u64>,
}

/// The files of a test that were read so far, by `start` or `end` and their path.
#[derive(Default)]
struct Open {
    name: String,
    files: BTreeMap<(String, String), String>,
    /// The file whose lines follow.
    at: Option<(String, String)>,
}

/// Reads the tests of an iteration, in the order in which they ran. A test that did not end is left out.
///
/// # Errors
/// If the file cannot be read, or a test has no `/proc/vmstat` at its beginning and end.
pub(super) fn tests(path: &Path) -> Result<Vec<Test>> {
    let mut input = super::open(path)?;
    let (mut tests, mut open): (Vec<Test>, Option<Open>) = (Vec::new(), None);
    while let Some(line) = input.next_line()? {
        let text = String::from_utf8_lossy(line.bytes).into_owned();
        if let Some(name) = after(&text, "test begin :: ") {
            open = Some(Open { name: name.to_owned(), ..Open::default() });
        } else if after(&text, "test end :: ").is_some() {
            if let Some(whole) = open.take() {
                tests.push(whole.test().at(|| path.display())?);
            }
        } else if let Some(times) = text.strip_prefix("time :: ") {
            // It follows the end of its test.
            if let Some(test) = tests.last_mut() {
                times_of(times, test);
            }
        } else if let Some(open) = &mut open {
            open.line(&text);
        }
    }
    Ok(tests)
}

/// Returns the first word after a prefix.
fn after<'t>(text: &'t str, prefix: &str) -> Option<&'t str> {
    text.strip_prefix(prefix)?.split_whitespace().next()
}

impl Open {
    fn line(&mut self, text: &str) {
        let began = text.strip_prefix("file ").and_then(|rest| rest.split_once(" :: "));
        match began {
            Some((when @ ("start" | "end"), file)) => {
                let at = (when.to_owned(), file.trim().to_owned());
                self.files.insert(at.clone(), String::new());
                self.at = Some(at);
            }
            _ => {
                let content = self.at.as_ref().and_then(|at| self.files.get_mut(at));
                if let Some(content) = content {
                    content.push_str(text);
                    content.push('\n');
                }
            }
        }
    }

    fn test(self) -> Result<Test> {
        let file = |when: &str, file: &str| self.files.get(&(when.to_owned(), file.to_owned()));
        let counters = |when: &str| match file(when, "/proc/vmstat") {
            Some(text) => Ok(Counters::from_iter(VmStat::parse(text).0)),
            None => bail!(
                "{}: no `file {when} :: /proc/vmstat` between its `test begin` and `test end`",
                self.name
            ),
        };
        let counters = counters("end")?.since(&counters("start")?).without_levels();
        let memory = file("start", "/proc/meminfo").map(|text| MemInfo::parse(text));
        let memory_mib = memory.and_then(|memory| Some(memory.get("MemTotal")? / 1024));
        Ok(Test { name: self.name, counters, memory_mib })
    }
}

/// Sets the times of `NAME 1.5 user 0.2 system 9.9 elapsed`, which are in seconds.
fn times_of(text: &str, test: &mut Test) {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.first() != Some(&test.name.as_str()) {
        return;
    }
    for pair in words[1..].chunks_exact(2) {
        let counter = match pair[1] {
            "user" => names::USER_MS,
            "system" => names::SYSTEM_MS,
            "elapsed" => names::ELAPSED_MS,
            _ => continue,
        };
        if let Some(seconds) = pair[0].parse().ok().filter(|s: &f64| (0.0..1e12).contains(s)) {
            test.counters.set(counter, (seconds * 1000.0).round() as u64);
        }
    }
}
