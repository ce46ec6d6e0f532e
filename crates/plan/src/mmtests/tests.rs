use std::fs;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use pageblock::mobility::Migratetype;
use pageblock_measure::value::names;
use pageblock_measure::{ExtfragKey, Origin, Run};

use super::*;

const SYSSTATE: &str = "start :: 1700000000
test begin :: thpchallenge 1700000001
file start :: /proc/vmstat
nr_free_pages 900
thp_fault_alloc 100
allocstall_normal 5
allocstall_movable 6
file start :: /proc/zoneinfo
Node 0, zone   Normal
file start :: /proc/meminfo
MemTotal:       32882688 kB
file end :: /proc/vmstat
nr_free_pages 950
thp_fault_alloc 140
allocstall_normal 8
allocstall_movable 16
file end :: /proc/zoneinfo
test end :: thpchallenge 1700000100 0
time :: thpchallenge 10.50 user 20.25 system 99.00 elapsed
";

const TRACE: &str = "\
  fio-77 [001] .... 12.000001: mm_page_alloc_extfrag: page=0000000012345678 pfn=0x41200 alloc_order=0 \
fallback_order=3 pageblock_order=9 alloc_migratetype=0 fallback_migratetype=1 fragmenting=1 change_ownership=0
CPU:1 [LOST 12 EVENTS]
 <...>-78 [001] .... 12.000002: mm_compaction_end: zone_start=0x1 migrate_pfn=0x2 free_pfn=0x3
";

/// Makes the folder of a kernel with one iteration.
fn folder(at: &Path, sysstate: &str) -> PathBuf {
    let (kernel, iteration) = (at.join("mainline-6.14"), at.join("mainline-6.14/iter-0"));
    let logs = iteration.join("thpchallenge/logs");
    fs::create_dir_all(&logs).unwrap();
    let gz = |path: PathBuf, text: &str| {
        let mut writer = GzEncoder::new(File::create(path).unwrap(), Compression::fast());
        writer.write_all(text.as_bytes()).unwrap();
        writer.finish().unwrap();
    };
    let version = "Linux host5.4 6.14.0-rc3-mainline+ #1 SMP x86_64 GNU/Linux\n";
    fs::write(iteration.join("kernel.version"), version).unwrap();
    gz(iteration.join("tests-sysstate.gz"), sysstate);
    gz(iteration.join("ftrace-thpchallenge.gz"), TRACE);
    let faults =
        "Creating threads\nfault 0 base 1495 1.5\nfault 1 huge 127 1.6\nfault 0 base 8 1.7\n";
    gz(logs.join("threads-5.log.gz"), faults);
    kernel
}

#[test]
fn a_test_of_mmtests_is_a_real_run() {
    let temporary = tempfile::tempdir().unwrap();
    let kernel = folder(temporary.path(), SYSSTATE);
    assert!(
        is_folder(&kernel) && is_folder(temporary.path()) && !is_folder(&kernel.join("iter-0"))
    );
    let found = runs(temporary.path()).unwrap();
    let [run] = found.as_slice() else { panic!("{} runs", found.len()) };
    assert_eq!((run.policy.as_str(), run.workload.as_str()), ("mainline-6.14", "thpfioscale"));
    assert_eq!((run.origin, run.seed, run.machine.as_str()), (Origin::Real, 1, "32112 MiB"));
    let count = |name| run.counters.get(name);
    assert_eq!((count("thp_fault_alloc"), count("allocstall_movable")), (Some(40), Some(10)));
    assert_eq!(count("nr_free_pages"), None);
    assert_eq!(names::elapsed_ms(&run.counters), Some(99_000));
    assert_eq!(names::user_ms(&run.counters), Some(10_500));
    let kept = ExtfragKey {
        alloc_mt: Migratetype::Unmovable,
        fallback_mt: Migratetype::Movable,
        alloc_order: 0,
        fallback_order: 3,
        owned: false,
    };
    assert_eq!(run.extfrag.iter().map(|(key, n)| (*key, n)).collect::<Vec<_>>(), [(kept, 1)]);
    assert_eq!(run.samples["fault-base-5"], [1_495_000, 8000]);
    assert_eq!(run.samples["fault-huge-5"], [127_000]);
    let notes: Vec<String> = run.notes.iter().map(|note| format!("{note:?}")).collect();
    assert!(notes[0].contains("Linux 6.14.0-rc3-mainline+, measured by mmtests."), "{notes:?}");
    assert!(notes[1].contains("lost 12 events"), "{notes:?}");
}

#[test]
fn what_is_not_whole_is_refused_with_its_place() {
    let temporary = tempfile::tempdir().unwrap();
    let check = |sysstate: &str, expect: &str| {
        let kernel = folder(temporary.path(), sysstate);
        let message = crate::error::line(&runs(&kernel).unwrap_err());
        assert!(message.ends_with(expect), "{message}");
    };
    check(
        &SYSSTATE.replace("file end :: /proc/vmstat", "file end :: /proc/schedstat"),
        "tests-sysstate.gz: thpchallenge: no `file end :: /proc/vmstat` between its `test begin` and `test end`",
    );
    check(&SYSSTATE.replace("test end", "no end"), "mainline-6.14: no test of mmtests ended");
    let logs = temporary.path().join("mainline-6.14/iter-0/thpchallenge/logs");
    fs::write(logs.join("threads-5.log"), "fault 0 vast 9 1.0\n").unwrap();
    check(SYSSTATE, "threads-5.log: line 1: allowed: fault THREAD base|huge MICROSECONDS");
}

#[test]
fn runs_are_written_as_mmtests_reads_them() {
    let temporary = tempfile::tempdir().unwrap();
    let read = runs(&folder(temporary.path(), SYSSTATE)).unwrap();
    let run = Run { policy: "linux-6.10,boost=off".into(), ..read[0].clone() };
    let target = temporary.path().join("log");
    write(std::slice::from_ref(&run), &target).unwrap();
    let kernel = target.join("linux-6.10+boost=off");
    assert_eq!(runs(&kernel).unwrap(), std::slice::from_ref(&run), "the run itself is in it");

    fs::remove_file(kernel.join("iter-0").join(OWN)).unwrap();
    let [again] = runs(&kernel).unwrap().try_into().unwrap();
    assert_eq!((&again.samples, &again.extfrag), (&run.samples, &run.extfrag));
    let without = |run: &Run| -> Vec<(String, u64)> {
        run.counters.iter().map(|(name, count)| (name.to_owned(), count)).collect()
    };
    assert_eq!(without(&again), without(&run));

    let message = crate::error::line(&write(&[run], &target).unwrap_err());
    assert!(message.ends_with("linux-6.10+boost=off: exists already"), "{message}");
}

#[test]
fn throughputs_of_netperf_come_back() {
    let temporary = tempfile::tempdir().unwrap();
    let samples = [
        ("recv-64".to_owned(), vec![260_000_000, 261_000_000]),
        ("send-64".to_owned(), vec![261_460_000, 262_000_000]),
    ];
    let run = Run {
        policy: "a".into(),
        workload: "netperf-udp".into(),
        samples: samples.into(),
        ..Run::default()
    };
    write(std::slice::from_ref(&run), &temporary.path().join("log")).unwrap();
    let kernel = temporary.path().join("log/a");
    fs::remove_file(kernel.join("iter-0").join(OWN)).unwrap();
    assert_eq!(runs(&kernel).unwrap()[0].samples, run.samples);
}
