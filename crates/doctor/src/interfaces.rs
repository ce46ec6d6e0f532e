//! The settings and the output of kernels by version: only this file of the crate compares versions. The behaviour of kernels is
//! in the presets.

use pageblock::preset;
use pageblock_kernel::Kernel;
use pageblock_recording::KernelVersion;

/// The sysctls of `vm` that commands set: the first version that has each, and its default.
const SYSCTLS: [(&str, (u16, u16), u64); 5] = [
    ("min_free_kbytes", (2, 6), 65_536),
    ("watermark_scale_factor", (4, 6), 10),
    ("watermark_boost_factor", (5, 0), 15_000),
    ("compaction_proactiveness", (5, 9), 20),
    ("defrag_mode", (6, 15), 0),
];

/// The values of `transparent_hugepage/defrag` since a version.
const DEFRAG: [(&str, (u16, u16)); 2] = [("defer", (4, 6)), ("defer+madvise", (4, 11))];

/// Returns whether a kernel is of a version or a later one; true if its version is unknown.
fn is_since(version: Option<&KernelVersion>, (major, minor): (u16, u16)) -> bool {
    version.is_none_or(|version| version.at_least(major, minor))
}

/// Returns whether a kernel has a sysctl of `vm` that commands set; true if its version is unknown.
#[must_use]
pub fn has_sysctl(version: Option<&KernelVersion>, name: &str) -> bool {
    SYSCTLS.iter().any(|&(known, since, _)| known == name && is_since(version, since))
}

/// Returns whether a kernel can compact memory: from 2.6.35 (748446bb6b5a), and those of RHEL 6; true if its version is unknown.
pub(crate) fn has_compaction(version: Option<&KernelVersion>) -> bool {
    version.is_none_or(|version| {
        let is_old = (version.major, version.minor) == (2, 6) && version.patch < 35;
        !is_old || version.text.contains(".el6")
    })
}

/// Returns whether a kernel boosts watermarks; true if its version is unknown.
pub(crate) fn has_boost(version: Option<&str>) -> bool {
    is_since(version.and_then(KernelVersion::parse).as_ref(), (5, 0))
}

/// Returns the default of a sysctl of `vm` that commands set; `None` for others.
pub(crate) fn default_of(name: &str) -> Option<u64> {
    SYSCTLS.iter().find(|(known, ..)| *known == name).map(|&(.., default)| default)
}

/// Returns whether `transparent_hugepage/defrag` has a value that defers to kcompactd.
pub(crate) fn has_defrag(version: Option<&KernelVersion>, value: &str) -> bool {
    DEFRAG.iter().any(|&(known, since)| known == value && is_since(version, since))
}

/// Returns the last version that printed free lists without the letters of types.
pub(crate) fn without_letters() -> Option<KernelVersion> {
    KernelVersion::parse("3.7")
}

/// Returns the rules of a kernel: those of the nearest preset.
pub(crate) fn rules(version: &KernelVersion) -> Kernel {
    preset::of_machine(version.row(), &version.text).into()
}

/// Returns the rules for the zones of a log without a version: those of the kernels that most logs are from.
pub(crate) fn usual_rules() -> Kernel {
    preset::nearest(6, 1).into()
}
