//! A kernel as a user writes it: a preset and its changes.

use pageblock::policy::{PolicyError, Value};

use crate::preset::{self, Preset};
use crate::{Kernel, Switch};

/// An error in the text of a kernel. Each message is one line that says what is allowed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelError {
    /// The first part is not the name of a preset.
    #[error("{0} (`pageblock policy list` prints every name)")]
    UnknownPreset(String),
    /// A part has no `=`.
    #[error("'{0}' is not of the form switch=value")]
    NotAnAssignment(String),
    /// The part before `=` is not the name of a switch.
    #[error("unknown switch '{name}'{near} (`pageblock policy show NAME` prints every switch)")]
    UnknownSwitch {
        /// The given name.
        name: String,
        /// Similar names, with the words around them.
        near: String,
    },
    /// A switch is set twice.
    #[error("'{first}' and '{second}' set the same switch; give it once")]
    Twice {
        /// The first assignment.
        first: String,
        /// The second assignment.
        second: String,
    },
    /// The part after `=` is not a value of the switch.
    #[error("switch '{switch}' has no value '{value}'; {allowed}")]
    UnknownValue {
        /// The switch.
        switch: &'static str,
        /// The given value.
        value: String,
        /// What is allowed.
        allowed: String,
    },
}

/// A kernel with its label, the preset that it starts from, and the switches that were set by hand.
///
/// Switches set by hand override a workload's settings; the other values of the preset do not.
#[derive(Clone, Debug)]
pub struct Named {
    /// The name that the user gave it.
    pub label: String,
    /// The preset that it starts from.
    pub base: &'static Preset,
    /// The kernel.
    pub kernel: Kernel,
    /// The switches set by hand, in the order given.
    pub set: Vec<(Switch, Value)>,
}

impl Named {
    /// Returns an unchanged preset.
    #[must_use]
    pub fn of_preset(base: &'static Preset) -> Self {
        Self { label: base.name.to_owned(), base, kernel: base.kernel(), set: Vec::new() }
    }

    /// Reads `NAME,switch=value,...`. `fallback_pick=hybrid(3)` sets `hybrid_threshold` too.
    ///
    /// # Errors
    /// [`KernelError`].
    pub fn parse(text: &str) -> Result<Self, KernelError> {
        let mut parts = text.split(',').map(str::trim);
        let mut named = Self::of_preset(find_preset(parts.next().unwrap_or_default())?);
        let mut before: Vec<&str> = Vec::new();
        for part in parts {
            let (switch, value) = part
                .split_once('=')
                .ok_or_else(|| KernelError::NotAnAssignment(part.to_owned()))?;
            named.assign(switch.trim(), value.trim()).map_err(|error| match error {
                KernelError::Twice { first, .. } => {
                    let first = before.iter().find(|given| sets_as(given, &first));
                    let first = first.copied().unwrap_or_default().to_owned();
                    KernelError::Twice { first, second: part.to_owned() }
                }
                error => error,
            })?;
            before.push(part);
        }
        text.trim().clone_into(&mut named.label);
        Ok(named)
    }

    /// Sets a switch by hand.
    ///
    /// # Errors
    /// [`KernelError`] for an unknown switch or value, or a switch that was set before. Nothing is changed
    /// then.
    pub fn assign(&mut self, name: &str, value: &str) -> Result<(), KernelError> {
        let switch = Switch::find(name).ok_or_else(|| unknown_switch(name))?;
        if name == "fallback_pick"
            && let Some(threshold) = value.strip_prefix("hybrid(").and_then(|v| v.strip_suffix(')'))
        {
            self.assign("hybrid_threshold", threshold)?;
            return self.assign(name, "hybrid");
        }
        if let Some((_, first)) = self.set.iter().find(|(s, _)| *s == switch) {
            let assignment = |value: &str| format!("{}={value}", switch.name());
            let (first, second) = (assignment(&first.to_string()), assignment(value));
            return Err(KernelError::Twice { first, second });
        }
        if !switch.set(&mut self.kernel, value) {
            return Err(KernelError::UnknownValue {
                switch: switch.name(),
                value: value.to_owned(),
                allowed: switch.allowed(),
            });
        }
        self.set.push((switch, switch.get(&self.kernel)));
        Ok(())
    }

    /// Returns the kernel with a workload's settings, overridden by those set by hand.
    #[must_use]
    pub fn resolve(&self, set_up: impl FnOnce(&mut Kernel)) -> Kernel {
        let mut kernel = self.kernel;
        set_up(&mut kernel);
        for (switch, value) in &self.set {
            // The value was read from a kernel, so it is valid.
            let is_value = switch.set(&mut kernel, &value.to_string());
            debug_assert!(is_value, "{}", switch.name());
        }
        kernel
    }
}

pub(crate) fn find_preset(name: &str) -> Result<&'static Preset, KernelError> {
    preset::find(name)
        .ok_or_else(|| KernelError::UnknownPreset(PolicyError::UnknownPreset(name).to_string()))
}

/// Reports whether a part of a kernel's text sets the same switch as an assignment `switch=value`; `hybrid(3)`
/// sets two switches.
fn sets_as(part: &str, assignment: &str) -> bool {
    let switch = assignment.split('=').next().unwrap_or_default();
    let name = part.split('=').next().unwrap_or_default().trim();
    name == switch || (switch == "hybrid_threshold" && name == "fallback_pick")
}

fn unknown_switch(name: &str) -> KernelError {
    let mut near: Vec<_> = Switch::all()
        .map(|s| (strsim::jaro_winkler(name, s.name()), s.name()))
        .filter(|&(likeness, _)| likeness > 0.85)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let names: Vec<_> = near.iter().take(3).map(|&(_, name)| name).collect();
    let near = match names[..] {
        [] => String::new(),
        [one] => format!("; the most similar is {one}"),
        _ => format!("; the most similar are {}", names.join(", ")),
    };
    KernelError::UnknownSwitch { name: name.to_owned(), near }
}
