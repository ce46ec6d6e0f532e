//! Measures the read speed of a recording's events: `read_speed FOLDER...`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use pageblock_recording::{Input, Recording, TraceDat};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for dir in std::env::args().skip(1) {
        let recording = Recording::open(Path::new(&dir))?;
        println!("{} (Linux {})", recording.name, recording.kernel);

        let start = Instant::now();
        let mut input = Input::open(&recording.events_file)?;
        let (mut lines, mut bytes) = (0u64, 0u64);
        while let Some(line) = input.next_line()? {
            lines += 1;
            bytes += line.bytes.len() as u64 + 1;
        }
        report("decompress and find lines", lines, start);
        println!("  {:.0} MB/s", bytes as f64 / start.elapsed().as_secs_f64() / 1e6);

        let start = Instant::now();
        let mut events = 0u64;
        for record in recording.events()? {
            std::hint::black_box(record?);
            events += 1;
        }
        report("read events", events, start);

        if let Some(path) = trace_dat(&recording) {
            let start = Instant::now();
            let mut events = 0u64;
            for record in TraceDat::open(&path, recording.decoding)? {
                std::hint::black_box(record?);
                events += 1;
            }
            report("unpack and read trace.dat", events, start);
        }

        let cache = std::env::temp_dir().join("pageblock-read-speed");
        let start = Instant::now();
        let columnar = recording.columnar(&cache, &mut |_, _| {})?;
        report("convert to columns (or find them in the cache)", columnar.events, start);
        println!("  {} bytes", columnar.path.metadata()?.len());

        let start = Instant::now();
        let mut batches = columnar.batches()?;
        let mut events = 0u64;
        while let Some(batch) = batches.next_batch()? {
            events += std::hint::black_box(batch).len() as u64;
        }
        report("read columns", events, start);

        let start = Instant::now();
        let mut chunks = columnar.chunks()?;
        let mut events = 0u64;
        while let Some(chunk) = chunks.next_chunk()? {
            events += std::hint::black_box(chunk).len() as u64;
        }
        report("read columns as chunks of events", events, start);

        let start = Instant::now();
        let mut events = 0u64;
        for record in columnar.records()? {
            std::hint::black_box(record?);
            events += 1;
        }
        report("read columns as events", events, start);
    }
    Ok(())
}

fn trace_dat(recording: &Recording) -> Option<PathBuf> {
    let names = ["trace.dat", "trace.dat.xz"];
    names.iter().map(|name| recording.dir.join(name)).find(|path| path.exists())
}

fn report(what: &str, events: u64, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    let rate = events as f64 / seconds / 1e6;
    println!("  {what}: {events} in {seconds:.3} s, {rate:.2} million/s");
}
