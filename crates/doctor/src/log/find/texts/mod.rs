//! The messages of parts of the kernel, and of programs that kill, about failed allocations: a string in the line, its
//! pattern, and its subject.

mod devices;
mod kernel;
mod kills;

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::about::About;
use crate::log::literals::Literals;

type Make = fn(&Captures<'_>) -> Option<About>;

/// A message: a string that a line must contain, its pattern, and its subject. A group `task` is the task, and `numbers` what
/// the line measures.
type Text = (&'static str, &'static str, Make);

fn number<T: std::str::FromStr>(found: &Captures<'_>, group: usize) -> Option<T> {
    found.get(group)?.as_str().parse().ok()
}

fn words(found: &Captures<'_>, group: usize) -> Option<String> {
    found.get(group).map(|words| words.as_str().trim().to_owned())
}

fn all() -> impl Iterator<Item = &'static Text> {
    kernel::TEXTS.iter().chain(&devices::TEXTS).chain(&kills::TEXTS)
}

/// Returns whether a line contains the mark of a text.
pub(super) fn is_marked(text: &str) -> bool {
    static MARKED: LazyLock<Literals> = LazyLock::new(|| Literals::new(marks().collect()));
    MARKED.is_in(text.as_bytes())
}

/// What a line says.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Said {
    pub(super) about: About,
    pub(super) task: Option<String>,
    /// What it measures.
    pub(super) numbers: Option<String>,
}

/// Returns what a line says.
pub(super) fn find(text: &str) -> Option<Said> {
    if !is_marked(text) {
        return None;
    }
    all().zip(&*PATTERNS).find_map(|(&(mark, _, make), pattern)| {
        let found = text.contains(mark).then(|| pattern.captures(text)).flatten()?;
        let named = |name| found.name(name).map(|part| part.as_str().trim().to_owned());
        Some(Said { about: make(&found)?, task: named("task"), numbers: named("numbers") })
    })
}

/// Such a line contains at least one of these strings.
pub(in crate::log) fn marks() -> impl Iterator<Item = &'static str> {
    all().map(|(mark, ..)| *mark)
}

static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let compile = |(_, text, _): &Text| Regex::new(text).expect("the pattern is valid");
    all().map(compile).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks rows `what it is about | task | text`.
    #[track_caller]
    pub(super) fn known(rows: &str) {
        for row in rows.trim_start().lines() {
            let (about, rest) = row.split_once(" | ").expect("a row has three parts");
            let (task, text) = rest.split_once(" | ").expect("a row has three parts");
            assert!(marks().any(|mark| text.contains(mark)), "{text}");
            let said = find(text).unwrap_or_else(|| panic!("{text}"));
            let seen = (format!("{:?}", said.about), said.task.unwrap_or("-".to_owned()));
            assert_eq!(seen, (about.to_owned(), task.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_like_them_is_nothing() {
        for text in [
            // Its cache is on the next line.
            "SLUB: Unable to allocate memory on node -1 (gfp=0x20)",
            "WARNING: CPU: 3 PID: 1 at mm/page_alloc.c:100 free_pages+0x1/0x2",
            "TCP: request_sock_TCP: Possible SYN flooding",
            "0 Workers (tasks / actors) killed due to memory pressure (OOM), 2 Workers crashed",
            "systemd-oomd.service: Deactivated successfully.",
            "            \"OOMKilled\": false,",
            "helpers.go:808] eviction manager: no observation found for eviction signal allocatableMemory.available",
        ] {
            assert_eq!(find(text), None, "{text}");
        }
    }
}
