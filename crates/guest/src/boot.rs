//! A guest from its start to its end: what it reports, and why it ended.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pageblock_files::Access;

use crate::error::Error;
use crate::message::Message;

/// How often a guest is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The lines of the console that an error shows, and the most bytes of the console that are read for them.
const LAST_LINES: usize = 4;
const CONSOLE_BYTES: u64 = 64 << 10;
/// What a kernel or its first process prints when it cannot go on.
const DEATHS: [&str; 6] = [
    "Kernel panic",
    "BUG: ",
    "Oops: ",
    "Unable to mount root",
    "Out of memory and no killable",
    "triple fault",
];

/// How long a guest may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// From its start to its end.
    pub whole: Duration,
    /// Without a report, though it had a CPU to run on: it hangs then.
    pub silence: Duration,
}

/// A guest that is ended when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The files that a guest writes to.
#[derive(Clone, Copy, Debug)]
pub struct Files<'f> {
    /// What the kernel prints.
    pub console: &'f Path,
    /// The reports.
    pub report: &'f Path,
}

/// Runs a guest to its end and returns everything that it reported; `look` sees each report, and stops the guest by
/// returning `false`.
///
/// # Errors
/// [`Error::Guest`] with the reason and the console's last lines if it does not come to its end, [`Error::Stopped`].
pub fn run(
    label: &str,
    mut command: Command,
    files: Files<'_>,
    limits: Limits,
    look: &mut dyn FnMut(Option<&Message>) -> bool,
) -> Result<Vec<Message>, Error> {
    for file in [files.console, files.report] {
        pageblock_files::write(file, b"", Access::Shared).map_err(Error::at(file))?;
    }
    let program = Path::new(command.get_program()).to_owned();
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut guest = Running(command.spawn().map_err(Error::at(&program))?);
    let failed = |why: String| failure(label, files.console, why);
    let (begun, mut heard) = (Instant::now(), Instant::now());
    let mut waited_before = Duration::ZERO;
    let mut reader = Reader {
        file: File::open(files.report).map_err(Error::at(files.report))?,
        line: Vec::new(),
    };
    let mut messages = Vec::new();
    loop {
        let ended = guest.0.try_wait().map_err(Error::at(&program))?;
        let new = reader.read().map_err(|source| Error::Report {
            label: label.to_owned(),
            what: "report",
            why: source.to_string(),
        })?;
        if !look(None) {
            return Err(Error::Stopped);
        }
        for message in new {
            heard = Instant::now();
            waited_before = waited_for_cpus(guest.0.id());
            if !look(Some(&message)) {
                return Err(Error::Stopped);
            }
            messages.push(message);
        }
        if let Some(status) = ended {
            return if complete(&messages) {
                Ok(messages)
            } else {
                let mut said = String::new();
                // What QEMU said is a hint only.
                let _ = guest.0.stderr.take().map(|mut pipe| pipe.read_to_string(&mut said));
                Err(failed(death(files.console, &said, &messages, status.success())))
            };
        }
        if begun.elapsed() > limits.whole {
            return Err(failed(format!("not done after {} s (--timeout)", limits.whole.as_secs())));
        }
        // A busy host is no fault of the guest's; asked only when it matters, as it reads a file a thread.
        let silent = heard.elapsed();
        if silent > limits.silence
            && silent.saturating_sub(waited_for_cpus(guest.0.id()).saturating_sub(waited_before))
                > limits.silence
        {
            let booted = if messages.is_empty() { "it never booted" } else { "it hangs" };
            return Err(failed(format!(
                "no sign of life for {} s: {booted}",
                limits.silence.as_secs()
            )));
        }
        pause();
    }
}

/// Returns how long the thread of a process that waited longest for a CPU did so; nothing where the host does not count it.
fn waited_for_cpus(pid: u32) -> Duration {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Duration::ZERO };
    let schedstats = tasks.flatten().map(|task| fs::read_to_string(task.path().join("schedstat")));
    let longest = schedstats.flatten().filter_map(|text| run_delay(&text)).max();
    longest.unwrap_or(Duration::ZERO)
}

/// Returns the time on a run queue of a `schedstat`: its second number, in ns.
fn run_delay(schedstat: &str) -> Option<Duration> {
    Some(Duration::from_nanos(schedstat.split_whitespace().nth(1)?.parse().ok()?))
}

#[expect(clippy::disallowed_methods, reason = "a guest runs in real time")]
fn pause() {
    std::thread::sleep(LOOK_EVERY);
}

/// Reports whether the guest said that it is done, in whatever way.
fn complete(messages: &[Message]) -> bool {
    // The sign of life may come once more.
    messages.iter().any(|message| matches!(message, Message::End { .. } | Message::Failed { .. }))
}

/// Names the reason of an end before the end.
fn death(console: &Path, said: &str, messages: &[Message], in_order: bool) -> String {
    let text = last_part(console);
    if let Some(line) =
        text.lines().rev().find(|line| DEATHS.iter().any(|death| line.contains(death)))
    {
        return format!("the kernel died: {}", without_time(line));
    }
    match said.trim().lines().last() {
        Some(line) if !in_order => format!("QEMU: {line}"),
        _ if messages.is_empty() => "it ended before its first process ran".to_owned(),
        _ => "it ended before its load did".to_owned(),
    }
}

fn failure(label: &str, console: &Path, why: String) -> Error {
    let text = last_part(console);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LAST_LINES)..].join(" | ");
    let tail = if last.is_empty() { " (empty)".to_owned() } else { format!(": {last}") };
    Error::Guest { label: label.to_owned(), why, console: console.to_owned(), tail }
}

/// Returns a line of the kernel without its time.
fn without_time(line: &str) -> &str {
    line.trim()
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "))
        .map_or(line.trim(), |(_, rest)| rest)
}

/// Returns the end of the console, with only characters that can be shown.
fn last_part(console: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(console)?;
        let len = fs::metadata(console)?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(CONSOLE_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).into_owned();
    text.chars().filter(|&c| c == '\n' || !c.is_control()).collect()
}

/// Reads the reports as they arrive.
struct Reader {
    file: File,
    line: Vec<u8>,
}

impl Reader {
    fn read(&mut self) -> std::io::Result<Vec<Message>> {
        self.file.read_to_end(&mut self.line)?;
        let Some(end) = self.line.iter().rposition(|&byte| byte == b'\n') else {
            return Ok(Vec::new());
        };
        let rest = self.line.split_off(end + 1);
        let lines = std::mem::replace(&mut self.line, rest);
        let lines = lines.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        lines.map(|line| serde_json::from_slice(line).map_err(std::io::Error::other)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { whole: Duration::from_secs(20), silence: Duration::from_millis(300) };

    /// Runs a shell in the place of QEMU.
    fn shell(script: &str) -> Result<Vec<Message>, String> {
        let folder = tempfile::tempdir().unwrap();
        let (console, report) = (folder.path().join("console"), folder.path().join("report"));
        let mut command = Command::new("sh");
        command.arg("-c").arg(script).current_dir(&folder);
        let files = Files { console: &console, report: &report };
        let shown = folder.path().display().to_string();
        run("one", command, files, LIMITS, &mut |_| true)
            .map_err(|e| e.to_string().replace(&shown, "X"))
    }

    #[test]
    fn a_guest_that_reports_its_end_is_done() {
        let done = shell(
            r#"echo '{"kind":"booted","release":"6"}' > report; echo '{"kind":"failed","why":"x"}' >> report"#,
        );
        assert_eq!(done.unwrap().len(), 2);
    }

    #[test]
    fn waiting_for_a_cpu_is_no_silence() {
        assert_eq!(run_delay("3000 250 7\n"), Some(Duration::from_nanos(250)));
        assert_eq!(run_delay("3000"), None);
        // No such process.
        assert_eq!(waited_for_cpus(u32::MAX), Duration::ZERO);
    }

    #[test]
    fn deaths_are_named_with_the_consoles_last_lines() {
        let error = |script: &str| shell(script).unwrap_err();
        assert_eq!(
            error(
                "echo '[ 1.0] a' > console; echo '[ 1.2] Kernel panic - not syncing: x' >> console"
            ),
            "one: the kernel died: Kernel panic - not syncing: x; its console is X/console: [ 1.0] a | [ 1.2] Kernel panic - not syncing: x"
        );
        assert_eq!(
            error("echo bad option >&2; exit 1"),
            "one: QEMU: bad option; its console is X/console (empty)"
        );
        assert_eq!(
            error("sleep 100"),
            "one: no sign of life for 0 s: it never booted; its console is X/console (empty)"
        );
        assert!(error("true").contains("ended before its first process ran"));
    }
}
