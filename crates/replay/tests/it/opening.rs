//! A folder with any files, verified as `pageblock verify` does it, for the tests and for the fuzz
//! target: whatever the files are, there is a result or one line.

use std::path::{Path, PathBuf};

use pageblock_recording::Recording;
use pageblock_replay::VerifyOptions;
use pageblock_replay::machine::recorded_preset;

/// The events that are replayed of one input.
const EVENTS: u64 = 5000;
/// What stands before each file of an input, with its name after it on the line.
const HEADING: &[u8] = b"=== ";
const NAMES: [&str; 10] = [
    "README.md",
    "comms.json",
    "static.tar",
    "events.tsv",
    "trace.txt",
    "trace.dat",
    "start/snapshot.txt",
    "start/pagetypeinfo",
    "end/snapshot.txt",
    "end/pagetypeinfo",
];

/// Makes a folder of the files that the input holds, each after a line `=== NAME`, and verifies it.
pub(crate) fn verify_folder(input: &[u8]) {
    let dir = Folder::new();
    let mut lines = input.split_inclusive(|&byte| byte == b'\n').peekable();
    while let Some(line) = lines.next() {
        let name = line.strip_prefix(HEADING).map(<[u8]>::trim_ascii);
        let name = NAMES.into_iter().find(|known| Some(known.as_bytes()) == name);
        let mut content = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with(HEADING)) {
            content.extend_from_slice(line);
        }
        if let Some(name) = name {
            let path = dir.0.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
    }
    if let Err(error) = verify(&dir.0) {
        let text = error.to_string();
        assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
    }
}

fn verify(dir: &Path) -> Result<(), pageblock_replay::Error> {
    let recording = Recording::open(dir)?;
    let columnar = recording.columnar(dir, &mut |_, _| {})?;
    let preset = recorded_preset(&recording);
    let limit = (columnar.events > EVENTS).then_some(EVENTS);
    let options = VerifyOptions { limit, ..VerifyOptions::default() };
    let (policy, name) = (&preset.policy, preset.name);
    pageblock_replay::verify(&recording, &columnar, policy, name, options, &mut |_, _| {}).map(drop)
}

/// A folder of this thread that is removed with what is in it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let thread = std::thread::current().id();
        let name = format!("pageblock-open-{}-{thread:?}-6.12", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_seed_is_verified_or_refused_in_a_line() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/open");
    for seed in std::fs::read_dir(seeds).unwrap() {
        verify_folder(&std::fs::read(seed.unwrap().path()).unwrap());
    }
}
