//! Logs of several files and folders.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use pageblock_doctor::window::Window;
use pageblock_doctor::{Explanation, unite};
use pageblock_recording::is_packed;

use crate::error::{Result, bail, line};
use crate::log::{explain, explain_from};

/// The files of a folder that are looked through, at most.
const FILES: usize = 10_000;
/// The files that are not read and are named, at most.
const NOTES: usize = 5;
/// How deep folders are looked through.
const DEPTH: usize = 12;
/// Parts of the names of files that may hold a kernel's log, or of folders that hold such files.
const NAMES: [&str; 9] =
    ["log", "dmesg", "messages", "kern", "journal", "console", "crash", "serial", ".txt"];
/// The bytes that are looked at to tell text.
const START: u64 = 512;

/// What logs say.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Logs {
    /// Every report, explained, in the order of the files and lines.
    pub found: Vec<Explanation>,
    /// The number of lines of all files.
    pub lines: usize,
    /// The number of files that were read.
    pub files: usize,
    /// What was left out, and why: a sentence each.
    pub notes: Vec<String>,
}

/// Explains the reports in files, folders, and standard input (`-`, which `stdin` gives). What several files have of one
/// event is one report.
///
/// # Errors
/// If a file that is named cannot be read, or the time that is asked for cannot be compared with that of the logs.
pub fn explain_all(
    paths: &[PathBuf],
    stdin: impl FnOnce() -> Box<dyn Read + Send>,
    window: &Window,
) -> Result<Logs> {
    let mut logs = Logs::default();
    let (mut stdin, mut is_one) = (Some(stdin), paths.len() == 1);
    for path in paths {
        if path == Path::new("-") {
            let Some(stdin) = stdin.take() else { bail!("-: standard input is named twice") };
            let read = explain_from(stdin(), "standard input")?;
            logs.add("standard input", read.found, read.lines);
        } else if path.is_dir() {
            is_one = false;
            logs.folder(path)?;
        } else {
            let read = explain(path)?;
            logs.add(&path.display().to_string(), read.found, read.lines);
        }
    }
    if is_one {
        logs.found.iter_mut().for_each(|of| of.file = None);
    } else {
        unite(&mut logs.found);
    }
    let all = logs.found.len();
    let without = match window.keep(&mut logs.found) {
        Err(why) => bail!("--since, --until, --at: {why}"),
        Ok(count) => count,
    };
    let outside = all - logs.found.len() - without;
    let why = ["are of another time", "have no time of day, and are left out"];
    for (count, why) in [outside, without].into_iter().zip(why).filter(|(count, _)| *count > 0) {
        logs.notes.push(format!("{count} reports {why}"));
    }
    Ok(logs)
}

impl Logs {
    fn add(&mut self, name: &str, found: Vec<Explanation>, lines: usize) {
        self.files += 1;
        self.lines += lines;
        let named = |of| Explanation { file: Some(name.to_owned()), ..of };
        self.found.extend(found.into_iter().map(named));
    }

    /// Adds the logs in a folder; those that cannot be read are noted.
    fn folder(&mut self, folder: &Path) -> Result<()> {
        let mut files = Vec::new();
        walk(folder, folder, DEPTH, &mut files, &mut self.notes);
        files.sort();
        if files.len() > FILES {
            bail!("{}: more than {FILES} files; name the folder of the logs", folder.display());
        }
        let (before, noted) = (self.files, self.notes.len());
        for file in files {
            let name = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
            match is_log(&file) {
                Ok(false) => continue,
                Err(error) => {
                    self.notes.push(format!("{}: {}", file.display(), error.kind()));
                    continue;
                }
                Ok(true) => {}
            }
            match explain(&file) {
                Ok(read) => self.add(&name, read.found, read.lines),
                Err(error) => self.notes.push(line(&error)),
            }
        }
        let more = self.notes.len().saturating_sub(noted + NOTES);
        if more > 0 {
            self.notes.truncate(noted + NOTES);
            self.notes.push(format!("{}: {more} more files are left out", folder.display()));
        }
        if self.files == before {
            let why = self.notes.first().map_or(String::new(), |note| format!(" ({note})"));
            bail!(
                "{}: no log in this folder{why}; expected files such as dmesg, kern.log, messages",
                folder.display()
            );
        }
        Ok(())
    }
}

/// Collects the files of a folder that may be logs. Links are not followed.
fn walk(
    root: &Path,
    folder: &Path,
    depth: usize,
    files: &mut Vec<PathBuf>,
    notes: &mut Vec<String>,
) {
    if depth == 0 || files.len() > FILES {
        return;
    }
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return notes.push(format!("{}: {}", folder.display(), error.kind())),
    };
    for entry in entries.flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(root, &path, depth - 1, files, notes),
            Ok(kind) if kind.is_file() => {
                let name =
                    path.strip_prefix(root).unwrap_or(&path).to_string_lossy().to_lowercase();
                // A folder of logs is full of names such as `boot`.
                let is_of_logs = root.file_name().is_some_and(|name| name == "log");
                if is_of_logs || NAMES.iter().any(|part| name.contains(part)) {
                    files.push(path);
                }
            }
            _ => {}
        }
    }
}

/// Returns whether a file is text, compressed or not, by its first bytes. What is packed in a way that is not read is
/// refused later, and so noted.
fn is_log(file: &Path) -> std::io::Result<bool> {
    let mut start = Vec::new();
    fs::File::open(file)?.take(START).read_to_end(&mut start)?;
    let is_wide = matches!(start.get(..2), Some([0xff, 0xfe] | [0xfe, 0xff]));
    Ok(!start.is_empty() && (is_packed(&start) || is_wide || !start.contains(&0)))
}
