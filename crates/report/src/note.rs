//! Notes, in words.

use pageblock_measure::certificate::Loop;
use pageblock_measure::certificate::note::{Known, Note};
use pageblock_measure::value::event_unit::NOTE_ACROSS_6_10;

use crate::verify::gap;

const OPEN_LOOP: &str = "Open loop: reclaim and compaction are as recorded; only \
the allocator decides. A request that failed in the recording counts as failed here unless the \
policy has a block for it at that moment.";

const CLOSED_LOOP: &str = "Closed loop: what tasks asked for, and how long they needed it, is as recorded; reclaim and \
compaction decide here. Pages of files that reclaim passed over are used again.";

/// Returns a note in words.
#[must_use]
pub fn words(note: &Note) -> String {
    match note {
        Note::Gap(of) => gap(of),
        Note::Words(words) => words.clone(),
        Note::Of(known) => known_words(known),
    }
}

fn known_words(known: &Known) -> String {
    match known {
        Known::Replayed { of: Loop::Open } => OPEN_LOOP.to_owned(),
        Known::Replayed { of: Loop::Closed } => CLOSED_LOOP.to_owned(),
        Known::Settings { set, unknown } => settings(set, unknown),
        Known::Interrupted { done, wanted } => {
            format!("Interrupted: {done} of {wanted} replays are done.")
        }
        Known::Refused { policy, answers } => {
            format!(
                "{policy}: {answers} answers were not possible; Linux's counted in their place."
            )
        }
        Known::UnitsDiffer => NOTE_ACROSS_6_10.to_owned(),
        Known::Differs { what, first, other } => {
            format!("The runs differ in their {what}: {first} and {other}.")
        }
    }
}

fn settings(set: &[String], unknown: &[String]) -> String {
    let mut said = Vec::new();
    if !set.is_empty() {
        said.push(format!(
            "The machine's settings hold under every policy that has them: {}.",
            set.join(", ")
        ));
    }
    if !unknown.is_empty() {
        said.push(format!("Settings that are not simulated: {}.", unknown.join(", ")));
    }
    said.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A note is data in a file, and a sentence only where older versions saved one.
    #[test]
    fn notes_are_told_apart_in_files() {
        let json = r#"["old",{"note":"replayed","of":"closed"},{"gap":"no_events"},{"note":"interrupted","done":1,"wanted":2}]"#;
        let notes: Vec<Note> = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&notes).unwrap(), json);
        let said: Vec<String> = notes.iter().map(words).collect();
        assert_eq!((said[0].as_str(), said[1].as_str()), ("old", CLOSED_LOOP));
        assert_eq!(said[2], "the recording has no events after its start snapshot");
        assert_eq!(said[3], "Interrupted: 1 of 2 replays are done.");
        let set = Known::Settings { set: vec!["lru=mglru".into()], unknown: Vec::new() };
        assert_eq!(
            words(&set.into()),
            "The machine's settings hold under every policy that has them: lru=mglru."
        );
        let differs =
            Known::Differs { what: "machine".into(), first: "a".into(), other: "b".into() };
        assert_eq!(words(&differs.into()), "The runs differ in their machine: a and b.");
    }
}
