//! Captures of real tools, from the file to a replay: the start state is inferred.

use std::path::{Path, PathBuf};

use pageblock::preset;
use pageblock_measure::Verification;
use pageblock_measure::certificate::verification::Gap;
use pageblock_recording::{CaptureOptions, Columnar, Recording};
use pageblock_replay::machine::recorded_preset;
use pageblock_replay::{Error, VerifyOptions, infer, open_loop};
use tempfile::TempDir;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../recording/tests/files").join(name)
}

fn open(name: &str, proc: Option<&Path>, cache: &Path) -> Result<(Recording, Columnar), Error> {
    let options = CaptureOptions { kernel: None, proc: proc.map(Path::to_owned) };
    let mut recording = Recording::open_with(&file(name), &options)?;
    let columnar = recording.columnar(cache, &mut |_, _| {})?;
    infer::complete(&mut recording, &columnar)?;
    Ok((recording, columnar))
}

fn verify(recording: &Recording, columnar: &Columnar) -> Verification {
    let own = recorded_preset(recording);
    let options = VerifyOptions::default();
    pageblock_replay::verify(recording, columnar, &own.policy, own.name, options, &mut |_, _| {})
        .unwrap()
}

#[test]
fn the_decisions_of_a_capture_are_judged_from_an_inferred_start() {
    let cache = TempDir::new().unwrap();
    let (recording, columnar) = open("mmpipe.data.xz", None, cache.path()).unwrap();
    let verification = verify(&recording, &columnar);
    assert_eq!(verification.gaps, [Gap::NoStartState { zones_known: false }]);
    let all = verification.total();
    assert!(all.cases > 2800 && all.exact * 100 > all.cases * 99, "{all:?}");
    assert!(verification.notes[0].starts_with("the start state is inferred from the events"));
}

#[test]
fn requests_and_frees_alone_are_not_judged_but_replayed() {
    let cache = TempDir::new().unwrap();
    let (recording, columnar) = open("page.data.xz", None, cache.path()).unwrap();
    assert!(recording.requests_only);
    let verification = verify(&recording, &columnar);
    assert_eq!(verification.gaps, [Gap::RequestsOnly, Gap::NoStartState { zones_known: false }]);
    assert!(verification.is_void());
    let demands = open_loop::demands(&recording, &columnar, &mut |_, _| {}).unwrap();
    assert_eq!((demands.count, demands.events), (65 + 94, 65 + 94));
    assert_eq!((&demands.recorded.extfrag, &demands.recorded.end), (&None, &None));
    let other = preset::find("linux-6.1").unwrap();
    let replay = |policy| {
        open_loop::replay(&recording, &demands, ("other", policy), 0, &mut |_, _| true)
            .unwrap()
            .unwrap()
    };
    let allocations = |run: &pageblock_measure::Run| run.counters.clone();
    let (first, again) = (replay(&other.policy), replay(&other.policy));
    assert_eq!(allocations(&first.run), allocations(&again.run));
}

#[test]
fn the_machine_of_a_capture_comes_from_copies_of_its_proc() {
    let (cache, proc) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let zone = |name: &str, start: u64, pages: u64| {
        format!(
            "Node 0, zone {name}\n  pages free 9\n  min 100\n  low 125\n  high 150\n  spanned {pages}\n  \
             present {pages}\n  managed {pages}\n  pagesets\n    cpu: 0\n  high: 400\n  batch: 63\n    cpu: 1\n  \
             high: 400\n  batch: 63\n  start_pfn: {start}\n"
        )
    };
    let write = |normal: String| {
        let text = zone("DMA32", 4096, (1 << 20) - 4096) + &normal;
        std::fs::write(proc.path().join("zoneinfo"), text).unwrap();
    };
    write(zone("Normal", 1 << 20, 7 << 20));
    let free = "Node 0, zone Normal 0 3 0 0 0 0 0 0 0 0 2\n";
    std::fs::write(proc.path().join("buddyinfo"), free).unwrap();
    let (recording, columnar) = open("mmpipe.data.xz", Some(proc.path()), cache.path()).unwrap();
    assert_eq!(recording.start.zones[1].wmark.low, 125);
    let verification = verify(&recording, &columnar);
    assert_eq!(verification.gaps, [Gap::NoStartState { zones_known: true }]);
    // Three blocks of order 1 and two of order 10; no event names them.
    let note = &verification.notes[0];
    assert!(
        note.contains(&format!("{} of them by buddyinfo and pagetypeinfo alone", 3 * 2 + 2 * 1024)),
        "{note}"
    );
    write(zone("Normal", 1 << 20, 1024));
    let other = open("mmpipe.data.xz", Some(proc.path()), cache.path()).err().unwrap().to_string();
    assert!(other.contains("which no zone of the given zoneinfo has"), "{other}");
}

#[test]
fn a_capture_with_an_absurd_frame_is_refused() {
    let (cache, dir) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let path = dir.path().join("events.tsv");
    std::fs::write(&path, "5 0 1 F 4294967296 0\n").unwrap();
    let mut recording = Recording::open(&path).unwrap();
    let columnar = recording.columnar(cache.path(), &mut |_, _| {}).unwrap();
    let error = infer::complete(&mut recording, &columnar).unwrap_err().to_string();
    assert_eq!(error, "the capture names frame 4294967296; allowed: frames below 2^32, 16 TiB");
}
