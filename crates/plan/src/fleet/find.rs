//! Which machines are below the paths that are named, and what was collected of each.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use pageblock_doctor::proc::tree::Tree;

use super::archive::is_archive;
use super::{Host, Source};
use crate::error::{Result, bail};

/// The most machines of one fleet.
const HOSTS: usize = 1_000_000;
/// The bytes that tell what a file is.
const START: u64 = 4096;
/// Files by which a folder is a machine's.
const FILES: [&str; 9] = [
    "proc",
    "sos_commands",
    "zoneinfo",
    "buddyinfo",
    "vmstat",
    "pagetypeinfo",
    "meminfo",
    "dmesg",
    "var",
];

/// Finds the machines below paths, sorted by path: a path is one machine, or a folder with a file or folder for each.
///
/// # Errors
/// If a path does not exist, or there is no machine.
pub fn hosts(paths: &[PathBuf]) -> Result<Vec<Host>> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    let mut add = |path: &Path, place: PathBuf| match seen.insert(place) {
        true => {
            found.push(host(path));
            Ok(found.len())
        }
        false => bail!("{}: the host is given twice", path.display()),
    };
    for path in paths {
        let Ok(about) = fs::metadata(path) else {
            bail!("{}: no such file or folder", path.display());
        };
        let Ok(place) = fs::canonicalize(path) else {
            bail!("{}: no such file or folder", path.display());
        };
        if about.is_file() || is_machine(path) {
            add(path, place)?;
            continue;
        }
        let below = match below(path) {
            Ok(below) => below,
            Err(error) => bail!("{}: {}", path.display(), error.kind()),
        };
        // Names that begin with a dot are a mount's own.
        let is_hidden = |path: &PathBuf| {
            path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"."))
        };
        for below in below.iter().filter(|path| !is_hidden(path)) {
            // A link below is another host: only what the user names is followed.
            let name = below.file_name().unwrap_or_default();
            if add(below, place.join(name))? > HOSTS {
                bail!(
                    "{}: more than {HOSTS} files; name the folders of some hosts",
                    path.display()
                );
            }
        }
    }
    if found.is_empty() {
        bail!(
            "no host in {}: expected a folder with a file or folder for each, such as sosreports, flight files, metrics, logs",
            paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
        );
    }
    part(&mut found);
    Ok(found)
}

/// Returns what a folder has, sorted. A mount that fails midway is an error: nothing is left out unsaid.
fn below(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Gives machines of one name the path as a part of it.
fn part(found: &mut [Host]) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for host in found.iter() {
        *counts.entry(host.name.clone()).or_default() += 1;
    }
    for host in found.iter_mut().filter(|host| counts[&host.name] > 1) {
        host.name = format!("{} ({})", host.name, host.path);
    }
}

fn is_machine(folder: &Path) -> bool {
    FILES.iter().any(|file| {
        ["", ".zst", ".xz"].iter().any(|end| folder.join(format!("{file}{end}")).exists())
    })
}

/// Returns a machine of a path; what it is says its content.
fn host(path: &Path) -> Host {
    let (source, at, error) = match find(path) {
        Ok((source, at)) => (source, at, None),
        Err(why) => (Source::Unknown, path.to_owned(), Some(why)),
    };
    let name = match source {
        Source::Tree => name_of(path).unwrap_or_else(|| stem(path)),
        _ => stem(path),
    };
    Host { name, path: at.display().to_string(), source, error }
}

/// Returns the machine of an unpacked archive. Its name is the tree's, or else the archive's.
pub(super) fn unpacked(folder: &Path, archive: &Host) -> Host {
    let inner = host(folder);
    match name_of(Path::new(&inner.path)) {
        Some(name) => Host { name, ..inner },
        None => Host { name: archive.name.clone(), ..inner },
    }
}

/// Returns what a path has of a machine: a folder without a tree may have a single ring, metrics or log.
fn find(path: &Path) -> std::result::Result<(Source, PathBuf), String> {
    let shown = |path: &Path, why: String| format!("{}: {why}", path.display());
    if !path.is_dir() {
        return Ok((of_file(path)?, path.to_owned()));
    }
    if is_machine(path) {
        return Ok((Source::Tree, path.to_owned()));
    }
    let files = below(path).map_err(|error| shown(path, error.kind().to_string()))?;
    // A sosreport is often in a folder of its own below that of the host.
    if let Some(inner) = files.iter().find(|file| file.is_dir() && is_machine(file)) {
        return Ok((Source::Tree, inner.clone()));
    }
    let mut known: Vec<(Source, PathBuf)> = files
        .iter()
        .filter(|file| file.is_file())
        .filter_map(|file| Some((of_file(file).ok()?, file.clone())))
        .collect();
    // The most telling first.
    known.sort_by_key(|(source, _)| *source as usize);
    let first = known.into_iter().next();
    first.ok_or_else(|| shown(path, "no tree, flight file, metrics or log in it".to_owned()))
}

/// Returns what a file is, by its first bytes.
fn of_file(path: &Path) -> std::result::Result<Source, String> {
    let shown = |why: &str| format!("{}: {why}", path.display());
    let mut start = Vec::new();
    let about = fs::metadata(path).map_err(|error| shown(&error.kind().to_string()))?;
    if !about.is_file() {
        return Err(shown("no regular file"));
    }
    let file = File::open(path).map_err(|error| shown(&error.kind().to_string()))?;
    file.take(START).read_to_end(&mut start).map_err(|error| shown(&error.kind().to_string()))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if name.ends_with(".zip") {
        return Err(shown("a zip file: unpack it first"));
    }
    if is_archive(&name) {
        return Ok(Source::Archive);
    }
    match start.as_slice() {
        [] => Err(shown("an empty file")),
        start if start.starts_with(b"PBFLIGHT") => Ok(Source::Flight),
        start if contains(start, b"pageblock_") && contains(start, b"# TYPE ") => {
            Ok(Source::Metrics)
        }
        start if pageblock_recording::is_packed(start) || !start.contains(&0) => Ok(Source::Log),
        start if matches!(start.get(..2), Some([0xff, 0xfe] | [0xfe, 0xff])) => Ok(Source::Log),
        _ => Err(shown("neither a flight file, metrics, nor a log")),
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|own| own == text)
}

/// Returns the name that a tree gives its machine.
fn name_of(tree: &Path) -> Option<String> {
    let files = ["etc/hostname", "proc/sys/kernel/hostname", "sos_commands/host/hostname"];
    let name = files.iter().find_map(|file| Tree::new(tree).read(file).ok())?;
    let name = name.lines().next()?.trim();
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns a file's name without its last ending.
fn stem(path: &Path) -> String {
    let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
    let name = name.unwrap_or(path.as_os_str()).to_string_lossy();
    name.strip_suffix(".tar").unwrap_or(&name).to_owned()
}
