//! The state of the machine at one end of a recording, and its settings.

use std::fs::{self, File};
use std::io::{BufWriter, Cursor, Write};
use std::path::Path;

use pageblock_recording::{Input, ListFigures, ProcFiles, ZoneFigures};

use crate::error::{Error, part, part_folder, read};
use crate::frames::{Span, write_frames};
use crate::stop::{Stop, Stoppable};

/// Files of `/proc` that are copied as they are.
const COPIES: [&str; 6] =
    ["buddyinfo", "pagetypeinfo", "zoneinfo", "vmstat", "meminfo", "slabinfo"];
/// Tables of a word a frame, which are compressed.
const TABLES: [&str; 2] = ["kpageflags", "kpagecount"];
/// Settings: single files, and folders whose files are all copied.
const SETTINGS: [&str; 4] = ["/proc/version", "/proc/cmdline", "/proc/iomem", "/proc/swaps"];
/// Where the kernel's configuration may stand, `*` for its release; the first that exists is kept.
const CONFIGS: [&str; 4] =
    ["/proc/config.gz", "/boot/config-*", "/lib/modules/*/config", "/lib/modules/*/build/.config"];
const SETTING_FOLDERS: [&str; 3] =
    ["/proc/sys/vm", "/sys/kernel/mm/transparent_hugepage", "/sys/kernel/mm/lru_gen"];
/// The largest setting that is kept.
const SETTING_BYTES: u64 = 1 << 20;

/// The state of memory in a folder.
pub(crate) const SNAPSHOT: &str = "snapshot.txt.zst";

/// The ending of a file that is being written.
const PART: &str = "part";

/// Writes the state of memory into a folder: `snapshot.txt`, and copies of files in `/proc`.
pub(crate) fn write_state(folder: &Path, stop: Stop<'_>) -> Result<(), Error> {
    part_folder(folder)?;
    let proc = Path::new("/proc");
    for name in COPIES {
        let path = proc.join(name);
        // Some kernels lack one of them.
        if path.exists() {
            let text = read(&path)?;
            let to = folder.join(name);
            // Without a wait for the disk, which would be part of the recording.
            part(&to)?.write_all(text.as_bytes()).map_err(Error::io(&to))?;
        }
    }
    let path = proc.join("zoneinfo");
    let (lines, spans) = zones(read(&path)?, &path)?;
    // A file has its name only when it is whole: a recorder may be killed at any time.
    let whole = folder.join(SNAPSHOT);
    let to = whole.with_extension(PART);
    let file = part(&to)?;
    let compressed = zstd::Encoder::new(file, 3).map_err(Error::io(&to))?;
    let mut out = BufWriter::new(compressed);
    let head = "# page-allocator snapshot v1 (host): from /proc/kpageflags and /proc/zoneinfo while the machine ran\n";
    out.write_all(head.as_bytes()).map_err(Error::io(&to))?;
    out.write_all(lines.as_bytes()).map_err(Error::io(&to))?;
    write_frames(&proc.join("kpageflags"), &spans, &mut out, &to, stop)?;
    let compressed = out.into_inner().map_err(|error| Error::io(&to)(error.into_error()))?;
    compressed.finish().map_err(Error::io(&to))?;
    fs::rename(&to, &whole).map_err(Error::io(&whole))
}

/// Copies the tables of frames, compressed.
pub(crate) fn write_tables(folder: &Path, stop: Stop<'_>) -> Result<(), Error> {
    for name in TABLES {
        let (from, whole) = (Path::new("/proc").join(name), folder.join(format!("{name}.zst")));
        let to = whole.with_extension(PART);
        let source = File::open(&from).map_err(Error::io(&from))?;
        let file = part(&to)?;
        zstd::stream::copy_encode(Stoppable::new(source, stop), file, 1).map_err(Error::io(&to))?;
        fs::rename(&to, &whole).map_err(Error::io(&whole))?;
    }
    Ok(())
}

/// Removes the files of a state that are not whole.
pub(crate) fn remove_parts(folder: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let path = entry.map_err(Error::io(folder))?.path();
        if path.extension().is_some_and(|ending| ending == PART) {
            fs::remove_file(&path).map_err(Error::io(&path))?;
        }
    }
    Ok(())
}

/// Returns the lines of a snapshot that `/proc/zoneinfo` gives, and the zones' frames.
fn zones(text: String, path: &Path) -> Result<(String, Vec<Span>), Error> {
    let zones = ProcFiles::read_zoneinfo(Input::from_reader(Cursor::new(text), path)?)?.zones;
    let mut lines = String::new();
    let mut spans = Vec::new();
    for zone in zones.iter().filter(|zone| zone.spanned > 0) {
        let Some(start) = zone.start_pfn else {
            return Err(Error::Unexpected {
                path: path.to_owned(),
                found: format!("node {} zone {}", zone.node, zone.name),
                expected: "a zone with start_pfn",
            });
        };
        lines += &zone_line(zone, start);
        lines += &lists(zone);
        let end = start + zone.spanned;
        spans.push(Span { node: u32::from(zone.node), zone: zone.name.clone(), start, end });
    }
    Ok((lines, spans))
}

fn zone_line(zone: &ZoneFigures, start: u64) -> String {
    let [min, low, high] = zone.wmark.map(Some);
    let figures = [
        ("nr_free_pages", zone.counters.get("nr_free_pages").copied()),
        ("boost", zone.boost),
        ("min", min),
        ("low", low),
        ("high", high),
        ("promo", zone.promo),
        ("spanned", Some(zone.spanned)),
        ("present", Some(zone.present)),
        ("managed", Some(zone.managed)),
        ("cma", zone.cma),
    ];
    let mut line = format!("zone node={} zone={} start_pfn={start}", zone.node, zone.name);
    for (key, number) in figures {
        line += &number.map_or(String::new(), |number| format!(" {key}={number}"));
    }
    if !zone.reserve.is_empty() {
        let numbers: Vec<String> = zone.reserve.iter().map(u64::to_string).collect();
        line += &format!(" lowmem_reserve={}", numbers.join("/"));
    }
    line + "\n"
}

/// Returns the lines of the per-CPU lists.
fn lists(zone: &ZoneFigures) -> String {
    let mut lines = String::new();
    for list in &zone.lists {
        let ListFigures { cpu, count, high, batch, high_min, high_max } = list;
        lines += &format!("pcpinfo node={} zone={} cpu={cpu}", zone.node, zone.name);
        lines += &format!(" count={count} high={high} batch={batch}");
        for (key, number) in [("high_min", high_min), ("high_max", high_max)] {
            lines += &number.map_or(String::new(), |number| format!(" {key}={number}"));
        }
        lines.push('\n');
    }
    lines
}

/// Writes `static.tar`: settings of the machine, the events' formats, and what the recorder says of itself.
pub(crate) fn write_settings(folder: &Path, more: &[(String, Vec<u8>)]) -> Result<(), Error> {
    let to = folder.join("static.tar");
    let file = part(&to)?;
    let mut tar = tar::Builder::new(file);
    let mut add = |name: &str, content: &[u8]| {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        let name = name.trim_start_matches('/').replace('/', "__");
        tar.append_data(&mut header, name, content).map_err(Error::io(&to))
    };
    for path in SETTINGS {
        if let Some(content) = setting(Path::new(path)) {
            add(path, &content)?;
        }
    }
    let release = read(Path::new("/proc/sys/kernel/osrelease"))?;
    let mut configs = CONFIGS.iter().map(|path| path.replace('*', release.trim()));
    if let Some((content, path)) = configs.find_map(|path| Some((setting(Path::new(&path))?, path)))
    {
        add(&path, &content)?;
    }
    for folder in SETTING_FOLDERS {
        for (path, content) in settings_below(Path::new(folder), 2) {
            add(&path, &content)?;
        }
    }
    for (name, content) in more {
        add(name, content)?;
    }
    tar.finish().map_err(Error::io(&to))
}

/// Returns the content of a setting; some can only be written, and are left out.
fn setting(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read;

    let mut content = Vec::new();
    File::open(path).ok()?.take(SETTING_BYTES).read_to_end(&mut content).ok()?;
    Some(content)
}

fn settings_below(folder: &Path, depth: u32) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            if depth > 1 {
                found.extend(settings_below(&path, depth - 1));
            }
        } else if let Some(content) = setting(&path) {
            found.push((path.display().to_string(), content));
        }
    }
    found
}

/// Returns the names of the tasks that run, by process id, those of threads too.
pub(crate) fn names() -> Vec<(u32, String)> {
    let mut names = Vec::new();
    let numbers = |folder: &Path| -> Vec<u32> {
        let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    for pid in numbers(Path::new("/proc")) {
        let tasks = Path::new("/proc").join(pid.to_string()).join("task");
        for task in numbers(&tasks) {
            // A task may end meanwhile.
            if let Ok(name) = fs::read_to_string(tasks.join(task.to_string()).join("comm")) {
                names.push((task, name.trim_end().to_owned()));
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zoneinfo_gives_the_lines_of_zones_and_lists() {
        let text = "Node 0, zone      DMA\n  per-node stats\n      nr_inactive_anon 12\n  pages free     3840\n        \
                    boost    0\n        min      10\n        low      13\n        high     16\n        promo    19\n        \
                    spanned  4095\n        present  3998\n        managed  3840\n        cma      0\n        protection: \
                    (0, 3019, 24137)\n      nr_free_pages 3840\n  pagesets\n    cpu: 0\n              count:    5\n              \
                    high:     0\n              batch:    1\n              high_min: 6\n              high_max: 240\n  vm stats \
                    threshold: 8\n    cpu: 1\n              count:    0\n              high:     0\n              batch:    1\n  \
                    node_unreclaimable:  0\n  start_pfn:           1\nNode 0, zone  Movable\n  pages free     0\n        \
                    spanned  0\n        managed  0\n";
        let (lines, spans) = zones(text.to_owned(), Path::new("zoneinfo")).unwrap();
        assert_eq!(
            lines,
            "zone node=0 zone=DMA start_pfn=1 nr_free_pages=3840 boost=0 min=10 low=13 high=16 promo=19 spanned=4095 \
             present=3998 managed=3840 cma=0 lowmem_reserve=0/3019/24137\n\
             pcpinfo node=0 zone=DMA cpu=0 count=5 high=0 batch=1 high_min=6 high_max=240\n\
             pcpinfo node=0 zone=DMA cpu=1 count=0 high=0 batch=1\n"
        );
        assert_eq!(spans, [Span { node: 0, zone: "DMA".into(), start: 1, end: 4096 }]);
        assert!(zones("Nod".to_owned(), Path::new("zoneinfo")).is_err());
    }
}
