//! A flight recorder over a machine's real files, whose counters the tests change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use pageblock_doctor::checkup::{Hurts, checkup};
use pageblock_doctor::flight::{
    Damage, EventKind, FileText, Flight, Frame, Now, Plan, Recorder, Ring, Sampler, bundle, kept,
    pair, timeline,
};

const START_MS: u64 = 1_700_000_000_000;

/// A machine whose files can be changed.
struct Machine {
    folder: tempfile::TempDir,
    vmstat: String,
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

impl Machine {
    fn new() -> Self {
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines/6.18-24g");
        let folder = tempfile::tempdir().unwrap();
        copy(&own, &folder.path().join("root"));
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("dev")).unwrap();
        fs::write(root.join("dev/kmsg"), "6,1,1000,-;booted\n").unwrap();
        fs::write(root.join("proc/cmdline"), "root=UUID=secret transparent_hugepage=madvise\n")
            .unwrap();
        let vmstat = fs::read_to_string(root.join("proc/vmstat")).unwrap();
        Self { folder, vmstat }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn ring(&self) -> PathBuf {
        self.folder.path().join("a.ring")
    }

    fn plan(&self, keep: usize) -> Plan {
        Plan { root: self.root(), ring: self.ring(), bytes: Some(4 << 20), keep }
    }

    /// Sets the counters of a second.
    fn set(&self, second: u64, stalls: u64) {
        let text = self.vmstat.replace("compact_stall 0\n", &format!("compact_stall {stalls}\n"));
        let text = text.replace("pgfault ", &format!("pgfault {second}"));
        fs::write(self.root().join("proc/vmstat"), text).unwrap();
        fs::write(self.root().join("proc/uptime"), format!("{}.07 1.00\n", 5000 + second)).unwrap();
    }

    fn log(&self, text: &str) {
        use std::io::Write;

        let path = self.root().join("dev/kmsg");
        let mut log = fs::OpenOptions::new().append(true).open(path).unwrap();
        for line in text.lines() {
            writeln!(log, "4,9,77000000,-;{line}").unwrap();
        }
    }
}

const fn at(second: u64) -> Now {
    Now { wall_ms: START_MS + second * 1000, mono_ms: second * 1000, cpu_s: 0.0 }
}

/// Frames that differ as a busy machine's do.
fn frames(count: u64) -> Vec<Frame> {
    let mut random = 7_u64;
    let mut next = move || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 40
    };
    let frame = |n| {
        let counters = (0..60).map(|counter| format!("counter_{counter} {}\n", next()));
        let vmstat = counters.collect::<String>();
        let lists = format!("Node 0, zone   Normal {:>6} {:>6} \n", next() % 9000, next() % 70);
        let files = [("/proc/vmstat", vmstat), ("/proc/buddyinfo", lists)];
        let files = files.map(|(name, text)| (name.to_owned(), Ok(text))).to_vec();
        Frame { wall_ms: START_MS + n * 1000, files, ..Frame::default() }
    };
    (0..count).map(frame).collect()
}

type Moment = (u64, BTreeMap<String, FileText>);

fn moments(path: &Path) -> Vec<Moment> {
    let mut moments = Vec::new();
    let see = &mut |moment: &pageblock_doctor::flight::Moment<'_>| {
        moments.push((moment.wall_ms(), moment.files()));
        true
    };
    Flight::open(path).unwrap().each(see).unwrap();
    moments
}

fn written(frames: &[Frame]) -> Vec<Moment> {
    frames.iter().map(|frame| (frame.wall_ms, frame.files.iter().cloned().collect())).collect()
}

#[test]
fn what_was_read_comes_back_byte_for_byte() {
    let machine = Machine::new();
    let mut recorder = Recorder::start(machine.plan(0)).unwrap();
    let mut texts = Vec::new();
    for second in 0..100 {
        machine.set(second, second / 7);
        recorder.sample(at(second)).unwrap();
        texts.push(fs::read_to_string(machine.root().join("proc/vmstat")).unwrap());
    }
    recorder.finish().unwrap();
    let moments = moments(&machine.ring());
    assert_eq!(moments.len(), 100);
    for ((second, text), (wall_ms, files)) in (0..).zip(texts).zip(&moments) {
        assert_eq!(*wall_ms, START_MS + second * 1000);
        assert_eq!(files["/proc/vmstat"], Ok(text));
        for name in ["/proc/zoneinfo", "/proc/pagetypeinfo", "/proc/buddyinfo", "/proc/meminfo"] {
            let own = fs::read_to_string(machine.root().join(&name[1..])).unwrap();
            assert_eq!(files[name], Ok(own), "{name}");
        }
        assert!(!files.contains_key("/proc/slabinfo"), "this machine has none");
    }
}

#[test]
fn a_ring_that_was_cut_is_read_up_to_the_last_whole_sample() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole");
    let frames = frames(150);
    let mut ring = Ring::open(&path, Some(1 << 20)).unwrap();
    let mut ends = vec![4096 + 16];
    for frame in &frames {
        ends.push(ends.last().unwrap() + ring.append(frame).unwrap());
    }
    drop(ring);
    assert!(*ends.last().unwrap() < 4096 + (64 << 10), "all are in the first part");
    let (bytes, all) = (fs::read(&path).unwrap(), written(&frames));
    let cut = folder.path().join("cut");
    let around = |end: usize| [end - 1, end, end + 13];
    for place in ends.iter().step_by(5).copied().flat_map(around).chain((4096..ends[2]).step_by(31))
    {
        let whole = ends.iter().filter(|&&end| end <= place).count().saturating_sub(1);
        // Cut, and with blocks that did not reach the disk: empty ones, and older ones.
        let zeros = [&bytes[..place], &vec![0; bytes.len() - place]].concat();
        let older = [&bytes[..place], &bytes[..bytes.len() - place]].concat();
        for damaged in [&bytes[..place], &zeros, &older] {
            fs::write(&cut, damaged).unwrap();
            let read = moments(&cut);
            assert!(read.len() >= whole, "{place}: {} of {whole}", read.len());
            assert!(read.len() <= whole + 1, "{place}");
            assert_eq!(read, all[..read.len()], "{place}");
        }
    }
    // A cut ring is gone on with.
    fs::write(&cut, &bytes[..ends[50] + 5]).unwrap();
    let mut ring = Ring::open(&cut, None).unwrap();
    ring.append(&frames[149]).unwrap();
    drop(ring);
    let read = moments(&cut);
    assert_eq!((&read[..50], &read[50]), (&all[..50], &all[149]));
    for place in [0, 5, 27] {
        fs::write(&cut, &bytes[..place]).unwrap();
        let error = Flight::open(&cut).err().expect("no header").to_string();
        assert!(error.contains("cut"), "{error}");
    }
}

#[test]
fn a_full_ring_keeps_its_size_and_the_newest_samples() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.ring");
    let mut ring = Ring::open(&path, Some(1 << 20)).unwrap();
    let size = fs::metadata(&path).unwrap().len();
    let frames = frames(20_000);
    let mut bytes = 0;
    for frame in &frames {
        bytes += ring.append(frame).unwrap();
    }
    assert!(bytes > 3 << 20, "{bytes}: it went round more than twice");
    assert_eq!(fs::metadata(&path).unwrap().len(), size);
    assert!(size <= (1 << 20) + 4096);
    let read = moments(&path);
    assert_eq!(read, written(&frames)[frames.len() - read.len()..]);
    assert!(read.len() * bytes / frames.len() > (1 << 20) * 9 / 10, "{}", read.len());
    let error = Ring::open(&path, None).err().expect("it is written").to_string();
    assert!(error.contains("another process writes this ring"), "{error}");
    drop(ring);
    let error = Ring::open(&path, Some(2 << 20)).err().expect("another size").to_string();
    assert!(error.contains("a ring of 1 MiB"), "{error}");
    let mut ring = Ring::open(&path, None).unwrap();
    ring.append(&frames[0]).unwrap();
    let again = moments(&path);
    assert_eq!(again.last(), written(&frames[..1]).first());
    assert!(again.len() + 2000 > read.len(), "a restart costs one sample's bytes, no more");
}

#[test]
fn the_hour_around_a_failure_is_kept() {
    let report = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/reports/6.15-oom-shmem.txt"),
    );
    let machine = Machine::new();
    let mut recorder = Recorder::start(machine.plan(2)).unwrap();
    let mut told = Vec::new();
    for second in 0..3 * 3600 {
        machine.set(second, 0);
        if second == 5000 {
            machine.log(report.as_ref().unwrap());
        }
        let seen = recorder.sample(at(second)).unwrap();
        told.extend(seen.kept.map(|path| (second, path)));
        if second == 5000 {
            assert_eq!(seen.events.iter().map(|e| e.kind).max(), Some(EventKind::Oom));
            // What was before is safe at once.
            assert!(moments(&told[0].1).len() >= 1800);
        }
    }
    recorder.finish().unwrap();
    assert_eq!(told.iter().map(|(second, _)| *second).collect::<Vec<_>>(), [5000, 5000 + 1800]);
    let path = &told[0].1;
    assert_eq!(path.file_name().unwrap(), "20231114T233640Z-oom.flight");
    assert_eq!(kept(machine.folder.path()).unwrap(), std::slice::from_ref(path));
    let hour = moments(path);
    let mut times = hour.iter().map(|(ms, _)| (ms - START_MS) / 1000);
    assert!(hour[0].0 <= START_MS + 3200 * 1000);
    assert_eq!(times.next_back(), Some(6800));
    let made = bundle(&Flight::open(path).unwrap(), None).unwrap();
    assert_eq!(made.event.as_ref().map(|event| event.kind), Some(EventKind::Oom));
    assert_eq!(made.explanations.len(), 1);
    assert_eq!(
        (made.before.time.as_str(), made.after.time.as_str()),
        ("2023-11-14T23:35:40Z", "2023-11-14T23:37:40Z")
    );
    let log = made.checkup.log.expect("lines of the log");
    assert!(log.failures.iter().map(|failures| failures.count).sum::<u64>() > 0);
    assert_eq!(made.after.files["/proc/cmdline"], "transparent_hugepage=madvise\n");
    assert!(made.changed.iter().any(|(name, ..)| name == "pgfault"));
}

#[test]
fn old_failures_make_room_and_an_end_completes_the_last() {
    let machine = Machine::new();
    let mut recorder = Recorder::start(machine.plan(2)).unwrap();
    let line = "app: page allocation failure: order:4, mode:0x40dc0(GFP_KERNEL|__GFP_COMP), nodemask=(null)";
    for second in 0..6000 {
        machine.set(second, 0);
        if [0, 100, 2000, 5000].contains(&second) {
            machine.log(line);
        }
        recorder.sample(at(second)).unwrap();
    }
    let recorded = recorder.finish().unwrap();
    assert_eq!(recorded.kept.len(), 3, "the second belongs to the first one's hour");
    let left = kept(machine.folder.path()).unwrap();
    assert_eq!(left, recorded.kept[1..]);
    assert_eq!(moments(&left[1]).last().unwrap().0, START_MS + 5999 * 1000);
}

#[test]
fn a_stall_is_an_event_and_doctor_reads_rates_between_two_moments() {
    let machine = Machine::new();
    let mut recorder = Recorder::start(machine.plan(0)).unwrap();
    for second in 0..300_u64 {
        machine.set(second, second.saturating_sub(100).min(60) * 50);
        recorder.sample(at(second)).unwrap();
    }
    recorder.finish().unwrap();
    let flight = Flight::open(&machine.ring()).unwrap();
    let made = timeline(&flight, 0, u64::MAX, 60_000).unwrap();
    assert_eq!(made.events.len(), 1, "{:?}", made.events);
    assert_eq!(made.events[0].kind, EventKind::Stall);
    assert_eq!((made.samples, made.boots, made.rows.len()), (300, 0, 5));
    let (first, second) = pair(&flight, START_MS + 110_000, START_MS + 150_000).unwrap();
    let hurts = checkup(&first, Some(&second));
    assert_eq!(hurts.hurts, Hurts::Yes);
    let rates = hurts.rates.unwrap();
    assert!((rates.compact_stall - 50.0).abs() < 0.01 && (rates.seconds - 40.0).abs() < 0.01);
    let (first, second) = pair(&flight, START_MS + 200_000, START_MS + 290_000).unwrap();
    let examined = checkup(&first, Some(&second));
    assert_eq!(examined.hurts, Hurts::No);
    let times = ["2023-11-14T22:16:40Z", "2023-11-14T22:18:10Z"].map(str::to_owned);
    assert_eq!(examined.examined, Some(times));
    // Another time than that of the file is none of it.
    for (from, to) in
        [(0, 1000), (START_MS - 5000, START_MS + 50_000), (START_MS, START_MS + 300_000)]
    {
        let error = pair(&flight, from, to).map(|_| ()).expect_err("outside").to_string();
        assert!(
            error.contains("it covers 2023-11-14T22:13:20Z to 2023-11-14T22:18:19Z"),
            "{error}"
        );
    }
    let error = bundle(&flight, Some(START_MS + 900_000)).expect_err("outside").to_string();
    assert!(error.contains("it covers"), "{error}");
}

/// The times of the samples that can be read, in seconds, and what cannot.
fn readable(path: &Path) -> (Vec<u64>, Vec<Damage>) {
    let mut times = Vec::new();
    let extent = Flight::open(path)
        .unwrap()
        .each(&mut |moment| {
            times.push((moment.wall_ms() - START_MS) / 1000);
            true
        })
        .unwrap();
    (times, extent.damage)
}

#[test]
fn samples_that_are_damaged_are_told_with_their_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("whole");
    let mut ring = Ring::open(&path, Some(1 << 20)).unwrap();
    for frame in &frames(1500) {
        ring.append(frame).unwrap();
    }
    drop(ring);
    let (all, none) = readable(&path);
    assert_eq!((all.len(), none), (1500, vec![]));
    let bytes = fs::read(&path).unwrap();
    let slot = |n: usize| 4096 + n * (64 << 10);
    let damaged = folder.path().join("damaged");
    // A bit of a sample, of the length of one, of a part's header; a part's second half that did not reach the disk.
    let half = slot(2) + (32 << 10)..slot(3);
    let flips = [slot(2) + 30_000, slot(2) + 16, slot(2) + 3].map(|at| (at..at + 1, 0x10));
    for (n, (range, flip)) in flips.into_iter().chain([(half, 0)]).enumerate() {
        let mut bytes = bytes.clone();
        bytes[range].iter_mut().for_each(|byte| *byte = if flip > 0 { *byte ^ flip } else { 0 });
        fs::write(&damaged, &bytes).unwrap();
        let (read, found) = readable(&damaged);
        let [Damage { from_ms: Some(from), to_ms: Some(to), .. }] = found[..] else {
            panic!("{n}: {found:?}");
        };
        let lost: Vec<u64> = all.iter().copied().filter(|time| !read.contains(time)).collect();
        let seconds = |ms: u64| (ms - START_MS) / 1000;
        assert_eq!((seconds(from) + 1, seconds(to) - 1), (lost[0], *lost.last().unwrap()), "{n}");
        let text = found[0].to_string();
        assert!(text.contains(" unreadable, 2023-11-14T22:"), "{text}");
        // Whoever reads the file says so.
        let made = timeline(&Flight::open(&damaged).unwrap(), 0, u64::MAX, 60_000).unwrap();
        assert_eq!(made.damage, std::slice::from_ref(&text));
        let flight = Flight::open(&damaged).unwrap();
        let (first, second) = pair(&flight, START_MS, to + 5000).unwrap();
        let examined = checkup(&first, Some(&second));
        assert!(examined.missing.iter().any(|missing| missing.why == text), "{n}");
        let made = bundle(&flight, None).unwrap();
        assert!(made.checkup.missing.iter().any(|missing| missing.why == text), "{n}");
    }
}

#[test]
fn a_machine_with_large_files_stays_within_the_limit() {
    let machine = Machine::new();
    let mut recorder = Recorder::start(machine.plan(0)).unwrap();
    for second in 0..3600_u64 {
        // 2,000 counters that change by chance.
        let mixed = |x: u64| (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let number =
            |n: u64| mixed(mixed((second * 2000 + n).wrapping_mul(0x9e37_79b9_7f4a_7c15))) >> 40;
        let text: String = (0..2000).map(|n| format!("counter{n} {}\n", number(n))).collect();
        fs::write(machine.root().join("proc/vmstat"), text).unwrap();
        recorder.sample(at(second)).unwrap();
    }
    let recorded = recorder.finish().unwrap();
    assert!(recorded.bytes <= 1_010_000, "{recorded:?}");
    assert!(recorded.samples > 100 && recorded.skipped > 1000, "{recorded:?}");
    assert_eq!(moments(&machine.ring()).len() as u64, recorded.samples);
}

#[test]
fn a_pipe_that_nobody_writes_is_refused_at_once() {
    let machine = Machine::new();
    let pipe = machine.root().join("proc/vmstat");
    fs::remove_file(&pipe).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    assert!(Flight::open(&pipe).is_err());
    let files: BTreeMap<_, _> = Sampler::new(&machine.root()).read(0).into_iter().collect();
    assert_eq!(files["/proc/vmstat"], Err("no regular file".to_owned()));
    assert!(files["/proc/zoneinfo"].is_ok());
}
