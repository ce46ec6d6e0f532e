//! Machines by name, or from a user's file.

use std::path::Path;

use anyhow::{Context, bail};
use pageblock_lab::sim::machine_file::{self, MachineSpec, Scale};

/// The machines that come with the program.
const KNOWN: &[(&str, &str)] = &[
    ("skylake-1s", include_str!("../../../machines/skylake-1s.toml")),
    ("haswell-2s", include_str!("../../../machines/haswell-2s.toml")),
    ("small-4g", include_str!("../../../machines/small-4g.toml")),
    ("small-1g", include_str!("../../../machines/small-1g.toml")),
    ("numa-8g", include_str!("../../../machines/numa-8g.toml")),
    ("single-4g", include_str!("../../../machines/single-4g.toml")),
    ("weiner-1g8", include_str!("../../../machines/weiner-1g8.toml")),
    ("phone-3g", include_str!("../../../machines/phone-3g.toml")),
    ("phone-3g-kill", include_str!("../../../machines/phone-3g-kill.toml")),
    ("chromebook-4g", include_str!("../../../machines/chromebook-4g.toml")),
    ("phone-2g8", include_str!("../../../machines/phone-2g8.toml")),
];

/// Their names.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|(name, _)| *name)
}

/// Reads a machine argument: a name, or the path of a TOML file (it ends with .toml or has a /).
pub(crate) fn load(argument: &str, scale: Scale) -> anyhow::Result<MachineSpec> {
    if argument.ends_with(".toml") || argument.contains('/') {
        let path = Path::new(argument);
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("machine file {}", path.display()))?;
        return machine_file::parse(&text, scale).with_context(|| path.display().to_string());
    }
    let Some((name, text)) = KNOWN.iter().find(|(name, _)| *name == argument) else {
        let names = names().collect::<Vec<_>>().join(", ");
        bail!("there is no machine '{argument}'; there are {names}, or a .toml file");
    };
    machine_file::parse(text, scale).with_context(|| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_machine_can_be_made_and_shrunk() {
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
