//! Any bytes as a log and as the files of a machine, for the tests and for the fuzz targets: there is a result or one line.

use std::path::{Path, PathBuf};

use pageblock_doctor::checkup::{Sample, checkup};
use pageblock_doctor::flight::{Flight, bundle, pair, timeline};
use pageblock_doctor::forecast::forecast;
use pageblock_doctor::proc::tree::Tree;

/// What stands before each file of an input, with its name after it on the line.
const HEADING: &[u8] = b"=== ";
const NAMES: [&str; 19] = [
    "proc/buddyinfo",
    "proc/pagetypeinfo",
    "proc/zoneinfo",
    "proc/vmstat",
    "proc/meminfo",
    "proc/pressure/memory",
    "proc/uptime",
    "proc/version",
    "proc/cmdline",
    "proc/slabinfo",
    "proc/kpageflags",
    "proc/kpagecount",
    "proc/spl/kstat/zfs/arcstats",
    "proc/52/stat",
    "etc/sysctl.conf",
    "sos_commands/kernel/sysctl_-a",
    "sos_commands/kernel/dmesg",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "snapshot.txt",
];

/// Explains the bytes as a log.
pub(crate) fn explain(input: &[u8]) {
    let explained = pageblock_doctor::explain_log(input).expect("it is in memory");
    let log = String::from_utf8_lossy(input);
    assert_eq!(explained.lines, log.lines().count());
    assert!(explained.found.iter().all(|found| found.report.line <= explained.lines.max(1)));
    assert_eq!(pageblock_doctor::explain(&log), explained.found);
}

/// Examines the machine whose files the input holds, each after a line `=== NAME`. What comes after a line `=== later` is
/// the second sample.
pub(crate) fn examine(input: &[u8]) {
    let (first, second) = split(input, b"=== later\n");
    let first = Folder::with(first, "a");
    let second = second.map(|second| Folder::with(second, "b"));
    let read = |folder: &Folder| Sample::read(&Tree::new(&folder.0), true);
    let made = checkup(&read(&first), second.as_ref().map(read).as_ref());
    assert!(made.unusable.is_sorted());
    for missing in &made.missing {
        assert!(!missing.why.contains(|c: char| c.is_control()), "{:?}", missing.why);
    }
}

/// Makes the forecast for the machine whose files the input holds.
pub(crate) fn forecast_of(input: &[u8]) {
    let folder = Folder::with(input, "f");
    match forecast(&folder.0, &|_| (), &|_| false) {
        Ok(made) => {
            for range in &made.orders {
                assert!(range.at_least <= range.at_most, "{range:?}");
                assert!(range.free <= range.at_most, "{range:?}");
            }
        }
        Err(error) => {
            let text = error.to_string();
            assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
        }
    }
}

/// Reads the bytes as a flight file; those that do not begin as one are taken for the samples of one, parted by `=== `, with
/// right checksums around them.
pub(crate) fn flight(input: &[u8]) {
    let sealed = if input.starts_with(b"PBFLIGHT") { input.to_vec() } else { sealed(input) };
    let folder = Folder::with(b"", "flight");
    let path = folder.0.join("a.ring");
    std::fs::write(&path, sealed).unwrap();
    let Ok(flight) = Flight::open(&path) else { return };
    let mut times = Vec::new();
    let extent = flight.each(&mut |moment| {
        times.push(moment.wall_ms());
        true
    });
    assert_eq!(extent.unwrap().samples, times.len() as u64);
    let made = timeline(&flight, 0, u64::MAX, 1000);
    assert_eq!(made.is_ok(), !times.is_empty());
    if let (Some(first), Some(last)) = (times.first(), times.last()) {
        let (_, second) = pair(&flight, *first, *last).unwrap();
        assert!(checkup(&second, None).unusable.is_sorted());
        bundle(&flight, None).unwrap();
        bundle(&flight, Some(*first)).unwrap();
    }
}

/// Makes a flight file of samples, each compressed and with its checksum.
fn sealed(input: &[u8]) -> Vec<u8> {
    use std::io::Write;
    use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

    let mut header = [b"PBFLIGHT".as_slice(), &[1, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0]].concat();
    header.extend(xxh3_64(&header).to_le_bytes());
    header.resize(4096, 0);
    let number = 1_u64.to_le_bytes();
    header.extend(number);
    header.extend(xxh3_64(&number).to_le_bytes());
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    let mut rest = Some(input);
    let mut first = true;
    while let Some(sample) = rest {
        let (sample, later) = split(sample, HEADING);
        rest = later;
        encoder.write_all(sample).unwrap();
        encoder.flush().unwrap();
        let bytes = std::mem::take(encoder.get_mut());
        let length = bytes.len() as u32 | if first { 1 << 31 } else { 0 };
        header.extend(length.to_le_bytes());
        header.extend(xxh3_64_with_seed(&bytes, (1 << 32) ^ u64::from(length)).to_le_bytes());
        header.extend(bytes);
        first = false;
    }
    header
}

fn split<'a>(input: &'a [u8], mark: &[u8]) -> (&'a [u8], Option<&'a [u8]>) {
    match input.windows(mark.len()).position(|window| window == mark) {
        Some(at) => (&input[..at], Some(&input[at + mark.len()..])),
        None => (input, None),
    }
}

/// A folder of this thread that is removed with what is in it.
struct Folder(PathBuf);

impl Folder {
    fn with(input: &[u8], name: &str) -> Self {
        let thread = std::thread::current().id();
        let name = format!("pageblock-doctor-{}-{thread:?}-{name}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&folder.0).unwrap();
        let mut lines = input.split_inclusive(|&byte| byte == b'\n').peekable();
        while let Some(line) = lines.next() {
            let name = line.strip_prefix(HEADING).map(<[u8]>::trim_ascii);
            let name = NAMES.into_iter().find(|known| Some(known.as_bytes()) == name);
            let mut content = Vec::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with(HEADING)) {
                content.extend_from_slice(line);
            }
            if let Some(name) = name {
                let path = folder.0.join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, content).unwrap();
            }
        }
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a target does with an input.
#[cfg(test)]
type Call = fn(&[u8]);

/// Calls a function with every seed of a target.
#[cfg(test)]
fn each_seed(target: &str, call: fn(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut seeds = 0;
    for file in std::fs::read_dir(dir).unwrap() {
        call(&std::fs::read(file.unwrap().path()).unwrap());
        seeds += 1;
    }
    assert!(seeds > 0, "{target} has no seed");
}

#[test]
fn every_seed_gives_a_result_or_a_line() {
    each_seed("explain", explain);
    each_seed("examine", examine);
    each_seed("forecast", forecast_of);
    each_seed("flight", flight);
}

/// Real files, cut at every place of a grid and with bytes changed.
#[test]
fn damaged_machines_give_a_result_or_a_line() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    let calls: [(&str, Call); 3] =
        [("examine", examine), ("forecast", forecast_of), ("flight", flight)];
    for (target, call) in calls {
        for file in std::fs::read_dir(seeds.join(target)).unwrap() {
            let bytes = std::fs::read(file.unwrap().path()).unwrap();
            for n in 0..60 {
                call(&bytes[..bytes.len() * n / 60]);
                let mut changed = bytes.clone();
                let place = bytes.len() * n / 60;
                changed[place] = if n % 2 == 0 { b'9' } else { b'-' };
                call(&changed);
            }
        }
    }
}
