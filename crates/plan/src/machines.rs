//! Machines by name, from a user's file, or from `/proc`.

use std::borrow::Cow;
use std::path::Path;

use pageblock_recording::ProcFiles;
use pageblock_simulate::sim::cost::Cpu;
use pageblock_simulate::sim::fragment::Goal;
use pageblock_simulate::sim::machine_file::{self, MachineSpec, Scale};
use pageblock_simulate::sim::machine_proc;

use crate::error::{Place, Result, bail};
use crate::text::read_text;

/// The machines included in the program.
const KNOWN: &[(&str, &str)] = &[
    ("skylake-1s", include_str!("../machines/skylake-1s.toml")),
    ("haswell-2s", include_str!("../machines/haswell-2s.toml")),
    ("small-4g", include_str!("../machines/small-4g.toml")),
    ("small-1g", include_str!("../machines/small-1g.toml")),
    ("numa-8g", include_str!("../machines/numa-8g.toml")),
    ("single-4g", include_str!("../machines/single-4g.toml")),
    ("weiner-1g8", include_str!("../machines/weiner-1g8.toml")),
    ("phone-3g", include_str!("../machines/phone-3g.toml")),
    ("phone-3g-kill", include_str!("../machines/phone-3g-kill.toml")),
    ("chromebook-4g", include_str!("../machines/chromebook-4g.toml")),
    ("phone-2g8", include_str!("../machines/phone-2g8.toml")),
    ("skylake-1s-guest", include_str!("../machines/skylake-1s-guest.toml")),
    ("guest-640m", include_str!("../machines/guest-640m.toml")),
    ("guest-8g", include_str!("../machines/guest-8g.toml")),
    ("guest-16g", include_str!("../machines/guest-16g.toml")),
];

/// What chooses the CPUs in a machine argument.
const CPU: &str = "cpu";
/// The size limit of a machine file, above that of 1024 nodes with two ranges and a comment each.
const FILE_BYTES: u64 = 256 << 10;

/// Returns the names of the machines included in the program.
pub fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|(name, _)| *name)
}

/// Reads a machine argument: a name, or the path of a TOML file (it ends with .toml or has a /), and settings behind it:
/// `,cpu=KIND` for other CPUs, `,free=SHARE`, `,unmovable=SHARE` and `,spread=SHARE` for memory that is fragmented.
///
/// # Errors
/// If there is no such machine or setting, or the file is wrong.
pub fn load(argument: &str, scale: Scale) -> Result<MachineSpec> {
    let (file, settings) = settings(argument);
    let mut machine = machine_file::parse(&text(argument)?, scale).at(|| file)?;
    for (key, value) in settings {
        if key != CPU {
            let mut goal = machine.fragment.unwrap_or_default();
            if !keys().any(|of| of == key) {
                let allowed = keys().collect::<Vec<_>>().join(", ");
                bail!("{argument}: '{key}': allowed: {allowed}");
            }
            if let Err(why) = goal.set(key, value) {
                bail!("{argument}: '{key}={value}': {why}");
            }
            machine = machine.with_fragment(goal);
            continue;
        }
        let Some(cpu) = Cpu::ALL.into_iter().find(|cpu| cpu.name() == value) else {
            bail!(
                "{argument}: there is no cpu '{value}'; allowed: {}",
                Cpu::ALL.map(Cpu::name).join(", ")
            );
        };
        machine = machine.with_cpu(cpu);
    }
    Ok(machine)
}

/// Separates a machine argument from the settings behind it, from the first one that there is.
fn settings(argument: &str) -> (&str, Vec<(&str, &str)>) {
    let first = argument.match_indices(',').find(|(at, _)| setting(&argument[at + 1..]).is_some());
    let Some((at, _)) = first else { return (argument, Vec::new()) };
    let settings = argument[at + 1..].split(',').map(|text| setting(text).unwrap_or((text, "")));
    (&argument[..at], settings.collect())
}

/// Returns the key and the value of a setting that there is.
fn setting(text: &str) -> Option<(&str, &str)> {
    text.split_once('=').filter(|(key, _)| keys().any(|of| of == *key))
}

fn keys() -> impl Iterator<Item = &'static str> {
    Goal::KEYS.into_iter().chain([CPU])
}

/// Returns the TOML of a machine argument, as [`load`] reads it, without the settings behind it.
///
/// # Errors
/// If there is no such machine, or the file cannot be read.
pub fn text(argument: &str) -> Result<Cow<'static, str>> {
    let (file, _) = settings(argument);
    match file.ends_with(".toml") || file.contains('/') {
        true => read_text(Path::new(file), "a machine file", FILE_BYTES).map(Cow::Owned),
        false => known(file).map(Cow::Borrowed),
    }
}

/// Returns the TOML of a machine included in the program.
///
/// # Errors
/// If there is none of this name; it lists those that there are.
pub fn known(name: &str) -> Result<&'static str> {
    let Some((_, text)) = KNOWN.iter().find(|(known, _)| *known == name) else {
        let names = names().collect::<Vec<_>>().join(", ");
        bail!("there is no machine '{name}'; there are {names}, or a .toml file");
    };
    Ok(text)
}

/// Returns the TOML of the machine whose `/proc`, or a copy of it, is in the folder.
///
/// # Errors
/// If a file is missing or wrong.
pub fn from(folder: &Path, name: Option<&str>) -> Result<String> {
    let files = ProcFiles::open(folder)?;
    let path = folder.canonicalize().at(|| folder.display())?;
    let of_folder = path.file_name().unwrap_or_default().to_string_lossy();
    let host = Some(files.hostname.trim()).filter(|host| !host.is_empty());
    let name = name.or(host).unwrap_or(&of_folder);
    machine_proc::describe(&files, name).at(|| folder.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_may_get_other_cpus() {
        let cpu = |argument| load(argument, Scale::WHOLE).map(|machine| machine.cpu);
        assert_eq!(cpu("guest-640m").unwrap(), Cpu::Year2018);
        assert_eq!(cpu("guest-640m,cpu=emulated").unwrap(), Cpu::Emulated);
        let fragmented = load("guest-640m,cpu=emulated,free=30%,spread=0.8", Scale::WHOLE).unwrap();
        assert_eq!(fragmented.cpu, Cpu::Emulated);
        assert_eq!(fragmented.record.fragment.unwrap().spread, "80%");
        let wrong = cpu("guest-640m,free=30%,x=1").unwrap_err().to_string();
        assert_eq!(wrong, "guest-640m,free=30%,x=1: 'x=1': allowed: free, unmovable, spread, cpu");
        let wrong = cpu("guest-640m,free=130%").unwrap_err().to_string();
        assert_eq!(wrong, "guest-640m,free=130%: 'free=130%': allowed: 0% to 100%, or 0 to 1");
        let wrong = cpu("guest-640m,cpu=fast").unwrap_err().to_string();
        assert_eq!(wrong, "guest-640m,cpu=fast: there is no cpu 'fast'; allowed: 2018, emulated");
    }

    #[test]
    fn every_machine_can_be_created_and_scaled() {
        for (name, _) in KNOWN {
            for scale in ["1", "1/8"] {
                let machine = load(name, Scale::parse(scale).unwrap()).unwrap();
                assert!(!machine.zones.is_empty(), "{name} at {scale}");
            }
        }
        let pages = |name| load(name, Scale::WHOLE).unwrap().pages();
        assert_eq!(pages("skylake-1s"), 32112 * 256);
        assert_eq!(pages("haswell-2s"), 2 * 32028 * 256);
        assert_eq!(pages("numa-8g"), 7920 * 256);
        let phone = load("phone-2g8", Scale::WHOLE).unwrap();
        let block = phone.geometry.pageblock_pages();
        assert_eq!(
            (phone.pages() / block, phone.cma.len() / block, phone.zones.len()),
            (727, 113, 1)
        );
    }
}
