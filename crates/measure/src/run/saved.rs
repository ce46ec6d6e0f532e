//! Files of saved runs.

use std::path::Path;

use super::{Run, limits};
use crate::value::clock::Clock;
use crate::value::error::Error;
use crate::value::file;
use crate::value::origin::Origin;

/// Reads a list of runs, or a single one.
///
/// # Errors
/// [`Error::Read`], [`Error::TooLong`] above 1 GiB, or [`Error::Parse`] with the place of what is wrong.
pub fn load(path: &Path) -> Result<Vec<Run>, Error> {
    parse(path, &file::read_runs(path)?)
}

/// Parses a list of runs, or a single one; `path` is used only in errors.
///
/// # Errors
/// [`Error::Parse`] with the place of what is wrong, [`Error::Number`] with what no run has.
pub fn parse(path: &Path, json: &[u8]) -> Result<Vec<Run>, Error> {
    let mut runs: Vec<Run> = match json.trim_ascii_start().first() {
        Some(b'{') => vec![file::parse(path, json)?],
        _ => file::parse(path, json)?,
    };
    for (at, run) in runs.iter().enumerate() {
        let wrong = |what| Error::Number { path: path.to_owned(), run: at + 1, what };
        limits::check(run).map_err(wrong)?;
    }
    runs.iter_mut().for_each(of_older);
    Ok(runs)
}

/// Sets the origin of a run that an older version saved, which did not say it: only replays have a certificate or a
/// calibration, only guests an emulator's clock.
fn of_older(run: &mut Run) {
    if run.origin == Origin::Simulated {
        if run.certificate.is_some() || run.calibration.is_some() {
            run.origin = Origin::Replayed;
        } else if run.clock == Some(Clock::Emulated) {
            run.origin = Origin::Real;
        }
    }
}

/// Writes a list of runs, completely or not at all.
///
/// # Errors
/// [`Error::Write`].
pub fn save(path: &Path, runs: &[Run]) -> Result<(), Error> {
    file::save(path, runs)
}

/// Checks, before any run is made, that [`save`] could write there.
///
/// # Errors
/// [`Error::Write`].
pub fn can_save(path: &Path) -> Result<(), Error> {
    file::can_save(path)
}

/// Returns the JSON of a list of runs, indented, with a newline at the end.
#[must_use]
pub fn to_json(runs: &[Run]) -> String {
    file::format(runs)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use pageblock::mobility::Migratetype;

    use super::*;
    use crate::certificate::note::Known;
    use crate::certificate::verification::KindResult;
    use crate::certificate::{Certified, Grade, Loop, Reproduced};
    use crate::value::blocks::BlockCensus;
    use crate::value::extfrag::ExtfragKey;

    fn example() -> Run {
        let mut run = Run {
            policy: "linux-4.20,nofragment=on".into(),
            workload: "thpfioscale".into(),
            machine: "one-socket".into(),
            seed: 7,
            event_hash: "2d06800538d394c2".into(),
            counters: [("pgfault", 12), ("list_probes", 3)].into_iter().collect(),
            ..Run::default()
        };
        let key = ExtfragKey {
            alloc_mt: Migratetype::Unmovable,
            fallback_mt: Migratetype::Movable,
            alloc_order: 0,
            fallback_order: 4,
            owned: true,
        };
        run.extfrag.add(key, 2);
        run
    }

    #[test]
    fn older_runs_are_told_by_what_only_their_kind_has() {
        let check = |mut run: Run, origin| {
            of_older(&mut run);
            assert_eq!(run.origin, origin);
        };
        check(Run::default(), Origin::Simulated);
        check(
            Run { certificate: Some(Certified::Sentence(String::new())), ..Run::default() },
            Origin::Replayed,
        );
        check(Run { clock: Some(Clock::Emulated), ..Run::default() }, Origin::Real);
    }

    #[test]
    fn the_plain_shape() {
        let json = serde_json::to_string(&example()).unwrap();
        assert_eq!(
            json,
            concat!(
                r#"{"policy":"linux-4.20,nofragment=on","workload":"thpfioscale","machine":"one-socket","#,
                r#""origin":"simulated","seed":7,"event_hash":"2d06800538d394c2","counters":{"list_probes":3,"pgfault":12},"#,
                r#""extfrag":[{"alloc_mt":"Unmovable","fallback_mt":"Movable","alloc_order":0,"#,
                r#""fallback_order":4,"owned":true,"count":2}]}"#
            )
        );
    }

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("pageblock-measure-{}-{name}", std::process::id()))
    }

    #[test]
    fn saved_and_loaded_is_the_same() {
        let mut run = example();
        run.set_free_blocks("Normal", vec![4, 0, 1]);
        run.set_blocks(BlockCensus::default());
        run.notes.push("a note".to_owned().into());
        run.notes.push(Known::Replayed { of: Loop::Closed }.into());
        let decisions = Some(KindResult { cases: 9, shape: 9, exact: 8, explained: 0 });
        let reproduced = Reproduced { decisions, grade: Some(Grade::B), ..Reproduced::default() };
        run.certificate = Some(Certified::Reproduced(Box::new(reproduced)));
        run.origin = Origin::Replayed;
        run.measured.set("mixed-pageblocks", 4.25);
        assert_eq!(run.unusable_free_index["Normal"], [0, 500, 500]);
        let path = scratch("round-trip.json");
        save(&path, &[run.clone(), example()]).unwrap();
        // A second save replaces the file.
        save(&path, &[example(), run.clone()]).unwrap();
        assert_eq!(load(&path).unwrap(), [example(), run]);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_single_run_is_a_list_of_one() {
        let json = serde_json::to_vec(&example()).unwrap();
        assert_eq!(parse(Path::new("x"), &json).unwrap(), [example()]);
    }

    #[track_caller]
    fn check_error(json: &str, expect: &str) {
        let error = parse(Path::new("runs.json"), json.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expect);
    }

    #[test]
    fn an_error_is_one_line_whatever_a_key_holds() {
        for key in ["a\\nb", "a\nb", "a\\u001b[31m"] {
            let json = format!("[{{\"counters\": {{\"{key}\": -1}}}}]");
            let error = parse(Path::new("runs.json"), json.as_bytes()).unwrap_err().to_string();
            assert!(!error.contains(char::is_control), "{error:?}");
            assert!(error.starts_with("runs.json: line "), "{error}");
        }
    }

    #[test]
    fn errors_say_file_place_and_what() {
        check_error(
            "",
            "runs.json: line 1, column 0: the file ends inside a value; it is truncated",
        );
        check_error("[\n{}]", "runs.json: line 2, column 2: [0]: the key `policy` is missing");
        let json = serde_json::to_string(&[example()]).unwrap();
        check_error(
            &json.replace("\"seed\":7", "\"seed\":-7"),
            "runs.json: line 1, column 116: [0].seed: found -7; allowed: a whole number from 0 to 18446744073709551615",
        );
        let missing = load(Path::new("/nonexistent/runs.json")).unwrap_err().to_string();
        assert!(
            missing.starts_with("/nonexistent/runs.json: cannot read: No such file"),
            "{missing}"
        );
    }

    #[test]
    fn devices_and_links_are_written_through() {
        save(Path::new("/dev/null"), &[example()]).unwrap();
        assert!(!std::fs::metadata("/dev/null").unwrap().is_file());
        let (target, link) = (scratch("target.json"), scratch("link.json"));
        std::fs::write(&target, "[]").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        save(&link, &[example()]).unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(load(&target).unwrap(), [example()]);
        std::fs::remove_file(&link).unwrap();
        std::fs::remove_file(&target).unwrap();
    }

    #[test]
    fn a_failed_save_leaves_nothing_behind() {
        let directory = scratch("taken");
        std::fs::create_dir(&directory).unwrap();
        // The name is a directory's: the rename fails after the temporary file was written.
        let error = save(&directory, &[example()]).unwrap_err();
        assert!(matches!(error, Error::Write { .. }));
        let name = directory.file_name().unwrap().to_str().unwrap();
        let left = std::fs::read_dir(directory.parent().unwrap()).unwrap();
        let left = left.filter(|e| {
            let other = e.as_ref().unwrap().file_name();
            let other = other.to_string_lossy();
            other.contains(name) && other != name
        });
        assert_eq!(left.count(), 0);
        std::fs::remove_dir(&directory).unwrap();
    }
}
