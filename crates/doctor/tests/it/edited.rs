//! Machines that exist, edited, and what a checkup says of them.

use std::fs;
use std::path::{Path, PathBuf};

use pageblock_doctor::checkup::{Checkup, Finding, Sample, checkup};
use pageblock_doctor::proc::tree::Tree;

pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// A copy of a machine's files.
pub(crate) struct Machine(pub(crate) tempfile::TempDir);

impl Machine {
    /// Returns a quiet machine: 6.18, 24 GiB, one node.
    pub(crate) fn quiet() -> Self {
        Self::copy(&fixture("machines/6.18-24g"))
    }

    pub(crate) fn copy(from: &Path) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        copy(from, machine.0.path());
        machine
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.0.path().join(file)
    }

    pub(crate) fn write(&self, file: &str, text: &str) -> &Self {
        fs::create_dir_all(self.path(file).parent().unwrap()).unwrap();
        fs::write(self.path(file), text).unwrap();
        self
    }

    /// Replaces the line of a file that starts with a key.
    #[track_caller]
    pub(crate) fn line(&self, file: &str, key: &str, line: &str) -> &Self {
        let text = fs::read_to_string(self.path(file)).unwrap();
        assert!(text.lines().any(|line| line.starts_with(key)), "{file} has no {key}");
        let lines = text.lines().map(|old| if old.starts_with(key) { line } else { old });
        self.write(file, &(lines.collect::<Vec<_>>().join("\n") + "\n"))
    }

    /// Adds to a counter of vmstat.
    #[track_caller]
    pub(crate) fn count(&self, name: &str, more: u64) -> &Self {
        let text = fs::read_to_string(self.path("proc/vmstat")).unwrap();
        let key = format!("{name} ");
        let old = text.lines().find_map(|line| line.strip_prefix(&key)).expect(name);
        let new = old.parse::<u64>().unwrap() + more;
        self.line("proc/vmstat", &key, &format!("{key}{new}"))
    }

    pub(crate) fn sysctl(&self, name: &str, value: u64) -> &Self {
        let key = format!("vm.{name} ");
        self.line("sos_commands/kernel/sysctl_-a", &key, &format!("{key}= {value}"))
    }

    pub(crate) fn thp(&self, name: &str, value: &str) -> &Self {
        self.write(&format!("sys/kernel/mm/transparent_hugepage/{name}"), value)
    }

    pub(crate) fn log(&self, text: &str) -> &Self {
        self.write("sos_commands/kernel/dmesg", text)
    }

    pub(crate) fn thread(&self, pid: u32, name: &str, ticks: u64) -> &Self {
        let fields = "S 2 0 0 0 -1 2129984 0 0 0 0";
        self.write(
            &format!("proc/{pid}/stat"),
            &format!("{pid} ({name}) {fields} 0 {ticks} 0 0 20 0 1 0\n"),
        )
    }

    /// Makes free memory small: so many blocks by order in each zone.
    pub(crate) fn scattered(&self, counts: &str) -> &Self {
        let zones = ["DMA", "DMA32", "Normal"];
        let lines = zones.map(|zone| format!("Node 0, zone {zone:>8} {counts}\n"));
        self.write("proc/buddyinfo", &lines.concat())
    }

    /// Returns the machine ten seconds later.
    pub(crate) fn later(&self) -> Self {
        let later = Self::copy(self.0.path());
        let uptime = fs::read_to_string(later.path("proc/uptime")).unwrap();
        let seconds: f64 = uptime.split_whitespace().next().unwrap().parse().unwrap();
        later.write("proc/uptime", &format!("{:.2} 0.00\n", seconds + 10.0));
        later
    }

    pub(crate) fn sample(&self) -> Sample {
        Sample::read(&Tree::new(self.0.path()), true)
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => fs::write(&target, fs::read(&path).unwrap()).unwrap(),
        }
    }
}

pub(crate) fn one(machine: &Machine) -> Checkup {
    checkup(&machine.sample(), None)
}

pub(crate) fn two(first: &Machine, second: &Machine) -> Checkup {
    checkup(&first.sample(), Some(&second.sample()))
}

pub(crate) fn names(checkup: &Checkup) -> Vec<&'static str> {
    checkup.findings.iter().map(|finding| finding.name).collect()
}

#[track_caller]
pub(crate) fn only<'a>(checkup: &'a Checkup, name: &str) -> &'a Finding {
    assert_eq!(names(checkup), [name]);
    &checkup.findings[0]
}

#[track_caller]
pub(crate) fn runs(finding: &Finding, run: &str, undo: Option<&str>) {
    let found = finding.commands.iter().find(|command| command.run.contains(run));
    let found = found.unwrap_or_else(|| panic!("no {run} in {:?}", finding.commands));
    assert_eq!(found.undo.as_deref(), undo);
}

pub(crate) fn never_runs(finding: &Finding, run: &str) {
    assert!(finding.commands.iter().all(|command| !command.run.contains(run)), "{finding:?}");
}
