//! A kernel as a user writes it: a preset and its changes.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pageblock::policy::{PolicyError, Value, Values, notation};
use pageblock::preset::{self, Preset};

use crate::own::{self, Own};
use crate::setting::canonical;
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
    /// Packed placement, but [the allocator's policy does not allow it](pageblock::policy::Policy::allows_packed).
    #[error("{0}")]
    Packed(String),
    /// `decide=` names no policy that the program has.
    #[error("there is no policy '{name}' of one's own; {known}")]
    UnknownOwn {
        /// The given name.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// A kernel that was kept whole has no value for a switch.
    #[error("switch '{0}' is missing")]
    Missing(&'static str),
    /// The part after `=` is not among the values of the switch.
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

impl From<PolicyError<'_>> for KernelError {
    fn from(error: PolicyError<'_>) -> Self {
        match error {
            PolicyError::UnknownPreset(name) => {
                Self::UnknownPreset(PolicyError::UnknownPreset(&quoted(name)).to_string())
            }
            PolicyError::NotAnAssignment(part) => Self::NotAnAssignment(quoted(part)),
            PolicyError::UnknownSwitch(name) => unknown_switch(name),
            PolicyError::UnknownValue { switch, value } => {
                unknown_value(switch.name(), value, switch.values())
            }
            PolicyError::Packed => Self::Packed(error.to_string()),
            PolicyError::Twice { first, again } => {
                Self::Twice { first: quoted(first), second: quoted(again) }
            }
        }
    }
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
    /// The policy of one's own that decides in Linux's place, if there is one.
    pub own: Option<Own>,
}

impl Named {
    /// Returns an unchanged preset.
    #[must_use]
    pub fn of_preset(base: &'static Preset) -> Self {
        Self {
            label: base.name.to_owned(),
            base,
            kernel: Kernel::from(base),
            set: Vec::new(),
            own: None,
        }
    }

    /// Reads `NAME,switch=value,...`. `fallback_pick=hybrid(3)` sets `hybrid_threshold` too; `vm.swappiness` and paths
    /// below `/sys/kernel/mm/transparent_hugepage` are switches as well.
    ///
    /// # Errors
    /// [`KernelError`].
    pub fn parse(text: &str) -> Result<Self, KernelError> {
        let text = &*canonical(text);
        let start = |name| find_preset(name).map(Self::of_preset);
        let mut named = notation::read(text, start, Self::assign)?;
        named.check()?;
        text.trim().clone_into(&mut named.label);
        Ok(named)
    }

    /// Makes a kernel again of what was kept of it: its label, its preset, the names of the switches that were set
    /// by hand, and the value of every switch by name.
    ///
    /// # Errors
    /// [`KernelError`]: there is no such preset, switch or value, or a switch has no value.
    pub fn from_kept(
        label: &str,
        base: &str,
        set: &[String],
        switches: &BTreeMap<String, String>,
    ) -> Result<Self, KernelError> {
        let find = |name: &str| Switch::find(name).ok_or_else(|| unknown_switch(name));
        let mut named = Self::of_preset(find_preset(base)?);
        for (name, value) in switches {
            if name == own::KEY {
                named.set_own(value)?;
                continue;
            }
            set_value(find(name)?, &mut named.kernel, value)?;
        }
        if let Some(missing) = Switch::all().find(|switch| !switches.contains_key(switch.name())) {
            return Err(KernelError::Missing(missing.name()));
        }
        for name in set.iter().filter(|name| *name != own::KEY) {
            let switch = find(name)?;
            named.set.push((switch, switch.get(&named.kernel)));
        }
        label.clone_into(&mut named.label);
        named.check()?;
        Ok(named)
    }

    /// Tells whether its switches go together.
    ///
    /// # Errors
    /// [`KernelError::Packed`].
    pub fn check(&self) -> Result<(), KernelError> {
        Ok(self.kernel.allocator.check()?)
    }

    /// Sets a switch by hand; `fallback_pick=hybrid(3)` sets `hybrid_threshold` too.
    ///
    /// # Errors
    /// [`KernelError`] for an unknown switch or value, or a switch that was set before. Nothing is changed
    /// then.
    pub fn assign(&mut self, name: &str, value: &str) -> Result<(), KernelError> {
        notation::expand(name, value, |name, value| self.assign_one(name, value))
    }

    fn set_own(&mut self, name: &str) -> Result<(), KernelError> {
        if let Some(first) = self.own {
            let [first, second] = [first.name, name].map(|name| format!("{}={name}", own::KEY));
            return Err(KernelError::Twice { first, second: quoted(&second) });
        }
        let unknown = || KernelError::UnknownOwn { name: quoted(name), known: own::known() };
        self.own = Some(own::find(name).ok_or_else(unknown)?);
        Ok(())
    }

    fn assign_one(&mut self, name: &str, value: &str) -> Result<(), KernelError> {
        if name == own::KEY {
            return self.set_own(value);
        }
        let switch = Switch::find(name).ok_or_else(|| unknown_switch(name))?;
        if let Some((_, first)) = self.set.iter().find(|(s, _)| *s == switch) {
            let assignment = |value: &str| format!("{}={value}", switch.name());
            let (first, second) = (assignment(&first.to_string()), quoted(&assignment(value)));
            return Err(KernelError::Twice { first, second });
        }
        set_value(switch, &mut self.kernel, value)?;
        self.set.push((switch, switch.get(&self.kernel)));
        Ok(())
    }

    /// Returns the text of a kernel as an error quotes it: where it is long, its name and how many switches it sets.
    #[must_use]
    pub fn brief(text: &str) -> Cow<'_, str> {
        if text.len() <= QUOTED {
            return Cow::Borrowed(text);
        }
        let (name, switches) = text.split_once(',').unwrap_or((text, ""));
        let count = switches.split(',').filter(|part| !part.is_empty()).count();
        let set = if count == 0 { String::new() } else { format!(",... ({count} switches)") };
        Cow::Owned(quoted(name) + &set)
    }

    /// Returns the kernel with what a workload sets up, overruled by what was set by hand.
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

/// The longest text of a user's, in bytes, that an error repeats whole.
const QUOTED: usize = 100;

/// The start of what is too long to be repeated.
fn quoted(text: &str) -> String {
    let is_short = |&(at, c): &(usize, char)| at + c.len_utf8() <= QUOTED;
    let start: String = text.char_indices().take_while(is_short).map(|(_, c)| c).collect();
    if start.len() < text.len() { start + "..." } else { start }
}

fn set_value(switch: Switch, kernel: &mut Kernel, value: &str) -> Result<(), KernelError> {
    if switch.set(kernel, value) {
        return Ok(());
    }
    Err(unknown_value(switch.name(), value, switch.about().values))
}

fn unknown_value(switch: &'static str, value: &str, allowed: Values) -> KernelError {
    KernelError::UnknownValue { switch, value: quoted(value), allowed: allowed.to_string() }
}

pub(crate) fn find_preset(name: &str) -> Result<&'static Preset, KernelError> {
    preset::find(name).ok_or_else(|| PolicyError::UnknownPreset(name).into())
}

fn unknown_switch(name: &str) -> KernelError {
    let mut near = String::new();
    // A string takes whatever is written.
    let _ = notation::similar(&mut near, name, || Switch::all().map(Switch::name));
    KernelError::UnknownSwitch { name: quoted(name), near }
}
