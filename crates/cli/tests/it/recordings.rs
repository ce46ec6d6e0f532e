//! Verify and replay on the shipped recording, and on damaged ones.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Ran, ran};

pub(crate) fn shipped() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join("recordings/debian-6.12-640m").canonicalize().expect("it is in the repository")
}

/// Runs the program with a separate cache for each test.
pub(crate) fn pageblock(test: &str, arguments: &[&str]) -> Ran {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cache-{test}"));
    ran(Command::new(env!("CARGO_BIN_EXE_pageblock")).args(arguments).env("PAGEBLOCK_CACHE", cache))
}

/// Removes what an earlier run of a test kept.
fn forget(test: &str) {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cache-{test}"));
    match std::fs::remove_dir_all(cache) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
        _ => {}
    }
}

fn recording() -> String {
    shipped().to_str().expect("the path is UTF-8").to_owned()
}

#[test]
fn verify_judges_the_shipped_recording() {
    let recording = recording();
    let good = pageblock(
        "verify",
        &["verify", &recording, "--min-shape", "0.99", "--min-exact", "0.98", "--json"],
    );
    assert_eq!(good.status, 0, "{}", good.stderr);
    let json: serde_json::Value = serde_json::from_str(&good.stdout).expect("it prints JSON");
    crate::is_documented(&json);
    assert_eq!(json["preset"], "debian-6.12");
    assert_eq!(json["end_state_recorded"], false);
    assert_eq!(json["end_state_equal"], serde_json::Value::Null);
    let fallback = &json["kinds"]["fallback"];
    assert!(fallback["cases"].as_u64() > Some(1000));
    assert_eq!(fallback["shape"], fallback["cases"]);
    assert_eq!(json["drift"].as_array().map(Vec::len), Some(10));
    // The recording's own fallbacks: a free replay comes near to them, and says how near.
    let certificate = &json["certificate"];
    assert_eq!((&certificate["grade"], &certificate["lost"]), (&"B".into(), &0.into()));
    let total = &certificate["distances"][0];
    assert_eq!((&total["measure"], &total["recorded"]), (&"fallback_total".into(), &1204.into()));
    assert!(total["permyriad"].as_u64() < Some(2000));
    assert_eq!(certificate["parts"]["blocks"]["support"], "supported");
    assert_eq!(certificate["parts"]["failures"]["support"], "rare");
    // Both loops are graded.
    let closed = &json["closed_loop"];
    assert_eq!(closed["distances"][0]["recorded"], 1204);
    assert_eq!(closed["parts"]["blocks"]["support"], "supported");
    let low = pageblock("verify", &["verify", &recording, "--min-grade", "A"]);
    assert_eq!((low.status, low.stderr.as_str()), (1, "verify: --min-grade A: the grade is B\n"));
    let decisions = pageblock("verify", &["verify", &recording, "--decisions-only", "--json"]);
    let decisions: serde_json::Value = serde_json::from_str(&decisions.stdout).expect("JSON");
    assert_eq!((decisions.get("certificate"), &decisions["kinds"]), (None, &json["kinds"]));
    let strict = pageblock("verify", &["verify", &recording, "--min-exact", "1"]);
    assert_eq!(strict.status, 1);
    assert!(strict.stdout.starts_with("debian-6.12-640m under debian-6.12: "), "{}", strict.stdout);
    assert!(strict.stderr.starts_with("verify: --min-exact 1: "), "{}", strict.stderr);
    let first = strict.stdout.lines().next().expect("it prints a line");
    let worst = "; the worst kind is drains in the recording or in the replay, 99.";
    assert!(first.contains(worst), "{first}");
}

/// A kernel's recording does not match another policy.
#[test]
fn verify_distinguishes_policies() {
    let ran = pageblock(
        "apart",
        &["verify", &recording(), "--policy", "linux-5.4", "--min-shape", "0.99"],
    );
    assert_eq!(ran.status, 1, "{}", ran.stderr);
}

/// Its lists hold fewer pages than the recorded ones: what has no room starts in the zone.
#[test]
fn replay_runs_packed_placement_from_a_recorded_state() {
    let recording = recording();
    let packed = "debian-6.12,placement=packed";
    let ran = pageblock("packed", &["replay", &recording, "--policy", packed, "--json"]);
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let runs: serde_json::Value = serde_json::from_str(&ran.stdout).expect("it prints JSON");
    let misplaced = |run: usize| runs[run]["counters"]["type_mismatch_pages"].as_u64();
    assert!(misplaced(0) > Some(0) && misplaced(1) < misplaced(0), "{:?}", [0, 1].map(misplaced));
}

#[test]
fn replay_compares_policies_below_the_certificate() {
    let recording = recording();
    let policies = ["--policy", "linux-6.9", "--policy", "linux-6.10"];
    let all = ["replay", &recording, "--tables", "all"];
    let table = pageblock("replay", &[&all, &policies[..]].concat());
    assert_eq!((table.status, table.stderr.as_str()), (0, ""));
    assert!(table.stdout.starts_with("Certificate: debian-6.12-640m under debian-6.12: grade B, "));
    let margin = "Pages allocated into a block of another type (pages)\n(supports large changes only, above ";
    assert!(table.stdout.contains(margin), "{}", table.stdout);
    let calibration = "\nCalibration: free replay under debian-6.12, the recorded policy, has ";
    assert!(table.stdout.contains(calibration), "{}", table.stdout);
    for row in ["Extfrag total", "Mismatch total", "Blocks Unmovable", "Work zone-lock-acquired"] {
        assert!(table.stdout.contains(row), "no row '{row}'");
    }
    let json = pageblock("replay", &[&["replay", &recording], &policies[..], &["--json"]].concat());
    let runs: serde_json::Value = serde_json::from_str(&json.stdout).expect("it prints JSON");
    // The recorded policy is added as the first column.
    assert_eq!(runs.as_array().map(Vec::len), Some(3));
    assert_eq!(runs[0]["policy"], "debian-6.12");
    crate::is_documented(&runs);
    let of = |run: usize, counter: &str| runs[run]["counters"][counter].as_u64();
    assert_eq!(runs[2]["policy"], "linux-6.10");
    assert_eq!(of(1, "mm_page_alloc"), of(2, "mm_page_alloc"));
    let rows = &runs[0]["calibration"]["rows"];
    assert_eq!(
        (rows[0]["label"].as_str(), rows[0]["recorded"].as_u64()),
        (Some("total"), Some(1204))
    );
    assert!(rows[0]["replayed"].as_u64() > Some(0));
    // Freelist hygiene: pages hardly ever come from a block of another type.
    assert!(of(2, "type_mismatch_pages") < of(1, "type_mismatch_pages"));
    // Events of 6.9 and 6.12 have different units: there is no percentage.
    let row = table.stdout.lines().find(|line| line.starts_with("Extfrag total"));
    let row = row.expect("it is in the table");
    let counts: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(counts[2..5].concat().as_str(), format!("{}(0.00%)", counts[2]));
    assert_eq!(row.matches('%').count(), 2, "{row}");
    assert!(row.contains("(      - )"), "{row}");
    let baseline = ["--baseline", "linux-6.10", "--json"];
    let turned = pageblock("replay", &[&["replay", &recording], &policies[..], &baseline].concat());
    let turned: serde_json::Value = serde_json::from_str(&turned.stdout).expect("it prints JSON");
    assert_eq!((&turned[0], &turned[1]), (&runs[2], &runs[0]));
    let alone = pageblock("replay", &["replay", &recording, "--json"]);
    let alone: serde_json::Value = serde_json::from_str(&alone.stdout).expect("it prints JSON");
    assert_eq!((alone.as_array().map(Vec::len), &alone[0]), (Some(1), &runs[0]));
}

#[test]
fn replay_says_which_loop_it_takes_and_why() {
    let recording = recording();
    let first = |options: &[&str]| {
        let arguments = [&["replay", &recording, "--tables", "summary"], options].concat();
        let ran = pageblock("loops", &arguments);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran.stdout.lines().next().expect("it prints a line").to_owned()
    };
    for (options, ends) in [
        (&[][..], "; the open loop is taken: the closed loop supports no more (grade C)"),
        (&["--open-loop"], "; the open loop is taken, as asked for (the closed loop: grade C)"),
        (
            &["--closed-loop"],
            "; the closed loop is taken, as asked for (the open loop: grade B): grade C, 6 of 7 parts of a what-if are \
             tested, 2 supported",
        ),
    ] {
        let line = first(options);
        assert!(line.ends_with(ends), "{line}");
        // The recording has one grade, whichever loop is taken.
        assert!(line.contains(" under debian-6.12: grade B"), "{line}");
    }
    let json = pageblock("loops", &["replay", &recording, "--closed-loop", "--json"]);
    let runs: serde_json::Value = serde_json::from_str(&json.stdout).expect("it prints JSON");
    crate::is_documented(&runs);
    assert!(runs[0]["counters"]["pgsteal_kswapd"].as_u64() > Some(1000));
    let both = pageblock("loops", &["replay", &recording, "--open-loop", "--closed-loop"]);
    assert_eq!((both.status, both.stdout.as_str()), (2, ""));
}

#[test]
fn a_truncated_recording_is_one_line_with_the_position() {
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cut-recording");
    let _ = std::fs::remove_dir_all(&copy);
    std::fs::create_dir_all(copy.join("start")).expect("cargo gives a folder to write to");
    for file in ["static.tar.xz", "README.md", "events.tsv.zst", "start/snapshot.txt.xz"] {
        std::fs::copy(shipped().join(file), copy.join(file)).expect("the recording has it");
    }
    let events = std::fs::File::options().write(true).open(copy.join("events.tsv.zst"));
    events.and_then(|file| file.set_len(100_000)).expect("it can be cut");
    let ran = pageblock("cut", &["verify", copy.to_str().expect("the path is UTF-8")]);
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    assert_eq!(ran.stderr.lines().count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("events.tsv.zst") && ran.stderr.contains("byte 100000"));
}

/// A recording as one file: what is in it, a part of it, and the grade that stays in it.
#[test]
fn a_recording_is_one_file_that_is_looked_into_cut_and_converted() {
    let folder = tempfile::tempdir().expect("there is room");
    let name = |name: &str| folder.path().join(name).display().to_string();
    forget("one-file");
    let run = |arguments: &[&str]| pageblock("one-file", arguments);
    let (whole, part, torn) = (name("a.pbrec"), name("part.pbrec"), name("torn.pbrec"));
    let made = run(&["recording", "convert", &recording(), "-o", &whole]);
    assert_eq!((made.status, made.stderr.as_str()), (0, ""));
    let again = run(&["recording", "convert", &recording(), "-o", &whole]);
    assert_eq!(again.status, 2);
    assert!(again.stderr.ends_with("it exists; allowed: a name that does not exist\n"));

    let info = |file: &str| {
        let info = run(&["recording", "info", file, "--json"]);
        assert_eq!(info.status, 0, "{}", info.stderr);
        let json: serde_json::Value = serde_json::from_str(&info.stdout).expect("it prints JSON");
        crate::is_documented(&json);
        json
    };
    assert_eq!(info(&whole)["events"], 650_002);
    assert_eq!(info(&whole)["grade"], serde_json::Value::Null);
    let verified = run(&["verify", &whole]);
    assert!(verified.stdout.contains("grade B"), "{}", verified.stdout);
    assert_eq!(info(&whole)["grade"], "B");
    let elsewhere = pageblock("one-file-2", &["recording", "info", &whole]);
    assert!(elsewhere.stdout.contains("; grade B\n"), "it is in the file: {}", elsewhere.stdout);

    let stats = run(&["recording", "stats", &whole, "--json"]);
    let json: serde_json::Value = serde_json::from_str(&stats.stdout).expect("it prints JSON");
    crate::is_documented(&json);
    assert_eq!(json["by_event"]["mm_page_alloc_extfrag"], 1248);

    let cut = run(&["recording", "slice", &whole, "--from", "1s", "--to", "2s", "-o", &part]);
    assert!(cut.stdout.ends_with("a replay infers the start from the events\n"), "{}", cut.stdout);
    let seconds = info(&part)["seconds"].as_f64().expect("a number");
    assert!((0.9..=1.0).contains(&seconds), "{seconds}");
    let head = run(&["recording", "head", &part, "-n", "3"]);
    assert_eq!(head.stdout.lines().count(), 4, "{}", head.stdout);

    let bytes = std::fs::read(&whole).expect("it is there");
    std::fs::write(&torn, &bytes[..bytes.len() / 2]).expect("there is room");
    let refused = run(&["verify", &torn]);
    assert_eq!(refused.status, 2);
    assert!(refused.stderr.contains("torn.pbrec: not a whole recording: "), "{}", refused.stderr);
    let saved = run(&["recording", "convert", &torn, "-o", &name("saved.pbrec")]);
    assert!(saved.stdout.contains("the file was cut"), "{}{}", saved.stdout, saved.stderr);
    assert!(info(&name("saved.pbrec"))["events"].as_u64() > Some(100_000));

    let other = run(&["recording", "convert", &part, "-o", &name("x.csv")]);
    assert!(other.stderr.contains("allowed: .pbrec, .llfree, or none"), "{}", other.stderr);
    let llfree = run(&["recording", "convert", &part, "-o", &name("x.llfree")]);
    assert_eq!(llfree.status, 0, "{}", llfree.stderr);
    let replayed = run(&["replay", &name("x.llfree"), "--policy", "linux-6.12"]);
    assert_eq!(replayed.status, 0, "{}", replayed.stderr);
}
