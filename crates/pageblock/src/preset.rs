//! Kernel versions as rows of a table.

use crate::policy::Policy;

/// A named policy.
pub struct Preset {
    /// Its name, `linux-6.12`.
    pub name: &'static str,
    /// What distinguishes it, in a line.
    pub summary: &'static str,
    /// Its switches.
    pub policy: Policy,
}

/// Every preset, oldest first.
pub static PRESETS: &[Preset] = &[];

/// The preset of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|p| p.name == name)
}
